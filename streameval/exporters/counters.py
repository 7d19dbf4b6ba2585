"""What scrapes have been told so far, so that a counter never starts late and never falls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

Key: TypeAlias = tuple[str, tuple[str, ...], str]
"""A family's name, a slice's label values, a metric's text."""

PATIENCE = 30.0
"""Seconds that a new counter waits at 0 for its first scrape."""


class Exported(msgspec.Struct, gc=False):
    """One counter pair as last exported.

    Attributes:
        labels: label name -> value, as exported.
        since: when it was first seen, on the injected clock.
        scraped: whether a scrape has shown it, at 0 or above.
        total: sum as last exported.
        count: count as last exported.
    """

    labels: Mapping[str, str]
    since: float
    scraped: bool = False
    total: float = 0.0
    count: int = 0


class Counters:
    """Sums and counts as exported: first at 0, then never lower than before.

    `rate()` misses the increment with which a series appears, and reads a sum that is one ulp
    lower than before as a restart from 0; so neither may happen.
    """

    def __init__(self, clock: Callable[[], float], patience: float = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._exported: dict[Key, Exported] = {}
        self._at_zero = False

    @property
    def at_zero(self) -> bool:
        """Whether the last scrape showed a new counter at 0 that now has more to say."""
        return self._at_zero

    def begin_scrape(self) -> None:
        """Forget what the scrape before was shown."""
        self._at_zero = False

    def __contains__(self, key: Key) -> bool:
        return key in self._exported

    def notice(self, key: Key, labels: Mapping[str, str]) -> None:
        """Remember when a counter was first seen, and its labels."""
        if key not in self._exported:
            self._exported[key] = Exported(labels, self._clock())

    def scraped(self, key: Key, total: float, count: int) -> Exported:
        """What a scrape is shown of one that was noticed before, and now has come so far."""
        exported = self._exported[key]
        if not (exported.scraped or self._overdue(exported)):
            self._at_zero = self._at_zero or count > 0
        else:
            exported.total = max(exported.total, total)
            exported.count = max(exported.count, count)
        exported.scraped = True
        return exported

    def _overdue(self, exported: Exported) -> bool:
        return self._clock() - exported.since >= self._patience
