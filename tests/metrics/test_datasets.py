"""Logs in the shape of published ones: what others count in them, to the last digit."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from streameval import Accumulator, Event
from tests.datasets import PRINTED, SLOTS_PER_ARM, dataset


def _counted(name: str, *texts: str, by: tuple[str, ...]) -> Mapping[tuple[str, ...], Accumulator]:
    events_by_labels: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
    with gzip.open(dataset(name) / "events.ndjson.gz") as lines:
        for row in map(msgspec.json.decode, lines):
            lists = {key: row.get(key) for key in ("recommendations", "interactions", "positions")}
            events_by_labels[tuple(row[label] for label in by)].append(Event(**lists))
    accumulators = {labels: Accumulator(*texts) for labels in events_by_labels}
    for labels, events in events_by_labels.items():
        accumulators[labels].update_many(events)
    return accumulators


def test_replayed_sessions_are_hit_as_often_as_expected() -> None:
    expected = msgspec.json.decode((dataset("sessions") / "expected.json").read_bytes())
    accumulators = _counted("sessions", "hit_rate@10", by=("variant",))
    readings = {
        variant: accumulator.read("hit_rate@10") for (variant,), accumulator in accumulators.items()
    }
    counts = {variant: [reading.total, reading.count] for variant, reading in readings.items()}
    assert counts == expected


def test_logged_clicks_are_all_there() -> None:
    expected = msgspec.json.decode((dataset("slots") / "expected.json").read_bytes())
    accumulators = _counted("slots", "ctr", "ctr@1", "hit_rate", by=("variant", "campaign"))
    for arm in expected:
        labels = arm["policy"], arm["campaign"]
        reading = accumulators[labels].read("ctr")
        assert (reading.total, reading.count) == (arm["clicks"], SLOTS_PER_ARM)
        assert accumulators[labels].read("hit_rate").value == reading.value


def test_every_line_of_the_test_of_trec_eval_is_matched_to_the_printed_digits() -> None:
    lines = [line.split() for line in PRINTED.read_text().splitlines()]
    values = {name: value for name, _, value in lines}
    expected = {_text(name): value for name, value in values.items()}
    accumulator = Accumulator(*expected, "ctr")
    judged: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for topic, _, item, gain in _lines("qrels.test.gz"):
        judged[topic][item] = float(gain)
    ranked_by_topic: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for topic, _, item, _, score, _ in _lines("results.test.gz"):
        ranked_by_topic[topic].append((float(score), item))
    for topic, scored in ranked_by_topic.items():
        accumulator.update([item for _, item in sorted(scored, reverse=True)], judged[topic])
    assert len(expected) == 28
    for text, value in expected.items():
        digits = len(value.partition(".")[2])
        assert f"{accumulator.read(text).value:.{digits}f}" == value, text
    counts = accumulator.read("ctr").total, accumulator.read("ctr").count
    assert counts == tuple(int(values[name]) for name in ("num_rel_ret", "num_ret"))


def _text(name: str) -> str:
    if name.startswith("iprec_at_recall_"):
        return f"trec:iprec_at_recall(recall={name.removeprefix('iprec_at_recall_')},reached=up)"
    return f"trec:{name}"


def _lines(name: str) -> list[list[str]]:
    with gzip.open(dataset("judged") / name, "rt", encoding="utf-8") as text:
        return [line.split() for line in text]
