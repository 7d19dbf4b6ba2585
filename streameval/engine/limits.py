"""Limits on invalid records, above which the daemon stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

WINDOW: Final = 10_000
"""The share of invalid records is that of so many of the last ones."""

FEWEST: Final = 1_000
"""Fewer records than this have no meaningful share."""


class TooMany(NamedTuple):
    """How many records were invalid when a limit was passed.

    Attributes:
        of: among so many, the last ones.
    """

    invalid: int
    of: int
    limit: str


class Limits:
    """Judges all records of a process in the order in which they are read.

    It does not matter where one batch ends and the next begins.

    `max_ratio`: most invalid records as a share of the last `WINDOW`, once there were `FEWEST`.

    >>> limits = Limits(max_ratio=1, max_run=2)
    >>> limits.observe(4, [0, 1, 3])
    >>> limits.observe(2, [0, 1]).limit
    '2 in a row (max_run)'
    """

    def __init__(self, max_ratio: float, max_run: int) -> None:
        self._max_ratio = max_ratio
        self._max_run = max_run
        self._seen = 0
        self._run = 0
        self._last = -1
        self._invalid: deque[int] = deque()
        self._found: TooMany | None = None

    def observe(self, records: int, places: Sequence[int]) -> TooMany | None:
        """Take note of consecutive records.

        `places`: which of them are invalid: from 0 on, ascending.

        Returns:
            What was too many, the first time and ever after; None while all is within limits.
        """
        begin, self._seen = self._seen, self._seen + records
        for place in places:
            self._look_when_there_are_enough(begin + place)
            self._add(begin + place)
        self._look_when_there_are_enough(self._seen)
        return self._found

    def _add(self, number: int) -> None:
        """Take note of an invalid record, the one of this number in the order of reading."""
        self._run = self._run + 1 if number == self._last + 1 else 1
        self._last = number
        self._invalid.append(number)
        if self._run > self._max_run:
            self._find(self._run, self._run, f"{self._max_run:,} in a row (max_run)")
        self._look(number + 1)

    def _look_when_there_are_enough(self, seen: int) -> None:
        """Judge the first records too, even if none after them is invalid."""
        if seen >= FEWEST and (not self._invalid or self._last < FEWEST):
            self._look(FEWEST)

    def _look(self, seen: int) -> None:
        while self._invalid and self._invalid[0] < seen - WINDOW:
            self._invalid.popleft()
        invalid, of = len(self._invalid), min(seen, WINDOW)
        if of >= FEWEST and invalid > self._max_ratio * of:
            self._find(invalid, of, f"{100 * self._max_ratio:g} % (max_ratio)")

    def _find(self, invalid: int, of: int, limit: str) -> None:
        if self._found is None:
            self._found = TooMany(invalid=invalid, of=of, limit=limit)
