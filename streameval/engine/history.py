"""The history of values: from earlier snapshots, and from panes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from operator import eq
from typing import Final

from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue.reading import Reading
from streameval.engine.snapshot import (
    FamilyHistory,
    Mean,
    PaneMeans,
    PastValues,
    Series,
    SeriesKey,
    ValueHistory,
)
from streameval.engine.windows.times import Pane, span_text
from streameval.engine.windows.views import FamilyView

MOST_PANES: Final = 200
"""Number of panes of a family that are read, the newest ones."""

_LEAST: Final = 100
"""Readings that a snapshot may always spend on changed panes, and on new ones."""

_DENSE: Final = 24
"""Number of latest snapshots that are all retained."""


class HistoryReader:
    """Collects the history of several families, a few panes at a time, the newest first.

    `name`: the name of a window.
    """

    def __init__(self, views: Sequence[FamilyView], name: Callable[[int], str] = span_text) -> None:
        self._panes = [_Panes(view, name) for view in views]
        self._seen: list[tuple[int, PastValues]] = []
        self._number = 0

    def take(self, now: float, clock: int | None, series: Sequence[Series]) -> ValueHistory:
        """The history up to now.

        `series`: of the current snapshot. Reads at most a quarter as many values from changed
        panes, and as many from new panes.
        """
        most = max(_LEAST, len(series) // 4)
        families = tuple(panes.take(clock, most) for panes in self._panes)
        self._add(now if clock is None else clock / 1_000_000, series)
        seen = tuple(values for _, values in self._seen)
        return ValueHistory(clock=clock, families=families, seen=seen)

    def _add(self, at: float, series: Sequence[Series]) -> None:
        last = self._seen[-1][1].indexes if self._seen else {}
        # A wall clock may be set back; a chart with times that fall would be drawn backwards.
        while self._seen and at <= self._seen[-1][1].at:
            self._seen.pop()
        self._number += 1
        indexes = _indexes(series, last)
        readings = (entry.reading for entry in series)
        values = array("d", (read.value if read.defined else math.nan for read in readings))
        self._seen.append((self._number, PastValues(at, indexes, values)))
        # Half as many remain at twice the age: those whose numbers have more factors of two.
        self._seen = [
            (number, seen)
            for number, seen in self._seen
            if self._number - number < _DENSE * (number & -number)
        ]


class _Panes:
    """The means of a family's panes; reads only panes that changed."""

    def __init__(self, view: FamilyView, name: Callable[[int], str]) -> None:
        self._view = view
        metrics = view.spec.metrics if view.spec.spans else ()
        self._metrics = [metric for metric in metrics if metric.is_mean]
        self._texts = tuple(metric.text for metric in self._metrics)
        self._spans = {name(span): span for span in view.spec.spans}
        self._cached: dict[Pane, tuple[Table, PaneMeans]] = {}

    def take(self, clock: int | None, most: int) -> FamilyHistory:
        """The panes read so far.

        `most`: limit of readings from changed panes, and from new panes.
        """
        if not self._metrics or clock is None:
            return FamilyHistory()
        before, self._cached = self._cached, {}
        budgets = {True: most, False: most}
        retained = self._view.panes()
        for pane in retained[:MOST_PANES]:
            is_cached = pane in before
            if not is_cached and budgets[is_cached] <= 0:
                break
            self._cached[pane], spent = self._read(pane, before.get(pane), budgets[is_cached])
            budgets[is_cached] -= spent
        self._view.forget_panes(but=self._cached)
        panes = tuple(means for _, means in reversed(self._cached.values()))
        is_complete = len(panes) == len(retained)
        since = clock - self._view.retention if is_complete else panes[0].start
        return FamilyHistory(self._texts, panes, since, self._spans)

    def _read(
        self, pane: Pane, cached: tuple[Table, PaneMeans] | None, most: int
    ) -> tuple[tuple[Table, PaneMeans], int]:
        """A pane with its means, and the number of readings taken."""
        table = self._view.pane(pane)
        if cached is not None and (cached[0] is table or most <= 0):
            return cached, 0
        slices = self._view.slices(table)
        labels = map(self._view.labels, slices.tolist())
        columns = [map(_mean, readings_of(metric, table, slices)) for metric in self._metrics]
        rows = dict(zip(labels, zip(*columns, strict=True), strict=True))
        means = PaneMeans(pane.start, pane.size, rows)
        return (table, means), len(slices) * len(self._metrics)


def _mean(reading: Reading) -> Mean:
    if not reading.defined or reading.total is None:
        return math.nan, reading.count
    return reading.total, reading.count


def _indexes(
    series: Sequence[Series], previous: Mapping[SeriesKey, int]
) -> Mapping[SeriesKey, int]:
    """The index of each series; the same object as before unless it changed."""
    keys = [
        (series_.family, series_.metric.text, series_.labels, series_.window) for series_ in series
    ]
    if len(keys) == len(previous) and all(map(eq, keys, previous)):
        return previous
    return {key: index for index, key in enumerate(keys)}
