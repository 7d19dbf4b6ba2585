"""What scrapes have been told so far, so that a counter never starts late and never falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from streameval.exporters.families import metric_labels
from streameval.pipeline.snapshot import Series

Key: TypeAlias = tuple[str, tuple[str, ...]]
"""A metric's text and a slice's label values."""

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

    def notice(self, series: Iterable[Series], label_names: tuple[str, ...]) -> None:
        """Remember when each of these was first seen."""
        known = self._exported
        for entry in series:
            key = (entry.metric.text, entry.labels)
            if key not in known:
                labels = dict(zip(label_names, entry.labels, strict=True))
                known[key] = Exported(labels | metric_labels(entry.metric), self._clock())

    def scraped(self, entry: Series) -> Exported:
        """What a scrape is shown of one series that was noticed before."""
        exported = self._exported[entry.metric.text, entry.labels]
        if not (exported.scraped or self._overdue(exported)):
            self._at_zero = self._at_zero or entry.reading.count > 0
        else:
            _raise(exported, entry)
        exported.scraped = True
        return exported

    def _overdue(self, exported: Exported) -> bool:
        return self._clock() - exported.since >= self._patience


def _raise(exported: Exported, entry: Series) -> None:
    total = entry.reading.total
    if total is not None and math.isfinite(total):
        exported.total = max(exported.total, total)
        exported.count = max(exported.count, entry.reading.count)
