"""Published numbers of real data sets, which are next to the repository."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from streameval import Accumulator, Event

DATASETS = Path(__file__).parents[3] / "shared" / "datasets"

pytestmark = pytest.mark.skipif(not DATASETS.is_dir(), reason="the data sets are not installed")


def _counted(name: str, *texts: str, by: tuple[str, ...]) -> Mapping[tuple[str, ...], Accumulator]:
    found: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
    with gzip.open(DATASETS / name / "events.ndjson.gz") as lines:
        for row in map(msgspec.json.decode, lines):
            lists = {key: row.get(key) for key in ("recommendations", "interactions", "positions")}
            found[tuple(row[label] for label in by)].append(Event(**lists))
    accumulators = {labels: Accumulator(*texts) for labels in found}
    for labels, events in found.items():
        accumulators[labels].update_many(events)
    return accumulators


def test_replayed_sessions_are_hit_as_often_as_expected() -> None:
    found = _counted("otto_test_sample", "hit_rate@10", by=("variant",))
    readings = {variant: each.read("hit_rate@10") for (variant,), each in found.items()}
    assert {variant: (each.total, each.count) for variant, each in readings.items()} == {
        "recent": (410, 842),
        "pop": (162, 842),
    }


def test_logged_clicks_are_all_there() -> None:
    found = _counted("obd_small", "ctr", "ctr@1", "hit_rate", by=("variant", "campaign"))
    clicks = {("bts", "men"): 69, ("bts", "women"): 46, ("random", "men"): 46}
    for labels, total in {**clicks, ("random", "women"): 46}.items():
        reading = found[labels].read("ctr")
        assert (reading.total, reading.count) == (total, 10_000)
        assert found[labels].read("hit_rate").value == reading.value


def test_every_line_of_the_test_of_trec_eval_is_matched_to_the_printed_digits() -> None:
    lines = _lines("expected_all.txt.gz")
    expected = {_text(name): value for name, _, value in lines if name not in ("runid", "num_q")}
    accumulator = Accumulator(*expected, "ctr")
    judged: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for topic, _, item, gain in _lines("qrels.test.gz"):
        judged[topic][item] = float(gain)
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for topic, _, item, _, score, _ in _lines("results.test.gz"):
        found[topic].append((float(score), item))
    for topic, scored in found.items():
        accumulator.update([item for _, item in sorted(scored, reverse=True)], judged[topic])
    assert len(expected) == 28
    for text, value in expected.items():
        digits = len(value.partition(".")[2])
        assert f"{accumulator.read(text).value:.{digits}f}" == value, text
    assert (accumulator.read("ctr").total, accumulator.read("ctr").count) == (131, 1500)


def _text(name: str) -> str:
    if name.startswith("iprec_at_recall_"):
        return f"trec:iprec_at_recall(recall={name.removeprefix('iprec_at_recall_')})"
    return f"trec:{name}"


def _lines(name: str) -> list[list[str]]:
    with gzip.open(DATASETS / "trec_eval_test" / name, "rt", encoding="utf-8") as text:
        return [line.split() for line in text]
