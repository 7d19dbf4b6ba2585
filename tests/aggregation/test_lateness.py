"""Late is judged event by event."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.lateness import PAST, late
from streameval.aggregation.time import FINE, HOUR, Times
from streameval.pipeline.clock import NEVER
from tests.aggregation.logs import MINUTE, spans, times

logs = st.lists(times, min_size=1, max_size=30)
divisions = st.builds(
    Times,
    pane=st.sampled_from([MINUTE, 5 * MINUTE, HOUR]),
    spans=spans,
    lateness=st.integers(0, 10 * MINUTE),
)


def textbook(log: list[int], clocks: list[int], division: Times) -> list[int]:
    """Start of each event's pane, event by event."""
    starts = []
    for time, clock in zip(log, clocks, strict=True):
        size = HOUR if division.spans and division.spans[-1] > FINE else division.pane
        end = time // size * size + size
        kept = not division.spans or end > clock - division.spans[-1] - division.lateness
        starts.append(time // division.pane * division.pane if kept else PAST)
    return starts


@given(logs, divisions, st.data())
def test_each_event_is_judged_by_the_clock_after_it(
    log: list[int], division: Times, data: st.DataObject
) -> None:
    some = st.lists(times | st.just(NEVER), min_size=len(log), max_size=len(log))
    clocks = sorted(data.draw(some))
    judged = late(np.array(log), np.array(clocks), division)
    assert judged.starts.tolist() == textbook(log, clocks, division)
    assert judged.late.tolist() == [start == PAST for start in judged.starts.tolist()]


def test_an_event_may_come_as_late_as_configured() -> None:
    division = Times(pane=MINUTE, spans=(5 * MINUTE,), lateness=2 * MINUTE)
    log = np.array([7 * MINUTE, MINUTE - 1, 0, 8 * MINUTE, MINUTE, 0])
    judged = late(log, np.maximum.accumulate(log), division)
    assert judged.starts.tolist() == [7 * MINUTE, 0, 0, 8 * MINUTE, MINUTE, PAST]


def test_judging_leaves_the_times_alone() -> None:
    given_times = np.array([10 * HOUR, 0])
    late(given_times, np.full(2, 10 * HOUR), Times(spans=(MINUTE,)))
    assert given_times.tolist() == [10 * HOUR, 0]
