"""Numbers that others printed for real data sets, which stand beside the repository."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streameval import Accumulator
from tests.effort import every_case

DATASETS = Path(__file__).parents[3] / "shared" / "datasets"

pytestmark = pytest.mark.skipif(not DATASETS.is_dir(), reason="the data sets are not beside us")


def _rows(name: str) -> Iterator[Mapping[str, Any]]:
    with gzip.open(DATASETS / name / "events.ndjson.gz") as lines:
        yield from map(msgspec.json.decode, lines)


def _counted(name: str, *texts: str, **labels: str) -> Accumulator:
    accumulator = Accumulator(*texts)
    for row in _rows(name):
        if labels.items() <= row.items():
            acts, ranks = row["interactions"], row.get("positions")
            accumulator.update(row["recommendations"], acts, ranks)
    return accumulator


PRINTED = {
    "map": "0.1785",
    "mrr": "0.4064",
    "precision@5": "0.2667",
    "precision@10": "0.3000",
    "precision@15": "0.3111",
    "precision@20": "0.3667",
    "precision@30": "0.3333",
    "precision@100": "0.2467",
    "precision@200": "0.1600",
    "precision@500": "0.0873",
    "precision@1000": "0.0437",
}


def test_trec_eval_printed_the_same_digits() -> None:
    readings = _counted("trec_eval_test", *PRINTED, "ctr").compute()
    assert {text: f"{readings[text].value:.4f}" for text in PRINTED} == PRINTED
    assert (readings["ctr"].total, readings["ctr"].count) == (131, 1500)


@every_case(("variant", "hits"), [("recent", 410), ("pop", 162)])
def test_replayed_sessions_are_hit_as_often_as_expected(variant: str, hits: int) -> None:
    reading = _counted("otto_test_sample", "hit_rate@10", variant=variant).read("hit_rate@10")
    assert (reading.total, reading.count) == (hits, 842)


@every_case(
    "expected",
    [("bts", "men", 69), ("bts", "women", 46), ("random", "men", 46), ("random", "women", 46)],
)
def test_logged_clicks_are_all_there(expected: tuple[str, str, int]) -> None:
    variant, campaign, clicks = expected
    labels = {"variant": variant, "campaign": campaign}
    accumulator = _counted("obd_small", "ctr", "ctr@1", "hit_rate", **labels)
    reading = accumulator.read("ctr")
    assert (reading.total, reading.count) == (clicks, 10_000)
    assert accumulator.read("hit_rate").value == reading.value
