"""Windows, segments and durable state in the exposition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streameval.engine.snapshot import LIFETIME, CounterKey, CounterValue
from streameval.exporters.prometheus import PrometheusExporter
from streameval.statistics.intervals import Interval
from tests.exporters.pictures import (
    Hands,
    at,
    busy_health,
    mean,
    picture,
    property_of_all,
    refused,
    samples,
    windowed,
)

_A = {"variant": "a"}


def test_a_mean_has_a_gauge_and_its_support_for_each_window(
    exporter: PrometheusExporter,
) -> None:
    read = samples(
        exporter,
        picture(
            windowed(mean("ndcg@10", ("a",), 1.0, 4), "5m"),
            windowed(mean("ndcg@10", ("a",), 6.0, 8), LIFETIME),
        ),
    )
    labels = {**_A, "k": "10"}
    assert at(read, "ndcg_window_mean", **labels, window="5m") == 0.25
    assert at(read, "ndcg_window_support", **labels, window="5m") == 4
    assert at(read, "ndcg_window_mean", **labels, window="lifetime") == 0.75
    assert at(read, "ndcg_window_support", **labels, window="lifetime") == 8
    assert at(read, "ndcg_sum", **labels) == 6


def test_a_mean_with_an_interval_has_a_gauge_for_each_end(exporter: PrometheusExporter) -> None:
    known = Interval(low=0.5, high=1.0, confidence=0.95, kind="anytime", groups=200.0)
    sure = windowed(mean("ndcg@10", ("a",), 6.0, 8), LIFETIME)
    unsure = windowed(mean("ndcg@10", ("a",), 1.0, 4), "5m")
    read = samples(
        exporter,
        picture(
            replace(unsure, reading=replace(unsure.reading, no_interval="Too few users.")),
            replace(sure, reading=replace(sure.reading, interval=known)),
        ),
    )
    labels = {**_A, "k": "10"}
    assert at(read, "ndcg_window_low", **labels, window="lifetime") == 0.5
    assert at(read, "ndcg_window_high", **labels, window="lifetime") == 1.0
    assert at(read, "ndcg_window_low", **labels, window="5m") is None
    without = samples(exporter, picture(sure, version=2))
    assert at(without, "ndcg_window_low", **labels, window="lifetime") is None


def test_a_property_of_all_lists_keeps_its_name_and_has_a_window(
    exporter: PrometheusExporter,
) -> None:
    read = samples(
        exporter,
        picture(
            windowed(property_of_all("item_coverage@5", ("a",), 0.5), "24h"),
            windowed(mean("dcg(relevant=all)@10", ("a",), -2.0, 4), "24h"),
        ),
    )
    assert at(read, "item_coverage", **_A, k="5", window="24h") == 0.5
    assert at(read, "dcg_mean", **_A, k="10", relevant="all", window="24h") == -0.5


@pytest.mark.parametrize("windows", [(), ("5m",)])
def test_gauges_have_a_window_label_if_any_is_configured(
    exporter: PrometheusExporter, windows: tuple[str, ...]
) -> None:
    snapshot = picture(
        property_of_all("item_coverage", ("a",), 0.5), mean("mrr", ("a",), 1, 2), windows=windows
    )
    read = samples(exporter, snapshot)
    assert at(read, "item_coverage", **_A, window="lifetime") == (0.5 if windows else None)
    assert at(read, "mrr_window_mean", **_A, window="lifetime") == (0.5 if windows else None)
    assert at(read, "item_coverage", **_A) == (None if windows else 0.5)


def test_without_evidence_a_window_is_absent(exporter: PrometheusExporter) -> None:
    text = exporter.exposition(
        picture(
            windowed(mean("mrr", ("a",), 0.0, 0), "5m"),
            windowed(refused("capri:recall@5", ("a",)), "5m"),
        )
    ).decode()
    assert "window=" not in text
    assert "NaN" not in text
    assert 'streameval_readings_undefined{metric="capri:recall@5"} 1.0' in text


def test_a_segment_has_separate_families(exporter: PrometheusExporter) -> None:
    snapshot = picture(
        mean("ctr", ("a",), 3, 4),
        windowed(mean("ctr", ("a", "nl"), 1, 2), LIFETIME, family=1),
        windowed(property_of_all("item_coverage@5", ("a", "nl"), 0.5), "5m", family=1),
        windowed(mean("ctr", ("a", "new"), 2, 2), "5m", family=2),
        segments=["country", "tenure"],
    )
    read = samples(exporter, snapshot)
    assert at(read, "ctr_sum", **_A) == 3
    assert at(read, "ctr_by_country_sum", **_A, country="nl") == 1
    assert at(read, "ctr_by_country_count", **_A, country="nl") == 2
    country = {"country": "nl", "k": "5", "window": "5m"}
    assert at(read, "item_coverage_by_country", **_A, **country) == 0.5
    assert at(read, "ctr_by_tenure_window_mean", **_A, tenure="new", window="5m") == 1
    assert not [labels for _, labels in read if ("segment", "all") in labels]


def test_counters_are_durable_and_gauges_are_live(
    exporter: PrometheusExporter,
) -> None:
    live = mean("mrr", ("a",), 6.0, 8)
    read = samples(exporter, picture(live, counted={(0, ("a",), "mrr"): (2.5, 4)}))
    assert (at(read, "mrr_sum", **_A), at(read, "mrr_count", **_A)) == (2.5, 4)
    assert at(read, "mrr_window_mean", **_A, window="lifetime") == 0.75


def test_a_restored_label_set_stays_at_zero_until_a_checkpoint(
    exporter: PrometheusExporter, hands: Hands
) -> None:
    restored = picture(mean("mrr", ("a",), 600.0, 800), counted={})
    for hands.seconds in (0.0, 60.0):
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


def test_a_label_value_that_returns_continues_its_counters(
    exporter: PrometheusExporter,
) -> None:
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
    assert at(read, "events_late_total") == 4
    assert at(read, "events_future_total") == 6
    assert at(read, "events_duplicate_total") == 2
    assert at(read, "events_folded", family="labels") == 7
    assert at(read, "dlq_events_total") == 3
    assert at(read, "commit_failures_total") == 5
    assert at(read, "checkpoint_failures_total", reason="store") == 1
    assert at(read, "checkpoint_failures_total", reason="dead_letters") == 1
    assert at(read, "checkpoint_failures_total", reason="timeout") == 0
    assert at(read, "checkpoint_last_success_timestamp_seconds") == 1_760_000_009
    where = {"topic": "recommendation-events", "partition": "1"}
    assert at(read, "checkpoint_offset", **where) == 3
    assert at(read, "events_skipped_total") == 8
    assert at(read, "kafka_watchdog_recoveries_total", step="rejoin") == 1
    assert at(read, "kafka_connection_failures_total", reason="authentication") == 4
    assert at(read, "kafka_connection_failures_total", reason="certificate") == 0
    assert at(read, "schema_registry_failures_total", reason="unreachable") == 2
    assert at(read, "config_last_reload_successful") == 0
    assert at(read, "config_last_reload_timestamp_seconds") == 1_760_000_008


def test_unused_parts_of_a_pipeline_have_no_zero_counters(exporter: PrometheusExporter) -> None:
    text = exporter.exposition(picture()).decode()
    names = ("late", "future", "duplicate", "dlq", "checkpoint", "commit", "watchdog", "reload")
    assert [name for name in names if name in text] == []


@given(
    st.lists(st.tuples(st.text(max_size=3), st.floats(allow_nan=False)), max_size=5),
    st.lists(st.tuples(st.text(max_size=3), st.floats(allow_nan=False)), max_size=5),
)
def test_a_cached_line_is_never_used_for_another_sample(
    first: list[tuple[str, float]], second: list[tuple[str, float]]
) -> None:
    exporter = PrometheusExporter(version="1", first_exposure=0)
    for version, pairs in enumerate((first, second, first)):
        known = {value.replace("\r", ""): number for value, number in pairs}
        series = [property_of_all("distinct_items", (each,), n) for each, n in known.items()]
        read = samples(exporter, picture(*series, version=version))
        for value, number in known.items():
            assert at(read, "distinct_items", variant=value) == number
