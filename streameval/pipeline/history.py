"""Keeps what values were before: as they were seen, and pane by pane."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from streameval.aggregation.views import Views
from streameval.pipeline.panes import Panes
from streameval.pipeline.past import Past, SeenValues, SeriesKey
from streameval.pipeline.readable import Readable
from streameval.pipeline.snapshot import Series

R = TypeVar("R", bound=Readable)

_LEAST: Final = 100
_DENSE: Final = 24


class History(Generic[R]):
    """The past of several families, read a piece at a time, the newest first.

    Args:
        views: of the families, in the order of the snapshot's.
    """

    def __init__(self, views: Sequence[Views[R]]) -> None:
        self._panes = [Panes(view) for view in views]
        self._columns: list[tuple[int, SeenValues]] = []
        self._number = 0

    def take(self, now: float, clock: int | None, series: Sequence[Series]) -> Past:
        """The past until this moment.

        Args:
            now: wall-clock seconds since the epoch.
            clock: largest event time, microseconds; None where there is none.
            series: of the snapshot that is being taken; a quarter as many readings are spent on
                panes that moved, and as many on those not read yet.
        """
        most = max(_LEAST, len(series) // 4)
        families = tuple(panes.take(clock, most) for panes in self._panes)
        self._see(now if clock is None else clock / 1_000_000, series)
        seen = tuple(column for _, column in self._columns)
        return Past(clock=clock, families=families, seen=seen)

    def _see(self, at: float, series: Sequence[Series]) -> None:
        last = self._columns[-1][1] if self._columns else None
        if last is not None and at <= last.at:
            self._columns.pop()
        self._number += 1
        places = _places(series, {} if last is None else last.places)
        values = array("d", (_value(entry) for entry in series))
        self._columns.append((self._number, SeenValues(at, places, values)))
        self._columns = [each for each in self._columns if self._lasts(each[0])]

    def _lasts(self, number: int) -> bool:
        """Whether the snapshot of this number is kept: of those twice as old half as many."""
        return self._number - number < _DENSE * (number & -number)


def _places(series: Sequence[Series], known: Mapping[SeriesKey, int]) -> Mapping[SeriesKey, int]:
    """Where each series is; the same object as before while it says the same."""
    keys = [(each.family, each.metric.text, each.labels, each.window) for each in series]
    if len(keys) == len(known) and all(map(_same, keys, known)):
        return known
    return {key: place for place, key in enumerate(keys)}


def _same(left: SeriesKey, right: SeriesKey) -> bool:
    return left == right


def _value(entry: Series) -> float:
    return entry.reading.value if entry.reading.defined else math.nan
