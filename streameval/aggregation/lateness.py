"""Where an event belongs by its time: into a pane, into an hour, or nowhere any more."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streameval.aggregation.time import FINE, HOUR, Times

PAST: Final = -(2**63)
"""Stands for the start of a pane that is no longer kept."""


class Borders(NamedTuple):
    """How event time is kept while the clock stands; microseconds.

    Attributes:
        kept: what is before it belongs to no pane any more.
        fine: what is before it is kept by the hour.
    """

    kept: int
    fine: int


class Judged(NamedTuple):
    """What the clock of a partition says of its events.

    Attributes:
        starts: start of the pane of each, microseconds; PAST where it is late.
        late: whether each is late.
    """

    starts: NDArray[np.int64]
    late: NDArray[np.bool_]


def unit(span: int, pane: int) -> int:
    """What a window of this span begins at a whole one of: hours above FINE, panes up to it."""
    return HOUR if span > FINE else pane


def borders(times: Times, clock: int) -> Borders:
    """What is still kept at this clock, and how.

    Hours are dropped as a whole where any window has more than FINE; without windows nothing is
    kept. Both borders only move forward as the clock does.
    """
    if not times.spans:
        return Borders(-PAST - 1, PAST)
    size = unit(times.spans[-1], times.pane)
    kept = (clock - times.kept) // size * size
    if size == times.pane:
        return Borders(kept, PAST)
    return Borders(kept, (clock - FINE - times.lateness) // times.pane * times.pane)


def late(times: NDArray[np.int64], clocks: NDArray[np.int64], division: Times) -> Judged:
    """Judge the events of a partition in the order of its log.

    An event is late if its pane is no longer kept when it comes: judged by the clock of the
    partition then, so by the log alone and never by where a batch ends. Without windows no event
    is late.

    Args:
        times: event times in the order of the log; microseconds.
        clocks: the clock after each of them.
        division: how event time is divided.

    Example:
        >>> minute = 60_000_000
        >>> times = Times(pane=minute, spans=(minute,), lateness=minute)
        >>> late(np.array([2, 0, 5, 1, 3]) * minute, np.array([2, 2, 5, 5, 5]) * minute, times).late
        array([False, False, False,  True, False])
    """
    starts = times // division.pane * division.pane
    if not division.spans:
        return Judged(starts, np.zeros(len(times), dtype=np.bool_))
    size = unit(division.spans[-1], division.pane)
    too_late = times < (clocks - division.kept) // size * size
    starts[too_late] = PAST
    return Judged(starts, too_late)
