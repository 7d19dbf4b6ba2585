"""A statistic of another package: all that a file of `statistics/` needs, and a metric of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streameval import metric
from streameval.events import Batch
from streameval.statistics.arrays import IntArray
from streameval.statistics.asked import CellOptions
from streameval.statistics.relation import Shape
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items


class LengthsOptions(CellOptions, frozen=True, kw_only=True):
    """`longest`: longer lists count as lists of this length."""

    longest: int = 100

    def make(self, items: Items, _attributes: Mapping[str, Any]) -> ListLengths:
        """See `CellOptions`."""
        return ListLengths(self, items)


class ListLengths(Statistic):
    """Counts lists by length; `lengths`: (cell, length) -> lists."""

    shapes: ClassVar[Mapping[str, Shape]] = {"lengths": Shape(keys=2)}
    options: LengthsOptions

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many lists."""
        lengths = np.array([len(items) for items in batch.recommendations], np.int64)
        keys = [cell_of_each(cells, lengths.size), np.minimum(lengths, self.options.longest)]
        self.relations["lengths"].add(keys, [np.ones_like(lengths)])

    def view(self, cells: IntArray) -> list[LengthsOfCell]:
        """The argument of metrics for each of these cells."""
        return [LengthsOfCell(*columns) for columns in self.relations["lengths"].by_cell(cells)]


class LengthsOfCell(NamedTuple):
    """The lists of one cell by length: the argument `lengths` of a metric."""

    length: IntArray
    counts: IntArray

    @property
    def lists(self) -> int:
        """Number of lists."""
        return int(self.counts.sum())


def mean_length(lengths: LengthsOfCell, *, longest: int = 100) -> float:
    """Mean length of the lists, of which long ones count as `longest`."""
    assert longest
    return float(lengths.length @ lengths.counts) / lengths.lists if lengths.lists else math.nan


def declared() -> Any:
    """The metric; it can only be declared while the statistic is in the list."""
    return metric(bounds=(0, math.inf), source="our own")(mean_length)
