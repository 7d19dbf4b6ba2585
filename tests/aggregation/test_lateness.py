"""Late is judged event by event, whatever the batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.lateness import PAST, late
from streameval.aggregation.time import FINE, HOUR, Times
from tests.aggregation.logs import MINUTE, spans, times

logs = st.lists(times, min_size=1, max_size=30)
divisions = st.builds(
    Times,
    pane=st.sampled_from([MINUTE, 5 * MINUTE, HOUR]),
    spans=spans,
    lateness=st.integers(0, 10 * MINUTE),
)


def textbook(log: list[int], division: Times) -> list[int]:
    """Start of each event's pane, event by event."""
    starts, clock = [], log[0]
    for time in log:
        clock = max(clock, time)
        size = HOUR if division.spans and division.spans[-1] > FINE else division.pane
        end = time // size * size + size
        kept = not division.spans or end > clock - division.spans[-1] - division.lateness
        starts.append(time // division.pane * division.pane if kept else PAST)
    return starts


@given(logs, divisions, st.integers(1, 30))
def test_any_split_is_judged_as_the_textbook_does(
    log: list[int], division: Times, step: int
) -> None:
    clock, starts, count = None, [], 0
    for begin in range(0, len(log), step):
        judged = late(np.array(log[begin : begin + step]), clock, division)
        clock, count = judged.clock, count + judged.late
        starts += judged.starts.tolist()
    assert starts == textbook(log, division)
    assert (clock, count) == (max(log), starts.count(PAST))


def test_an_event_may_come_as_late_as_configured() -> None:
    division = Times(pane=MINUTE, spans=(5 * MINUTE,), lateness=2 * MINUTE)
    judged = late(np.array([7 * MINUTE, MINUTE - 1, 0, 8 * MINUTE, MINUTE, 0]), None, division)
    assert judged.starts.tolist() == [7 * MINUTE, 0, 0, 8 * MINUTE, MINUTE, PAST]


def test_judging_leaves_the_times_alone() -> None:
    given_times = np.array([10 * HOUR, 0])
    late(given_times, None, Times(spans=(MINUTE,)))
    assert given_times.tolist() == [10 * HOUR, 0]
