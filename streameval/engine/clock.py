"""The clock of one log: how far its event time has come, and which events are ahead of it.

One producer with a wrong clock must close no window. So a log's clock rests on most of its recent
events: it is a one-sided Hampel filter over the last `RECENT` event times. Everything here is a
function of the log, wherever its batches end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

RECENT: Final = 21
"""So many events decide on the clock: eleven of them agree, so ten in a row move nothing."""

MAX_AHEAD: Final = 60_000_000
"""A minute, in microseconds."""

NEVER: Final = -(2**62)
"""A moment before every event time: the clock of a log with fewer than `RECENT` events."""

_DEVIATIONS: Final = 3

Clocks: TypeAlias = NDArray[np.int64]
"""The clock after each event, microseconds."""


class Clock:
    """The event-time clock of one log; it never goes back.

    The agreed time is the largest median of `recent` consecutive event times. An event is believed
    if it is ahead of that by at most `max_ahead`, or by three times the median absolute deviation
    of the recent times from their median, which lets sparse logs take their usual steps. The clock
    is the largest time believed; an event that is not believed when it comes is once the median
    has come near it.

    Args:
        max_ahead: so far ahead of the agreed time an event is believed, microseconds.
        recent: how many event times decide; odd. With 1 every event is believed.

    Attributes:
        now: largest time believed, microseconds; NEVER before there were `recent` events.

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
        """Whether there were events enough; before that nothing may be given up for good."""
        return self.now != NEVER

    @property
    def recent(self) -> list[int]:
        """The last event times, in the order of the log."""
        found: list[int] = self._recent.tolist()
        return found

    @property
    def latest(self) -> int | None:
        """The clock; before it is final, an estimate from the few events so far."""
        return self.now if self.is_final else provisional(self.recent, self.max_ahead)

    def advance(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take note of the next events of the log.

        `times`: of each, microseconds.

        Returns:
            The clock after each of them.
        """
        if not self.is_final and len(times) > self.size:
            # The quick check needs a clock.
            parts = [self.advance(times[: self.size]), self.advance(times[self.size :])]
            return np.concatenate(parts)
        log = np.concatenate([self._recent, times])
        first = min(max(self.size - 1 - len(self._recent), 0), len(times))
        clocks = np.full(len(times), self.now)
        if first < len(times):
            recent = log[first - len(times) - self.size + 1 :]
            clocks[first:] = np.maximum.accumulate(self._believed(recent))
            self.now = int(clocks[-1])
        self._recent = log[-self.size :]
        return clocks

    def copy(self) -> Clock:
        """Another one that stands where this one does."""
        twin = Clock(self.max_ahead, self.size)
        twin.now, twin._agreed, twin._recent = self.now, self._agreed, self._recent
        return twin

    def state(self) -> list[Any]:
        """Plain integers: what the next events are judged by."""
        return [self.now, self._agreed, self.recent]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`.

        Raises:
            ValueError: it is not that.
            TypeError: likewise.
        """
        now, agreed, recent = state
        self.now, self._agreed = int(now), int(agreed)
        self._recent = np.array(recent, dtype=np.int64)[-self.size :]

    def _believed(self, log: Clocks) -> Clocks:
        """The largest time believed after each event that has `size` - 1 others before it."""
        agreed, newest = self._agreed, log[self.size - 1 :]
        # As a rule: nothing is ahead of the clock, and nothing new is further ahead than it may.
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
        found = np.where(windows <= limits[:, np.newaxis], windows, NEVER).max(axis=1)
        believed: Clocks = np.maximum(found, self.now)
        return believed


def largest_median(times: Clocks, size: int, known: int) -> int:
    """The largest of a known time and the medians of all windows of so many consecutive times.

    `known`: the answer where no median is larger.

    Example:
        >>> largest_median(np.array([1, 9, 2, 8, 3]), 3, 0)
        8
    """
    # As a rule it is that of the last window, or a little more.
    known = max(known, sorted(times[-size:].tolist())[size // 2])
    candidates = np.sort(times[times > known])
    # More than half of a window is at least its median, so that fewer times cannot raise it; and
    # fewer windows have a median of at least t as t grows.
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
    """The clock of so few events that nothing final may follow from it; None without any.

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
    """Events that the log has not confirmed.

    Attributes:
        panes: where panes begin whose events of earlier calls are refuted.
        rows: whether each of the events given is refuted.
        events: how many there are, earlier ones included.
    """

    panes: Sequence[int]
    rows: NDArray[np.bool_]
    events: int


class Ahead:
    """Events whose panes begin after the clock, until the log confirms or refutes them.

    A pane is confirmed when the clock reaches it. It is refuted when all its events are `recent`
    events old and the clock has not.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self._patience = recent - 1
        self._waiting: dict[int, tuple[int, int]] = {}

    def judge(
        self, starts: NDArray[np.int64], clocks: NDArray[np.int64], counted: NDArray[np.bool_]
    ) -> Refuted:
        """Take note of the next events of the log.

        `counted`: which of them are counted; the others only let time pass.
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
        """Plain integers: start of each pane, for how many more events it waits, its events."""
        return [[start, *self._waiting[start]] for start in sorted(self._waiting)]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`.

        Raises:
            ValueError: it is not that.
            TypeError: likewise.
        """
        self._waiting = {int(start): (int(left), int(events)) for start, left, events in state}

    def _judge(
        self, start: int, own: Sequence[int], before: tuple[int, int] | None, clocks: Clocks
    ) -> tuple[list[int], int]:
        """Refuted rows of one pane, and how many of its earlier events are refuted."""
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
