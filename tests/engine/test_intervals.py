"""Intervals of a pipeline equal those of an accumulator with the same events."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np
import pytest

from streameval import Accumulator, Event, Intervals
from streameval.accumulator.kinds.groups import PANE_GROUPS, groups_of
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import LIFETIME, Series
from streameval.events.records import Partition
from streameval.inference.interval_formulas import interval
from tests.engine.counting import MINUTE, Taking, batch, fed, ingest, layout, parts, record, views
from tests.present import present

INTERVALS = Intervals(groups=256)
METRICS = ("ctr", "ndcg@3", "distinct_items@2")
PARTITION = Partition("events", 0)
LAYOUT = layout(METRICS, spans=(5 * MINUTE, 180 * MINUTE), intervals=INTERVALS)
DAY = 86_400


def _log(lists: int, *, users: int = 500) -> list[bytes]:
    draw = random.Random(3)
    return [
        record(
            ts=10 * DAY - 600 + index * 1_200 / lists,
            id=f"e{index}",
            variant="ab"[index % 2],
            user=f"u{draw.randrange(users)}" if index % 151 else None,
            recommendations=["a", "b", "c"],
            interactions=[draw.choice("abc")] if draw.random() < 0.4 else [],
        )
        for index in range(lists)
    ]


def _series(of: Ingest) -> dict[tuple[str, str, str], Series]:
    series = Taking(of).take().series
    return {(line.metric.text, line.labels[0], line.window): line for line in series}


def _accumulated(values: Sequence[bytes], variant: str) -> Accumulator:
    accumulator = Accumulator(*METRICS, intervals=INTERVALS)
    fields = [json.loads(value) for value in values]
    accumulator.update_many(
        [
            Event(
                recommendations=record["recommendations"],
                interactions=record["interactions"],
                user=record["user"],
                ts=round(record["ts"] * 1_000_000),
                event_id=record["id"],
            )
            for record in fields
            if record["variant"] == variant
        ]
    )
    return accumulator


def test_lifetimes_have_the_interval_of_an_accumulator_and_windows_a_pointwise_one() -> None:
    values = _log(4_000)
    series = _series(fed(LAYOUT, values, [700, 1_900]))
    for variant in "ab":
        accumulator = _accumulated(values, variant)
        for metric in ("ctr", "ndcg@3"):
            reading = series[metric, variant, LIFETIME].reading
            assert reading == accumulator.read(metric)
            assert present(reading.interval).kind == "anytime"
            window = series[metric, variant, "5m"].reading
            pointwise = present(window.interval)
            assert pointwise.kind == "pointwise"
            assert pointwise.low < window.value < pointwise.high
        reading = series["distinct_items@2", variant, LIFETIME].reading
        assert (reading.interval is None, bool(reading.no_interval)) == (True, True)


def test_a_window_has_the_sums_of_its_lists_in_fewer_groups() -> None:
    values = _log(2_000)
    of = fed(LAYOUT, values)
    seen = views(of)
    table = seen.window(5 * MINUTE, of.clock or 0)
    cells = seen.slices(table)
    sums, *_ = present(groups_of(table)).of("ctr", cells)
    clock = (of.clock or 0) // MINUTE * MINUTE
    saved = [value for value in values if json.loads(value)["ts"] * 1_000_000 >= clock - 5 * MINUTE]
    fine = present(_accumulated(saved, "a").groups("ctr"))
    for wide, narrow in zip(fine[1:], sums[1:], strict=True):
        assert np.array_equal(wide.sum(axis=0).reshape(4, PANE_GROUPS).sum(axis=0), narrow[0])
    reading = _series(of)["ctr", "a", "5m"].reading
    expected = interval(sums, INTERVALS, "pointwise", bounds=(0.0, 1.0))
    assert reading.interval == expected


def test_days_are_those_of_the_events() -> None:
    of = fed(LAYOUT, _log(1_000))
    table = views(of).lifetime()
    sums = present(groups_of(table)).of("ctr", table.cells)
    assert [sums_.days.tolist() for sums_ in sums] == [[9, 10], [9, 10]]


def test_days_are_those_of_the_events_even_ahead_of_the_clock() -> None:
    """In pauses and bursts around midnight, an event ahead of its log counts on its own day."""
    draw = random.Random(1)
    times = [2 * DAY]
    while times[-1] < 60 * DAY:
        times.append(times[-1] + draw.choice([1, 1, 1, 40, 7_000]))
    values = [record(ts=at, id=f"e{at}", variant="a", user=f"u{at}") for at in times]
    table = views(fed(LAYOUT, values, range(0, len(values), 50))).lifetime()
    (sums,) = present(groups_of(table)).of("ctr", table.cells)
    expected = present(_accumulated(values, "a").groups("ctr"))
    assert np.array_equal(sums.days, expected.days)
    assert np.array_equal(sums.denominators, expected.denominators)


def test_wrong_days_far_ahead_do_not_replace_those_of_the_log() -> None:
    """A hundred of them would merge all days of the log into one."""
    values = _log(1_000)
    for day in range(100):
        wrong = record(ts=(400 + day) * DAY, id=f"wrong{day}", variant="a", user="u1")
        values.insert(100 + 8 * day, wrong)
    table = views(fed(LAYOUT, values)).lifetime()
    sums = present(groups_of(table)).of("ctr", table.cells)
    assert [group_sums.days.tolist() for group_sums in sums] == [[9, 10], [9, 10]]


@pytest.mark.parametrize("intervals", [None, INTERVALS])
def test_a_state_without_intervals_continues_with_empty_ones(
    intervals: Intervals | None,
) -> None:
    values = _log(400)
    before = ingest(layout(METRICS, spans=(5 * MINUTE, 180 * MINUTE), intervals=intervals))
    before.begin(PARTITION, {PARTITION: 0})
    before.apply(batch(values[:200]))
    after = ingest(LAYOUT)
    after.restore(PARTITION, {PARTITION: 200}, parts(before))
    after.apply(batch(values[200:], start=200))
    table = views(after).lifetime()
    sums = present(groups_of(table)).of("ctr", table.cells)
    retained = sum(int(group_sums.denominators.sum()) for group_sums in sums)
    assert retained == 3 * (200 if intervals is None else 400)
    assert sum(table.lists(table.cells).tolist()) == 400
