"""Counts events by equal spans of event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from streameval.accumulator.doubts import Doubts, advice
from streameval.accumulator.reading_intervals import IntervalMethod, interval_method
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.decoding.columns import Decoded
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import Folding, Labels
from streameval.events import Batch
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Intervals

Dumped: TypeAlias = tuple[Sequence[tuple[int, Labels]], bytes]
"""The cells of a family, each a span and a slice, and the bytes of its table."""


class Slice(NamedTuple):
    """A cell of a table.

    Attributes:
        metrics: its metrics.
        table: the table.
        cell: its number there.
        method: how intervals are computed; None for no intervals.
        doubts: about its events, if they are known by cell.
    """

    metrics: Sequence[Metric]
    table: Table
    cell: int
    method: IntervalMethod | None = None
    doubts: Doubts | None = None

    def advice(self) -> str | None:
        """A warning if the events of the cell look wrong, or None."""
        (sentence,) = advice(self.table, np.array([self.cell]), self.metrics)
        return sentence or (None if self.doubts is None else self.doubts.warning(self.metrics))

    def read(self, metric: Metric) -> Reading:
        """Read one metric of the cell."""
        return readings_of(metric, self.table, np.array([self.cell]), self.method)[0]


class Spans:
    """Spans of one length, aligned to the epoch; no event is late.

    Args:
        families: specifications of the tables.
        every: length of a span, microseconds.
        intervals: confidence intervals of each span; None for no intervals.
    """

    def __init__(
        self, families: Sequence[FamilySpec], every: int, intervals: Intervals | None = None
    ) -> None:
        method = interval_method(intervals, "pointwise")
        self._families = [_Family(spec, method) for spec in families]
        self._every = every

    def update(self, decoded: Decoded) -> None:
        """Count events; events without time count in no span."""
        if decoded.times is None or not len(decoded.batch):
            return
        starts = (np.floor_divide(decoded.times, self._every) * self._every).tolist()
        values = decoded.dimensions or [()] * len(starts)
        for family in self._families:
            family.update(decoded.batch, decoded.times, starts, values)

    def dump(self) -> list[Dumped]:
        """The counts for `add`; call it before `items`."""
        return [family.dump() for family in self._families]

    def add(self, dumped: Sequence[Dumped]) -> None:
        """Add the counts of others with the same families."""
        for family, content in zip(self._families, dumped, strict=True):
            family.add(*content)

    def items(self) -> Iterator[tuple[int, list[Mapping[Labels, Slice]]]]:
        """Start of each span with events, ascending, and the slices of each family.

        Label values above the caps are folded the same way in all spans.
        """
        for family in self._families:
            family.fold()
        for start in sorted({start for family in self._families for start in family.starts}):
            yield start, [family.slices(start) for family in self._families]


class _Family:
    """One table with a cell for each span and slice."""

    def __init__(self, spec: FamilySpec, method: IntervalMethod | None) -> None:
        self._spec = spec
        self._method = method
        self._cells: dict[tuple[int, Labels], int] = {}
        self._table = spec.table.empty()
        self.starts: dict[int, dict[Labels, int]] = {}

    def update(
        self,
        batch: Batch,
        times: IntArray,
        starts: Sequence[int],
        values: Sequence[Labels],
    ) -> None:
        keys = [
            (start, tuple(value[column] for column in self._spec.columns))
            for start, value in zip(starts, values, strict=True)
        ]
        cells = [self._cells.setdefault(key, len(self._cells)) for key in keys]
        self._table.count(batch, np.array(cells), times)

    def dump(self) -> Dumped:
        return list(self._cells), b"".join(self._table.dump(list(self._cells.values())))

    def add(self, keys: Sequence[tuple[int, Labels]], content: bytes) -> None:
        part = self._spec.table.empty()
        part.load(content, [self._cells.setdefault(key, len(self._cells)) for key in keys])
        self._table.add(part)

    def slices(self, start: int) -> Mapping[Labels, Slice]:
        """The slices of one span, sorted by label values."""
        cells = self.starts[start].items()
        common = self._spec.metrics, self._table
        return {labels: Slice(*common, cell, self._method) for labels, cell in cells}

    def fold(self) -> None:
        """Fold label values above the caps, and sort the slices of each span."""
        folding = Folding(self._spec.folding, len(self._spec.columns))
        for labels in sorted({labels for _, labels in self._cells}):
            folding.admit(labels)
        before, self._cells = self._cells, {}
        moves: dict[int, int] = {}
        for (start, labels), cell in sorted(before.items()):
            key = start, folding.settled(labels)
            moves[cell] = self._cells.setdefault(key, cell)
        self._table.rename({old: new for old, new in moves.items() if old != new})
        for start, labels in sorted(self._cells):
            self.starts.setdefault(start, {})[labels] = self._cells[start, labels]
