"""Gaps of a daemon on all surfaces: Prometheus, API and page."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from streameval.analyses.gaps.analysis import GAPS, GapOptions, GapSeries
from streameval.analyses.gaps.statistics import Gap
from streameval.analyses.registry import Configuration
from streameval.config.pipeline import new_ingest
from streameval.config.tables import WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import Snapshot
from streameval.events.records import Partition
from streameval.exporters.operations import analysis_families
from streameval.exporters.page.page import body
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.web import answers
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.intervals import Intervals
from tests.batches import batch_of

LEVELS = {"de": 0.5, "nl": 0.5, "fr": 0.1}
CONFIG = Configuration(
    metrics=["hit_rate@1", "ctr@1", "distinct_items@1"],
    source=SimulatorOptions(),
    labels=["variant"],
    segments=["country"],
    windows=WindowsOptions(spans=["1h"]),
    event=EventFields(time="ts", time_unit="s", user="user"),
    intervals=Intervals(),
    gap=[GapOptions(by="country", metrics=["hit_rate@1"], at_most=0.05), GapOptions(by="variant")],
)


def _record(draw: np.random.Generator, number: int) -> bytes:
    country = sorted(LEVELS)[number % 3]
    hit = draw.random() < LEVELS[country]
    return msgspec.json.encode(
        {
            "recommendations": ["a"],
            "interactions": ["a" if hit else "b"],
            "ts": 1_700_000_000,
            "user": f"{country}{number % 500}",
            "country": country,
            "variant": "ab"[number % 2],
        }
    )


@pytest.fixture(scope="module")
def ingest() -> Ingest:
    ingest, draw = new_ingest(CONFIG), np.random.default_rng(3)
    ingest.apply(batch_of(Partition("events", 0), [_record(draw, n) for n in range(6_000)], 0))
    return ingest


@pytest.fixture(scope="module")
def snapshot(ingest: Ingest) -> Snapshot:
    return ingest_snapshot(ingest, labels=CONFIG.labels, now=1_700_000_010.0)


def _of(snapshot: Snapshot, by: str, window: str = "lifetime") -> dict[str, list[GapSeries]]:
    by_metric: dict[str, list[GapSeries]] = {}
    for series in GAPS.report_in(snapshot.findings) or ():
        if (series.by, series.window) == (by, window):
            by_metric.setdefault(series.gap.metric, []).append(series)
    return by_metric


def test_a_snapshot_has_each_gap_by_window_and_by_the_other_labels(snapshot: Snapshot) -> None:
    for window, kind in (("lifetime", "anytime"), ("1h", "pointwise")):
        by_metric = _of(snapshot, "country", window)
        assert {name: len(rows) for name, rows in by_metric.items()} == {"hit_rate@1": 2}
        for series in by_metric["hit_rate@1"]:
            assert [*series.labels] == ["variant"]
            assert (series.gap.worst, series.gap.kind, series.at_most) == (("fr",), kind, 0.05)
            assert series.gap.low is not None
            assert series.gap.low > 0.2
    every = _of(snapshot, "variant")
    assert {name: len(rows) for name, rows in every.items()} == {"hit_rate@1": 1, "ctr@1": 1}
    assert all(
        series_of_all.gap.low == 0 and series_of_all.labels == {}
        for (series_of_all,) in every.values()
    )


def test_a_gap_that_has_not_changed_is_not_computed_again(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streameval.analyses.gaps import analysis as gaps  # noqa: PLC0415  patched below
    from streameval.engine import capture  # noqa: PLC0415  patched below

    reader = capture.SnapshotCapture(ingest.layout, source="", labels=CONFIG.labels, started_at=0.0)
    first = reader.take(ingest.copied(), 0.0, capture.RuntimeStatus())
    monkeypatch.setattr(gaps, "gap_of", None)
    assert reader.take(ingest.copied(), 1.0, capture.RuntimeStatus()).findings == first.findings


def test_prometheus_has_bounds_the_limit_and_the_possibly_worst(snapshot: Snapshot) -> None:
    entries = [
        ((sample.name, *sorted(sample.labels.items())), sample.value)
        for family in analysis_families(snapshot.findings)
        for sample in family.samples
    ]
    samples = dict(entries)
    assert len(samples) == len(entries), "no sample twice"
    (first, _) = _of(snapshot, "country")["hit_rate@1"]
    labels = (("by", "country"), ("metric", "hit_rate@1"))
    last = (("variant", "a"), ("window", "lifetime"))
    gap = first.gap
    expected = {
        "difference": gap.difference,
        "difference_low": gap.low,
        "difference_high": gap.high,
        "ratio": gap.ratio,
        "ratio_low": gap.ratio_low,
        "ratio_high": gap.ratio_high,
        "values": 3.0,
        "left_out": 0.0,
    }
    for name, value in expected.items():
        assert samples[f"streameval_gap_{name}", *labels, *last] == value
    assert samples["streameval_gap_at_most", *labels, ("variant", "a")] == 0.05
    marks = {
        name: samples["streameval_gap_worst", *labels, ("value", name), *last] for name in LEVELS
    }
    assert marks == {"de": 0.0, "nl": 0.0, "fr": 1.0}


def test_the_api_has_every_gap_with_its_values(snapshot: Snapshot) -> None:
    document = json.loads(msgspec.json.encode(answers.snapshot_answer(snapshot)))
    rows = [gap_row for gap_row in document["gaps"] if gap_row["by"] == "country"]
    assert len(rows) == 4
    (row,) = (
        gap_row
        for gap_row in rows
        if gap_row["window"] == "lifetime" and gap_row["labels"] == {"variant": "a"}
    )
    expected = _of(snapshot, "country")["hit_rate@1"][0].gap
    assert msgspec.convert(row["gap"], Gap) == expected
    assert row["gap"]["values"][0]["name"] == "fr"


def test_the_page_shows_the_values_and_marks_the_worst(snapshot: Snapshot) -> None:
    html = body(snapshot, daemon_state(snapshot, healthy=True), Selection())
    part = html.partition('id="gaps"')[2].partition("</section>")[0]
    assert part.count(">the worst<") == 2, "fr of each variant"
    assert part.count("may be the worst") == 2 * 2, "both variants twice"
    assert "The worst is fr." in part
    assert part.count("<circle") == 2 * 3 + 2 * 2


def test_a_page_without_gaps_has_an_empty_section() -> None:
    config = msgspec.structs.replace(CONFIG, gap=[])
    snapshot_ = ingest_snapshot(new_ingest(config), labels=config.labels, now=0.0)
    assert snapshot_.findings == ()
    assert 'aria-label="Gaps"></section>' in body(
        snapshot_, daemon_state(snapshot_, healthy=True), Selection()
    )
