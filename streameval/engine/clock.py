"""The event-time clock of one log, and the events that are ahead of it.

A single producer with a wrong clock must not close windows. So the clock follows the majority of
recent events: a one-sided Hampel filter over the last `RECENT` event times. All results depend on
the log alone, never on batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

RECENT: Final = 21
"""Number of events behind the clock: eleven must agree, so ten wrong ones in a row move nothing."""

MAX_AHEAD: Final = 60_000_000
"""A minute, in microseconds."""

NEVER: Final = -(2**62)
"""Before every event time: the clock of a log with fewer than `RECENT` events."""

_DEVIATIONS: Final = 3

Clocks: TypeAlias = NDArray[np.int64]
"""The clock after each event, microseconds."""


class Clock:
    """The event-time clock of one log; it never goes back.

    The agreed time is the largest median of `recent` consecutive event times. An event time is
    accepted if it is ahead of the agreed time by at most `max_ahead`, or by three times the median
    absolute deviation of the recent times, so that sparse logs can take their usual steps. The
    clock is the largest accepted time; an event time that was not accepted is later, once the
    median has come near it.

    Args:
        max_ahead: how far ahead of the agreed time an event time is accepted, microseconds.
        recent: number of event times for a median; odd. With 1 every event time is accepted.

    Attributes:
        now: largest accepted time, microseconds; NEVER before the first `recent` events.

    Example:
        >>> clock = Clock(max_ahead=10, recent=3)
        >>> clock.advance(np.array([1, 2, 3, 900, 4, 5, 901, 902])).tolist()[2:]
        [3, 3, 4, 5, 5, 902]
    """

    def __init__(self, max_ahead: int = MAX_AHEAD, recent: int = RECENT) -> None:
        self.max_ahead = max_ahead
        self.size = recent
        self.now = NEVER
        self._agreed = NEVER
        self._recent: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def is_final(self) -> bool:
        """Whether there were `recent` events; before that, no event may be dropped as late."""
        return self.now != NEVER

    @property
    def recent(self) -> list[int]:
        """The last `recent` event times, in the order of the log."""
        times: list[int] = self._recent.tolist()
        return times

    @property
    def unconfirmed(self) -> list[int]:
        """The event times ahead of the clock that later events may still confirm."""
        latest, undecided = self.latest, self.recent[len(self._recent) == self.size :]
        return [] if latest is None else [time for time in undecided if time > latest]

    @property
    def latest(self) -> int | None:
        """The clock; before it is final, an estimate from the events so far."""
        return self.now if self.is_final else provisional(self.recent, self.max_ahead)

    def advance(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Advance by the next events of the log.

        `times`: event times, microseconds.

        Returns:
            The clock after each event.
        """
        if not self.is_final and len(times) > self.size:
            # The fast path of `_accepted` needs a clock.
            parts = [self.advance(times[: self.size]), self.advance(times[self.size :])]
            return np.concatenate(parts)
        log = np.concatenate([self._recent, times])
        first = min(max(self.size - 1 - len(self._recent), 0), len(times))
        clocks = np.full(len(times), self.now)
        if first < len(times):
            recent = log[first - len(times) - self.size + 1 :]
            clocks[first:] = np.maximum.accumulate(self._accepted(recent))
            self.now = int(clocks[-1])
        self._recent = log[-self.size :]
        return clocks

    def copy(self) -> Clock:
        """An independent copy."""
        copy = Clock(self.max_ahead, self.size)
        copy.now, copy._agreed, copy._recent = self.now, self._agreed, self._recent
        return copy

    def state(self) -> list[Any]:
        """The state as plain integers."""
        return [self.now, self._agreed, self.recent]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`; raises ValueError or TypeError for other values."""
        now, agreed, recent = state
        self.now, self._agreed = int(now), int(agreed)
        self._recent = np.array(recent, dtype=np.int64)[-self.size :]

    def _accepted(self, log: Clocks) -> Clocks:
        """The largest accepted time after each event that follows `size` - 1 others."""
        agreed, newest = self._agreed, log[self.size - 1 :]
        # Fast path: no recent time is ahead of the clock, and no new one is too far ahead.
        if (
            log[: self.size - 1].max(initial=NEVER) <= self.now
            and newest.max() <= agreed + self.max_ahead
        ):
            self._agreed = largest_median(log, self.size, agreed)
            return np.maximum(newest, self.now)
        windows = log[np.arange(len(newest))[:, np.newaxis] + np.arange(self.size)]
        medians = np.partition(windows, self.size // 2, axis=1)[:, self.size // 2]
        settled = np.maximum(np.maximum.accumulate(medians), agreed)
        self._agreed = int(settled[-1])
        spread = np.abs(windows - medians[:, np.newaxis])
        spread.partition(self.size // 2, axis=1)
        limits = settled + np.maximum(self.max_ahead, _DEVIATIONS * spread[:, self.size // 2])
        highest = np.where(windows <= limits[:, np.newaxis], windows, NEVER).max(axis=1)
        accepted: Clocks = np.maximum(highest, self.now)
        return accepted


def largest_median(times: Clocks, size: int, known: int) -> int:
    """The largest of `known` and the medians of all runs of `size` consecutive times.

    Example:
        >>> largest_median(np.array([1, 9, 2, 8, 3]), 3, 0)
        8
    """
    # Usually the median of the last run, or a little more.
    known = max(known, sorted(times[-size:].tolist())[size // 2])
    candidates = np.sort(times[times > known])
    # More than half of a run is at least its median, so the highest `size // 2` times cannot be
    # one. The number of runs with a median of at least t falls as t grows: bisect.
    low, high = 0, max(0, candidates.size - size // 2)
    while low < high:
        middle = (low + high) // 2
        reach = np.zeros(times.size + 1, np.int64)
        np.cumsum(times >= candidates[middle], out=reach[1:])
        if (reach[size:] - reach[:-size]).max() > size // 2:
            low = middle + 1
        else:
            high = middle
    return int(candidates[low - 1]) if low else known


def provisional(times: Sequence[int], max_ahead: int) -> int | None:
    """An estimate of the clock from too few events; None without events.

    Example:
        >>> provisional([1, 2, 900], 10), provisional([0, 3600, 7200], 10)
        (2, 7200)
    """
    if not times:
        return None
    middle = len(times) // 2
    median = sorted(times)[middle]
    spread = sorted(abs(time - median) for time in times)[middle]
    limit = median + max(max_ahead, _DEVIATIONS * spread)
    return max(time for time in times if time <= limit)


class Refuted(NamedTuple):
    """Events whose time the log has refuted.

    Attributes:
        panes: starts of panes whose events of earlier calls are refuted.
        rows: whether each event of this call is refuted.
        events: number of refuted events, of earlier calls as well.
    """

    panes: Sequence[int]
    rows: NDArray[np.bool_]
    events: int


class UnconfirmedPanes:
    """Panes that begin after the clock, until the log confirms or refutes their events.

    A pane is confirmed when the clock reaches it. It is refuted when the clock has not, and
    `recent` events have followed all of its events.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self._patience = recent - 1
        self._waiting: dict[int, tuple[int, int]] = {}

    def judge(
        self, starts: NDArray[np.int64], clocks: NDArray[np.int64], counted: NDArray[np.bool_]
    ) -> Refuted:
        """Judge the next events of the log.

        `counted`: mask of the events that count; the others only confirm or refute.
        """
        rows = np.zeros(len(starts), dtype=np.bool_)
        ahead = np.flatnonzero((starts > clocks) & counted).tolist()
        if not (ahead or self._waiting) or not len(starts):
            return Refuted([], rows, 0)
        members: dict[int, list[int]] = {start: [] for start in self._waiting}
        for row in ahead:
            members.setdefault(int(starts[row]), []).append(row)
        panes, events = list[int](), 0
        waiting, self._waiting = self._waiting, {}
        for start, own in sorted(members.items()):
            refuted, earlier = self._judge(start, own, waiting.get(start), clocks)
            rows[refuted] = True
            events += len(refuted) + earlier
            if earlier:
                panes.append(start)
        return Refuted(panes, rows, events)

    def state(self) -> list[Any]:
        """Start of each pane, number of events that it still waits for, number of its events."""
        return [[start, *self._waiting[start]] for start in sorted(self._waiting)]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`; raises ValueError or TypeError for other values."""
        self._waiting = {int(start): (int(left), int(events)) for start, left, events in state}

    def _judge(
        self, start: int, own: Sequence[int], before: tuple[int, int] | None, clocks: Clocks
    ) -> tuple[list[int], int]:
        """Refuted rows of one pane, and the number of its earlier events that are refuted."""
        left, earlier = before or (0, 0)
        verdict, last = left - 1, len(clocks) - 1
        rows: list[int] = []
        refuted, waiting = 0, list[int]()
        for row in own:
            if row > verdict:
                rows, waiting = rows + waiting, []
                refuted, earlier = refuted + earlier, 0
            waiting.append(row)
            verdict = row + self._patience
        if clocks[min(verdict, last)] >= start:
            return rows, refuted
        if verdict <= last:
            return rows + waiting, refuted + earlier
        self._waiting[start] = (verdict - last, earlier + len(waiting))
        return rows, refuted
