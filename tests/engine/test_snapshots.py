from __future__ import annotations

import pytest

from streameval import Intervals
from streameval.decoding.invalid import REASONS
from streameval.engine import history as of_history
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import CounterKey, CounterValue, ValueHistory
from streameval.events.records import Partition
from tests.engine.counting import MINUTE, Taking, batch, layout, parts, record
from tests.engine.counting import ingest as ingest_of

METRICS = ["ctr", "hit_rate@1", "distinct_items@1"]


@pytest.fixture
def ingest() -> Ingest:
    return ingest_of(layout(METRICS))


def test_before_the_first_record_there_is_no_series_and_every_reason_is_at_zero(
    ingest: Ingest,
) -> None:
    taken = Taking(ingest).take()
    assert taken.series == ()
    assert taken.health.invalid == dict.fromkeys(REASONS, 0)
    assert taken.health.partitions == ()


def test_series_are_sorted_by_metric_as_configured_then_by_label(
    ingest: Ingest,
) -> None:
    ingest.apply(batch([record(variant="b"), record(variant="a", interactions=["a"])]))
    ingest.apply(batch([record(variant="c")], number=1))
    series = Taking(ingest).take().series
    assert [(line.metric.text, *line.labels) for line in series] == [
        (metric, label)
        for metric in ("ctr", "hit_rate@1", "distinct_items@1")
        for label in ("a", "b", "c")
    ]
    assert [line.reading.value for line in series[:3]] == [1.0, 0.0, 0.0]


def test_health_counts_the_outcomes_of_records(ingest: Ingest) -> None:
    ingest.apply(batch([record(ts=2), record(ts=1), None, b"x"]))
    health = Taking(ingest).take().health
    assert (health.consumed, health.valid, health.tombstones) == (4, 2, 1)
    assert health.invalid["not_json"] == 1
    (partition,) = health.partitions
    assert (partition.position, partition.end, partition.lag) == (4, 9, 5)
    assert partition.event_time == 2.0


def test_versions_grow_and_snapshots_are_immutable(ingest: Ingest) -> None:
    of = Taking(ingest)
    ingest.apply(batch([record()]))
    first = of.take()
    ingest.apply(batch([record(), b"x"], start=1))
    second = of.take()
    assert (first.version, second.version) == (1, 2)
    assert (first.series[0].reading.lists, second.series[0].reading.lists) == (1, 2)
    assert (first.health.invalid["not_json"], second.health.invalid["not_json"]) == (0, 1)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_window_that_did_not_change_is_not_read_again(ingest: Ingest, partitions: int) -> None:
    for number in range(partitions):
        ingest.apply(batch([record(variant="a"), record(variant="b")], number=number))
    of = Taking(ingest)
    before = of.take().series
    again = of.take().series
    assert all(new is old for new, old in zip(again, before, strict=True))
    ingest.apply(batch([record(variant="b")], start=2))
    changed = of.take().series
    assert changed[0] == before[0]
    assert changed[1].reading.lists == before[1].reading.lists + 1


def test_ids_of_two_types_give_advice_with_their_slice(ingest: Ingest) -> None:
    of = Taking(ingest)
    ingest.apply(batch([record(interactions=["z"])] * 10_000))
    assert "variant=a: 10,000 lists" in (of.take().health.trouble or "")
    assert of.take(trouble="the broker is away").health.trouble == "the broker is away"


def test_a_stream_without_labels_has_one_series_a_metric() -> None:
    ingest = ingest_of(layout(METRICS, dimensions=()))
    ingest.apply(batch([record()]))
    taken = Taking(ingest, labels=[]).take()
    assert [(line.metric.text, line.labels) for line in taken.series] == [
        ("ctr", ()),
        ("hit_rate@1", ()),
        ("distinct_items@1", ()),
    ]


def test_windows_come_before_the_lifetime() -> None:
    ingest = ingest_of(layout(["ctr"], spans=(5 * MINUTE, 180 * MINUTE)))
    ingest.apply(batch([record(ts=ts, id=str(ts)) for ts in (0, 7_200, 10_800, 14_500)]))
    lists = [(line.window, line.reading.lists) for line in Taking(ingest).take().series]
    assert lists == [("5m", 1), ("3h", 3), ("lifetime", 4)]


def test_an_idle_label_value_is_left_out_with_its_counters() -> None:
    ingest = ingest_of(layout(["ctr"], spans=(5 * MINUTE,)))
    ingest.apply(batch([record(ts=0, variant="old"), record(ts=1_000, variant="new")]))
    assert {line.labels for line in Taking(ingest, idle=1_000_000_000).take().series} == {
        ("old",),
        ("new",),
    }
    counted: dict[CounterKey, CounterValue] = {
        (0, (name,), "ctr"): (1.0, 2) for name in ("old", "new", "elsewhere")
    }
    taken = Taking(ingest, idle=999_000_000).take(counted=counted)
    assert {line.labels for line in taken.series} == {("new",)}
    assert [labels for _, labels, _ in taken.counted or {}] == [("new",), ("elsewhere",)]


def test_series_of_new_statistics_say_since_when() -> None:
    before = ingest_of(layout(["ctr"], spans=(5 * MINUTE,)))
    before.apply(batch([record(ts=1_000)]))
    after = ingest_of(layout(["ctr", "distinct_items@1"], spans=(5 * MINUTE,)))
    partition = Partition("events", 0)
    after.restore(partition, {partition: 1}, parts(before))
    after.apply(batch([record(ts=1_100)], start=1))
    of = Taking(after)
    since = {(line.metric.name, line.window): line.since for line in of.take().series}
    assert since == {
        ("ctr", "5m"): None,
        ("ctr", "lifetime"): None,
        ("distinct_items", "5m"): 1_000.0,
        ("distinct_items", "lifetime"): 1_000.0,
    }
    # A window that begins when the statistic was added is complete.
    for start, (ts, of_window) in enumerate(((1_299, 1_000.0), (1_300, None), (9_000, None))):
        after.apply(batch([record(ts=ts)] * 3, start=2 + 3 * start))
        since = {(line.metric.name, line.window): line.since for line in of.take().series}
        assert since["distinct_items", "5m"] == of_window
        assert since["distinct_items", "lifetime"] == 1_000.0


def test_a_new_statistic_is_complete_once_every_partition_counts_it() -> None:
    before = ingest_of(layout(["ctr"]))
    after = ingest_of(layout(["ctr", "distinct_items@1"]))
    for number, ts in enumerate((1_000, 3_000, 2_000)):
        before.apply(batch([record(ts=ts)], number))
        partition = Partition("events", number)
        after.restore(partition, {partition: 1}, parts(before, number))
    since = {line.metric.name: line.since for line in Taking(after).take().series}
    assert since == {"ctr": None, "distinct_items": 3_000.0}


def test_a_value_that_is_older_than_the_sums_by_user_has_no_interval() -> None:
    """The interval would be that of the newer lists, and miss the value."""

    def lists(first: int, *, hit: bool) -> list[bytes]:
        return [
            record(
                ts=second,
                id=f"e{second}",
                user=f"u{second}",
                interactions=["a"] * (hit or n % 9 == 0),
            )
            for n, second in enumerate(range(first, first + 600))
        ]

    spans, partition = (5 * MINUTE, 60 * MINUTE), Partition("events", 0)
    before = ingest_of(layout(["ctr"], spans=spans))
    before.apply(batch(lists(0, hit=True)))
    after = ingest_of(layout(["ctr"], spans=spans, intervals=Intervals()))
    after.restore(partition, {partition: 600}, parts(before))
    after.apply(batch(lists(600, hit=False), start=600))
    readings = {line.window: line.reading for line in Taking(after).take().series}
    assert readings["5m"].interval is not None
    assert readings["5m"].interval.low < readings["5m"].value < readings["5m"].interval.high
    for window in ("1h", "lifetime"):
        assert readings[window].interval is None
        assert "50 % of the lists are counted by user" in str(readings[window].no_interval)


def test_lists_older_than_a_new_metric_do_not_lack_what_it_reads() -> None:
    partition, windowed = Partition("events", 0), (5 * MINUTE,)
    before = ingest_of(layout(["ctr"], spans=windowed))
    before.apply(batch([record(ts=second) for second in range(1_100)]))
    after = ingest_of(layout(["ctr", "auc"], spans=windowed))
    after.restore(partition, {partition: 1_100}, parts(before))
    of = Taking(after)
    assert of.take().health.trouble is None
    after.apply(batch([record(ts=3_600)] * 1_100, start=1_100))
    assert "1,100 lists without scores" in str(of.take().health.trouble)


OF_HISTORY = ["hit_rate@1", "ctr", "distinct_items@1"]
HOUR = 60 * MINUTE


def counting(*spans: int) -> Ingest:
    return ingest_of(layout(OF_HISTORY, spans=spans))


def rows(history: ValueHistory) -> dict[tuple[int, tuple[str, ...]], list[tuple[float, int]]]:
    (family,) = history.families
    panes = {pane.start: pane.rows for pane in family.panes}
    return {(at, labels): [*row] for at, rows in panes.items() for labels, row in rows.items()}


def test_every_pane_of_every_slice_has_its_means() -> None:
    ingest = counting(HOUR)
    first = [record(ts=3600, interactions=["a"]), record(ts=3601), record(ts=3660, variant="b")]
    ingest.apply(batch(first))
    ingest.apply(batch([record(ts=3610)], number=1))
    history = Taking(ingest).take().past
    assert history.clock == 3_660_000_000
    assert history.families[0].means == ("hit_rate@1", "ctr")
    assert rows(history) == {
        (60 * MINUTE, ("a",)): [(1.0, 3), (1.0, 3)],
        (61 * MINUTE, ("b",)): [(0.0, 1), (0.0, 1)],
    }


def test_old_panes_become_hours_and_nothing_counts_twice() -> None:
    ingest = counting(24 * HOUR)
    ingest.apply(batch([record(ts=60 * minute) for minute in range(300)]))
    of = Taking(ingest)
    (family,) = [of.take().past for _ in range(9)][-1].families
    assert [pane.start for pane in family.panes] == sorted(pane.start for pane in family.panes)
    assert {pane.size for pane in family.panes} == {MINUTE, HOUR}
    assert sum(row[0][1] for pane in family.panes for row in pane.rows.values()) == 300


def test_an_unchanged_pane_is_the_same_object() -> None:
    ingest = counting(HOUR)
    of = Taking(ingest)
    ingest.apply(batch([record(ts=3600), record(ts=3700)]))
    before = of.take().past.families[0].panes
    ingest.apply(batch([record(ts=3710)], start=2))
    after = of.take().past.families[0].panes
    assert before[0] is after[0]
    assert [row[0][1] for pane in before for row in pane.rows.values()] == [1, 1]
    assert [row[0][1] for pane in after for row in pane.rows.values()] == [1, 2]


def test_a_long_history_is_read_in_steps_the_newest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_history, "_LEAST", 10)
    ingest = counting(HOUR)
    ingest.apply(batch([record(ts=60 * minute) for minute in range(30)]))
    of = Taking(ingest)
    lengths = []
    for _ in range(8):
        (family,) = of.take().past.families
        panes = family.panes
        border = panes[0].start if len(panes) < 30 else family.since
        assert family.since == border <= panes[0].start
        lengths.append(len(panes))
        assert panes[-1].start == 29 * MINUTE
        assert [pane.start for pane in panes] == [
            minute * MINUTE for minute in range(30 - len(panes), 30)
        ]
    assert lengths == [5, 10, 15, 20, 25, 30, 30, 30]


def test_without_windows_the_history_has_snapshots_only() -> None:
    ingest = counting()
    ingest.apply(batch([record(ts=1, interactions=["a"])]))
    of = Taking(ingest)
    of.take()
    ingest.apply(batch([record(ts=2)], start=1))
    history = of.take().past
    assert history.families[0].panes == ()
    key = (0, "hit_rate@1", ("a",), "lifetime")
    assert [(values.at, values.value(key)) for values in history.seen] == [(1.0, 1.0), (2.0, 0.5)]


def test_past_values_without_evidence_are_undefined() -> None:
    ingest = counting()
    ingest.apply(batch([record(ts=1, recommendations=[])]))
    (seen,) = Taking(ingest).take().past.seen
    assert seen.value((0, "ctr", ("a",), "lifetime")) is None
    assert seen.value((0, "ctr", ("z",), "lifetime")) is None


def test_past_values_are_bounded_and_reach_back_to_the_start() -> None:
    ingest = counting()
    of = Taking(ingest)
    seen = [of.take(float(now)).past.seen for now in range(1_000)]
    assert max(map(len, seen)) <= 200
    moments = [values.at for values in seen[-1]]
    assert moments == sorted(moments)
    assert moments[-12:] == [float(now) for now in range(988, 1_000)]
    assert moments[0] < 500


def test_while_event_time_stands_still_the_latest_snapshot_replaces_the_last() -> None:
    ingest = counting()
    of = Taking(ingest)
    for offset in range(5):
        ingest.apply(batch([record(ts=7)], start=offset))
        assert [values.at for values in of.take().past.seen] == [7.0]


def test_after_a_clock_is_set_back_times_still_ascend() -> None:
    reader = of_history.HistoryReader([])
    histories = [reader.take(now, None, []) for now in (100.0, 101.0, 102.0, 100.5, 101.5)]
    assert [[values.at for values in history.seen] for history in histories[2:]] == [
        [100.0, 101.0, 102.0],
        [100.0, 100.5],
        [100.0, 100.5, 101.5],
    ]
