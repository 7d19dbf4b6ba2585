from __future__ import annotations

import pytest

from streameval.engine import history as of_history
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import ValueHistory
from tests.engine.counting import MINUTE, Taking, batch, layout, parts, record
from tests.engine.counting import ingest as ingest_of

METRICS = ["hit_rate@1", "ctr", "distinct_items@1"]
HOUR = 60 * MINUTE


def counting(*spans: int) -> Ingest:
    return ingest_of(layout(METRICS, spans=spans))


def rows(found: ValueHistory) -> dict[tuple[int, tuple[str, ...]], list[tuple[float, int]]]:
    (family,) = found.families
    panes = {pane.start: pane.rows for pane in family.panes}
    return {(at, labels): [*row] for at, rows in panes.items() for labels, row in rows.items()}


def test_every_pane_of_every_slice_has_its_means() -> None:
    ingest = counting(HOUR)
    first = [record(ts=3600, interactions=["a"]), record(ts=3601), record(ts=3660, variant="b")]
    ingest.apply(batch(first))
    ingest.apply(batch([record(ts=3610)], number=1))
    found = Taking(ingest).take().past
    assert found.clock == 3_660_000_000
    assert found.families[0].means == ("hit_rate@1", "ctr")
    assert rows(found) == {
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


def test_the_history_of_panes_survives_a_restart() -> None:
    before, after = counting(HOUR), counting(HOUR)
    before.apply(batch([record(ts=60 * minute) for minute in range(50)]))
    place = batch([]).partition
    after.restore(place, {place: 50}, parts(before))
    assert rows(Taking(after).take().past) == rows(Taking(before).take().past)


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
            each * MINUTE for each in range(30 - len(panes), 30)
        ]
    assert lengths == [5, 10, 15, 20, 25, 30, 30, 30]


def test_without_windows_the_history_has_snapshots_only() -> None:
    ingest = counting()
    ingest.apply(batch([record(ts=1, interactions=["a"])]))
    of = Taking(ingest)
    of.take()
    ingest.apply(batch([record(ts=2)], start=1))
    found = of.take().past
    assert found.families[0].panes == ()
    key = (0, "hit_rate@1", ("a",), "lifetime")
    assert [(each.at, each.value(key)) for each in found.seen] == [(1.0, 1.0), (2.0, 0.5)]


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
    moments = [each.at for each in seen[-1]]
    assert moments == sorted(moments)
    assert moments[-12:] == [float(now) for now in range(988, 1_000)]
    assert moments[0] < 500


def test_while_event_time_stands_still_the_latest_snapshot_replaces_the_last() -> None:
    ingest = counting()
    of = Taking(ingest)
    for offset in range(5):
        ingest.apply(batch([record(ts=7)], start=offset))
        assert [each.at for each in of.take().past.seen] == [7.0]
