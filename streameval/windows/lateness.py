"""Where an event belongs by its time: into a pane, into an hour, or nowhere any more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streameval.windows.times import PAST, Times, unit


class Judged(NamedTuple):
    """What the clock of a partition says of its events.

    Attributes:
        starts: start of the pane of each, microseconds; PAST where it is late.
        late: whether each is late.
    """

    starts: NDArray[np.int64]
    late: NDArray[np.bool_]


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
