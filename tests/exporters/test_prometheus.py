"""What /metrics exports: names, counters, windows, segments and the pipeline."""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streameval import Event, metric, metric_at
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
from streameval.decoding.invalid import REASONS
from streameval.engine.snapshot import LIFETIME, CounterKey, CounterValue, Series, Snapshot
from streameval.exporters.families import PrometheusFamily
from streameval.exporters.names import metric_labels, slice_labels
from streameval.exporters.operations import operations
from streameval.exporters.prometheus import PrometheusExporter
from streameval.statistics.intervals import Interval
from tests.exporters.pictures import (
    ManualClock,
    busy_health,
    health,
    mean,
    partition,
    picture,
    property_of_all,
    refused_value,
    samples,
    windowed,
)
from tests.exposition import at

_A = {"variant": "a"}


@pytest.fixture
def manual_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def exporter(manual_clock: ManualClock) -> PrometheusExporter:
    """An exporter without `first_exposure`."""
    return PrometheusExporter(version="1.2.3", kafka=True, clock=manual_clock, first_exposure=0)


def test_a_new_series_stays_at_zero_for_a_minute_for_every_scraper(
    manual_clock: ManualClock,
) -> None:
    exporter = PrometheusExporter(version="1", clock=manual_clock)
    snapshot = picture(mean("ndcg@10", ("a",), 2.5, 4))
    labels, shown = {"variant": "a", "k": "10"}, []
    for manual_clock.seconds in (500.0, 500.1, 515.0, 559.9, 560.0):
        read = samples(exporter, snapshot)
        shown.append((at(read, "ndcg_sum", **labels), at(read, "ndcg_count", **labels)))
    assert shown == [(0, 0)] * 4 + [(2.5, 4)]


def test_only_the_new_series_stays_at_zero(manual_clock: ManualClock) -> None:
    exporter = PrometheusExporter(version="1", clock=manual_clock)
    samples(exporter, picture(mean("ctr", ("a",), 1, 2)))
    manual_clock.seconds = 60.0
    grown = picture(mean("ctr", ("a",), 3, 6), mean("ctr", ("b",), 5, 6), version=2)
    read = samples(exporter, grown)
    assert (at(read, "ctr_sum", variant="a"), at(read, "ctr_sum", variant="b")) == (3, 0)


@pytest.mark.parametrize("durable", [False, True])
@given(pairs=st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10**6)), min_size=1, max_size=20))
def test_a_sum_and_a_count_are_never_lower_than_before(
    pairs: list[tuple[float, int]], *, durable: bool
) -> None:
    exporter = PrometheusExporter(version="1", first_exposure=0)
    shown = []
    for version, pair in enumerate(pairs):
        live = picture(mean("mrr", ("a",), *pair), version=version)
        saved = picture(counted={(0, ("a",), "mrr"): pair}, version=version)
        read = samples(exporter, saved if durable else live)
        shown.append((at(read, "mrr_sum", variant="a"), at(read, "mrr_count", variant="a")))
    for column in zip(*shown, strict=True):
        totals = [value for value in column if value is not None]
        assert totals == sorted(totals)


def test_a_total_that_is_undefined_is_absent_and_comes_back_where_it_was(
    exporter: PrometheusExporter,
) -> None:
    samples(exporter, picture(mean("mrr", ("a",), 1, 2)))
    read = samples(exporter, picture(mean("mrr", ("a",), float("nan"), 5), version=2))
    assert (at(read, "mrr_sum", variant="a"), at(read, "mrr_count", variant="a")) == (None, None)
    read = samples(exporter, picture(mean("mrr", ("a",), 0.5, 1), version=3))
    assert (at(read, "mrr_sum", variant="a"), at(read, "mrr_count", variant="a")) == (1, 2)


@given(st.text(min_size=0, max_size=20).filter(lambda text: "\r" not in text))
def test_any_label_value_comes_back_as_it_was(value: str) -> None:
    value = value.encode("utf-8", "replace").decode("utf-8")
    exporter = PrometheusExporter(version="1")
    read = samples(exporter, picture(property_of_all("distinct_items", (value,), 3.0)))
    assert at(read, "distinct_items", variant=value) == 3


def _sure(series: Series) -> Series:
    """With bounds."""
    bounds = Interval(low=0.5, high=1.0, confidence=0.95, kind="anytime", groups=200.0)
    return replace(series, reading=replace(series.reading, interval=bounds))


EXPOSED: Mapping[str, Snapshot] = {
    "without evidence a mean is zero of zero, and a gauge absent": picture(
        mean("ndcg@10", ("a",), 0.0, 0), property_of_all("item_coverage@10", ("a",), math.nan)
    ),
    "a median is a gauge beside the counters of its metric": picture(
        mean("ndcg@10", ("a",), 2.5, 4),
        property_of_all("ndcg(statistic=median)@10", ("a",), 0.75),
        property_of_all("ndcg(statistic=quantile,q=0.9)@10", ("a",), 0.875),
    ),
    "a value that a convention leaves undefined is absent and counted": picture(
        mean("recbole:recall@5", ("a",), math.nan, 4),
        refused_value("capri:recall@5", ("a",)),
        refused_value("capri:recall(statistic=median)@5", ("a",)),
        mean("ndcg@10", ("a",), 2.5, 4),
    ),
    "a sum is counted up beside its lists": picture(
        Series(
            parse("hits@5"),
            ("a",),
            Reading(metric="hits@5", value=7.0, count=4, lists=4, total=7.0),
        )
    ),
    "a mean has a gauge and its support for each window": picture(
        windowed(mean("ndcg@10", ("a",), 1.0, 4), "5m"),
        windowed(mean("ndcg@10", ("a",), 6.0, 8), LIFETIME),
    ),
    "an interval has a gauge for each end": picture(
        replace(
            unsure := windowed(mean("ndcg@10", ("a",), 1.0, 4), "5m"),
            reading=replace(unsure.reading, no_interval="Too few users."),
        ),
        _sure(windowed(mean("ndcg@10", ("a",), 6.0, 8), LIFETIME)),
    ),
    "a property of all lists keeps its name and has a window": picture(
        windowed(property_of_all("item_coverage@5", ("a",), 0.5), "24h"),
        windowed(mean("dcg(relevant=all)@10", ("a",), -2.0, 4), "24h"),
    ),
    "without windows no gauge has a label for them": picture(
        property_of_all("item_coverage", ("a",), 0.5), mean("mrr", ("a",), 1, 2)
    ),
    "with a window each gauge has the label": picture(
        property_of_all("item_coverage", ("a",), 0.5), mean("mrr", ("a",), 1, 2), windows=("5m",)
    ),
    "without evidence a window is absent": picture(
        windowed(mean("mrr", ("a",), 0.0, 0), "5m"),
        windowed(refused_value("capri:recall@5", ("a",)), "5m"),
    ),
    "a segment has families of its own": picture(
        mean("ctr", ("a",), 3, 4),
        windowed(mean("ctr", ("a", "nl"), 1, 2), LIFETIME, family=1),
        windowed(property_of_all("item_coverage@5", ("a", "nl"), 0.5), "5m", family=1),
        windowed(mean("ctr", ("a", "new"), 2, 2), "5m", family=2),
        segments=["country", "tenure"],
    ),
    "counters are durable and gauges are live": picture(
        mean("mrr", ("a",), 6.0, 8), counted={(0, ("a",), "mrr"): (2.5, 4)}
    ),
}
"""What is shown -> the snapshot; exposed.txt has its samples."""


def _lines(snapshot: Snapshot) -> list[str]:
    """The samples in the text format that an empty snapshot has not."""
    texts = (
        PrometheusExporter(version="1", first_exposure=0).exposition(shown).decode().splitlines()
        for shown in (snapshot, picture())
    )
    samples, others = ([line for line in text if line[0] != "#"] for text in texts)
    own = [line for line in samples if not line.startswith(("process_", "streameval_snapshot_age"))]
    assert len(set(own)) == len(own)
    return [line for line in own if line not in others]


@pytest.mark.parametrize("shown", EXPOSED)
def test_a_snapshot_has_these_samples_and_no_others(shown: str) -> None:
    texts = Path(__file__).with_name("exposed.txt").read_text(encoding="utf-8").split("\n\n")
    expected = dict(text.strip().split("\n", 1) for text in texts)
    assert set(expected) == set(EXPOSED)
    assert "\n".join(_lines(EXPOSED[shown])) == expected[shown]


@metric(bounds=(0, 1), source="our own rule")
def recent(event: Event, *, window: int = 3, quantile: float = 0.5) -> float:
    """Has parameters with the names of labels that mean something else."""
    return float(len(event.recommendations) > window * quantile)


def test_a_parameter_never_has_the_label_of_a_window_or_quantile() -> None:
    metric_ = metric_at(recent, window=5, quantile=0.9)
    assert metric_labels(metric_) == {"parameter_window": "5", "parameter_quantile": "0.9"}
    assert slice_labels(["parameter_window", "window"], [metric_]) == (
        "label_parameter_window",
        "label_window",
    )


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=6))
def test_label_names_become_legal_and_stay_distinct(names: list[str]) -> None:
    legal = slice_labels(names, [parse("ndcg@10")])
    assert len(set(legal)) == len(names)
    for name in legal:
        assert name.isascii()
        assert name.isidentifier()
        assert not name.startswith("__")
        assert name not in parse("ndcg@10").values
        assert name != "k"


def test_all_cutoffs_and_parameters_of_a_metric_stand_in_one_family(
    exporter: PrometheusExporter,
) -> None:
    texts = ("ndcg@5", "mrr", "ndcg@10", "ndcg(gain=exp2)@10", "ndcg")
    text = exporter.exposition(
        picture(*(mean(text_of_metric, ("a",), 1, 2) for text_of_metric in texts))
    ).decode()
    assert text.count("# TYPE streameval_ndcg summary") == 1
    assert text.count("streameval_ndcg_sum{") == 4


def test_every_reason_is_there_before_it_happens(exporter: PrometheusExporter) -> None:
    read = samples(exporter, picture(state=health(consumed=7, invalid={"not_json": 2})))
    values = {reason: at(read, "events_invalid_total", reason=reason) for reason in REASONS}
    assert values == dict.fromkeys(REASONS, 0) | {"not_json": 2}
    assert at(read, "events_consumed_total") == 7
    assert at(read, "events_tombstone_total") == 0


def test_lag_and_event_time_are_absent_where_unknown(exporter: PrometheusExporter) -> None:
    parts = (partition(0, 5, 12, 1.5), partition(1, 5, None, None))
    read = samples(exporter, picture(state=health(partitions=parts)))
    first = {"topic": "recommendation-events", "partition": "0"}
    assert at(read, "kafka_consumer_lag", **first) == 7
    assert at(read, "watermark_timestamp_seconds", **first) == 1.5
    assert at(read, "kafka_consumer_lag", **first | {"partition": "1"}) is None
    assert at(read, "watermark_timestamp_seconds", **first | {"partition": "1"}) is None


def test_a_source_other_than_kafka_has_no_kafka_lag() -> None:
    exporter = PrometheusExporter(version="1")
    snapshot = picture(state=health(partitions=(partition(0, 5, 12),)))
    assert b"kafka" not in exporter.exposition(snapshot)


def test_the_release_is_there_before_the_first_snapshot(exporter: PrometheusExporter) -> None:
    read = samples(exporter, None)
    assert at(read, "build_info", version="1.2.3") == 1
    assert at(read, "snapshot_age_seconds") is None


class Door:
    """A lock that counts its waiters, so that a test can wait for the second one."""

    def __init__(self) -> None:
        self.second = threading.Event()
        self._lock = threading.Lock()
        self._arrivals: list[int] = []

    def __enter__(self) -> None:
        self._arrivals.append(threading.get_ident())
        if len(self._arrivals) == 2:
            self.second.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_concurrent_scrapes_share_the_first_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    door, bodies, rendered = Door(), list[bytes](), list[Snapshot]()

    def when_asked() -> float:
        assert door.second.wait(60)
        return 0.0

    def counted(snapshot: Snapshot, *, lag: bool) -> Iterator[PrometheusFamily]:
        rendered.append(snapshot)
        return operations(snapshot, lag=lag)

    monkeypatch.setattr("streameval.exporters.prometheus.operations", counted)
    exporter = PrometheusExporter(version="1", clock=when_asked)
    exporter.__dict__.update(_lock=door)
    snapshot = picture(mean("mrr", ("a",), 3, 4))
    threads = [
        threading.Thread(target=lambda: bodies.append(exporter.exposition(snapshot)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = [b'streameval_mrr_sum{variant="a"} 0.0' in body for body in bodies]
    assert (len(rendered), shown) == (1, [True, True])


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_compressed_scrape_is_the_text_also_after_its_end_has_changed(
    *, openmetrics: bool
) -> None:
    wall = ManualClock()
    exporter = PrometheusExporter(version="1", wall=wall, first_exposure=0)
    snapshot = picture(*(mean("mrr", (f"{number}",), number, 9) for number in range(500)))
    for wall.seconds in (snapshot.taken_at + 0.5, snapshot.taken_at + 45.0):
        plain, unpacked = (
            [line for line in text.splitlines() if not line.startswith(b"process_")]
            for text in (
                exporter.exposition(snapshot, openmetrics=openmetrics),
                gzip.decompress(
                    exporter.exposition(snapshot, openmetrics=openmetrics, packed=True)
                ),
            )
        )
        assert unpacked == plain
        age = f"streameval_snapshot_age_seconds {wall.seconds - snapshot.taken_at}"
        assert age.encode() in unpacked


def test_a_restored_label_set_stays_at_zero_until_a_checkpoint(
    exporter: PrometheusExporter, manual_clock: ManualClock
) -> None:
    restored = picture(mean("mrr", ("a",), 600.0, 800), counted={})
    for manual_clock.seconds in (0.0, 60.0):
        read = samples(exporter, restored)
        assert (at(read, "mrr_sum", **_A), at(read, "mrr_count", **_A)) == (0, 0)


def test_counters_of_a_partition_that_moved_away_stay_and_its_gauges_do_not(
    exporter: PrometheusExporter,
) -> None:
    counted: dict[CounterKey, CounterValue] = {(0, ("a",), "ndcg@10"): (2.5, 4)}
    here = picture(mean("ndcg@10", ("a",), 2.5, 4), counted=counted)
    samples(exporter, here)
    read = samples(exporter, picture(counted=counted, version=2))
    assert at(read, "ndcg_sum", **_A, k="10") == 2.5
    assert at(read, "ndcg_window_mean", **_A, k="10", window="lifetime") is None


def test_a_label_value_that_returns_continues_its_counters(exporter: PrometheusExporter) -> None:
    there = picture(mean("mrr", ("a",), 1, 2))
    samples(exporter, there)
    gone = samples(exporter, picture(version=2))
    assert at(gone, "mrr_sum", **_A) is None
    back = samples(exporter, picture(mean("mrr", ("a",), 3, 4), version=3))
    assert (at(back, "mrr_sum", **_A), at(back, "mrr_count", **_A)) == (3, 4)


def test_the_pipeline_has_checkpoints_dead_letters_and_recoveries(
    exporter: PrometheusExporter,
) -> None:
    read = samples(exporter, picture(state=busy_health()))
    expected = {
        "events_late_total": 4,
        "events_future_total": 6,
        "clock_jumps_total": 1,
        "events_duplicate_total": 2,
        "dlq_events_total": 3,
        "commit_failures_total": 5,
        "checkpoint_last_success_timestamp_seconds": 1_760_000_009,
        "events_skipped_total": 8,
        "web_config_last_reload_successful": 0,
        "web_config_last_reload_timestamp_seconds": 1_760_000_008,
    }
    assert {name: at(read, name) for name in expected} == expected
    assert at(read, "events_folded", family="labels") == 7
    failures = {"store": 1, "dead_letters": 1, "timeout": 0}
    assert failures == {
        reason: at(read, "checkpoint_failures_total", reason=reason) for reason in failures
    }
    where = {"topic": "recommendation-events", "partition": "1"}
    assert at(read, "checkpoint_offset", **where) == 3
    assert at(read, "kafka_watchdog_recoveries_total", step="rejoin") == 1
    for reason, count in (("authentication", 4), ("certificate", 0)):
        assert at(read, "kafka_connection_failures_total", reason=reason) == count


def test_unused_parts_of_a_pipeline_have_no_zero_counters(exporter: PrometheusExporter) -> None:
    text = exporter.exposition(picture()).decode()
    names = ("late", "future", "duplicate", "dlq", "checkpoint", "commit", "watchdog", "web_config")
    assert [name for name in names if name in text] == []
