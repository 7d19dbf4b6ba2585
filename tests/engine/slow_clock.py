"""A reference clock, written from the definition, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

NEVER = -(2**62)


def clocks(log: Sequence[int], max_ahead: int, recent: int) -> list[int]:
    found, agreed, now = list[int](), NEVER, NEVER
    for end in range(1, len(log) + 1):
        last = log[max(0, end - recent) : end]
        if len(last) == recent:
            middle = median(last)
            spread = median(abs(time - middle) for time in last)
            agreed = max(agreed, int(middle))
            limit = agreed + max(max_ahead, 3 * int(spread))
            now = max(now, *(time for time in [now, *last] if time <= limit))
        found.append(now)
    return found


def ahead(log: Sequence[int], log_clocks: Sequence[int], recent: int) -> list[bool]:
    """Whether the clock does not reach each event within `recent` - 1 more events."""
    ends = range(recent - 1, recent - 1 + len(log))
    pairs = zip(log, ends, strict=True)
    return [end < len(log) and time > log_clocks[end] for time, end in pairs]


def refuted(
    starts: Sequence[int], log_clocks: Sequence[int], counted: Sequence[bool], recent: int
) -> list[bool]:
    """Whether each event is from the future: the clock does not reach its pane in time."""
    found = [False] * len(starts)
    for start in set(starts):
        group: list[int] = []
        for row, clock in enumerate(log_clocks):
            if clock >= start:
                group = []
            elif starts[row] == start and counted[row]:
                group.append(row)
            if group and row == group[-1] + recent - 1:
                for each in group:
                    found[each] = True
                group = []
    return found
