"""Limits on invalid records; the daemon stops above them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

WINDOW: Final = 10_000
"""Number of latest records over which the share of invalid ones is taken."""

FEWEST: Final = 1_000
"""Number of records below which the share is not checked."""


class LimitExceeded(NamedTuple):
    """The limit that was exceeded.

    Attributes:
        of: number of latest records among which they are.
    """

    invalid: int
    of: int
    limit: str


class Limits:
    """Checks all records of a process in reading order; independent of batches.

    `max_ratio`: highest share of invalid records among the last `WINDOW`, once there are `FEWEST`.
    `max_run`: most consecutive invalid records.

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
        self._found: LimitExceeded | None = None

    def observe(self, records: int, places: Sequence[int]) -> LimitExceeded | None:
        """Check the next records.

        `places`: of the invalid ones among them, from 0 and ascending.

        Returns:
            The first limit that was ever exceeded, or None.
        """
        begin, self._seen = self._seen, self._seen + records
        for place in places:
            self._check_first(begin + place)
            self._add(begin + place)
        self._check_first(self._seen)
        return self._found

    def _add(self, number: int) -> None:
        """Add the invalid record with this number in reading order."""
        self._run = self._run + 1 if number == self._last + 1 else 1
        self._last = number
        self._invalid.append(number)
        if self._run > self._max_run:
            self._find(self._run, self._run, f"{self._max_run:,} in a row (max_run)")
        self._check_ratio(number + 1)

    def _check_first(self, seen: int) -> None:
        """Check the first `FEWEST` records, even if no later one is invalid."""
        if seen >= FEWEST and (not self._invalid or self._last < FEWEST):
            self._check_ratio(FEWEST)

    def _check_ratio(self, seen: int) -> None:
        while self._invalid and self._invalid[0] < seen - WINDOW:
            self._invalid.popleft()
        invalid, of = len(self._invalid), min(seen, WINDOW)
        if of >= FEWEST and invalid > self._max_ratio * of:
            self._find(invalid, of, f"{100 * self._max_ratio:g} % (max_ratio)")

    def _find(self, invalid: int, of: int, limit: str) -> None:
        if self._found is None:
            self._found = LimitExceeded(invalid=invalid, of=of, limit=limit)
