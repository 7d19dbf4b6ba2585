"""The history that readers see: immutable, and shared between snapshots."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

Mean: TypeAlias = tuple[float, int]
"""Numerator and denominator; the first is NaN where there is no value."""
SeriesKey: TypeAlias = tuple[int, str, tuple[str, ...], str]
"""Place of the family, text of the metric, label values, window."""


class PaneMeans(msgspec.Struct, frozen=True):
    """The means of one span of event time.

    Attributes:
        rows: label values -> one mean for each of the family's metrics that is one.
        whole: whether every slice was read; where not, what is missing is unknown, not 0.
    """

    start: int
    size: int
    rows: Mapping[tuple[str, ...], Sequence[Mean]]
    whole: bool = True


class FamilyPast(msgspec.Struct, frozen=True):
    """What is kept of one family's past.

    Attributes:
        panes: spans of event time, ascending and without a gap in what was read; empty where
            there is no event time or no window.
        since: event time from which on the panes are whole, microseconds.
    """

    means: tuple[str, ...] = ()
    panes: tuple[PaneMeans, ...] = ()
    since: int = 0
    spans: Mapping[str, int] = {}


class SeenValues(msgspec.Struct, frozen=True):
    """The values of one earlier snapshot.

    Attributes:
        at: when: event time if the stream has it, else wall clock; seconds since the epoch.
        places: where each series is among the values; most snapshots share it.
        values: NaN where undefined; for reading only.
    """

    at: float
    places: Mapping[SeriesKey, int]
    values: array[float]

    def value(self, key: SeriesKey) -> float | None:
        """The value then; None where there was none."""
        place = self.places.get(key)
        if place is None or math.isnan(self.values[place]):
            return None
        return self.values[place]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What values were before; never changed once published.

    Attributes:
        clock: largest event time, microseconds; None where events carry none.
        seen: snapshots of this process, ascending; the last ones all, of older ones fewer and
            fewer, so that there are never more than some 200.
    """

    clock: int | None = None
    families: tuple[FamilyPast, ...] = ()
    seen: tuple[SeenValues, ...] = ()
