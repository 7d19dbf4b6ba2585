"""The argument of rank metrics: rows of hits, by cell or by list."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray

Total: TypeAlias = Any
"""One sum per list, or per cell of many lists; floats of shape (lists,)."""


class HitRows(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Hits at ranks up to a cut-off, as read-only columns of equal length.

    Attributes:
        rank: rank, from 1.
        hits: number of hits of the row.
        ordinals: sum over these hits of j, where the hit is the j-th of its list.
        size: number of interacted items, list length, or the smaller of both.
        gain: gain of the hit; 1 without gains.
        list_index: the list, or the cell of many lists, of a row; cells ascend.
        lists: number of lists, or of cells.
        exact: whether sums are correctly rounded; True for cells.
    """

    rank: IntArray
    hits: IntArray
    ordinals: IntArray
    size: IntArray
    gain: FloatArray
    list_index: IntArray
    lists: int
    exact: bool = False

    def __post_init__(self) -> None:
        # Other metrics read the same columns.
        for column in (self.rank, self.hits, self.ordinals, self.size, self.gain, self.list_index):
            column.flags.writeable = False

    def total(self, contributions: FloatArray | IntArray) -> Total:
        """Sum the contributions of rows by list, or by cell.

        Args:
            contributions: one finite number per row.

        Returns:
            One sum per list or cell, shape (lists,); correctly rounded for cells.
        """
        if not self.exact:
            return np.bincount(self.list_index, weights=contributions, minlength=self.lists)
        return totals(self.list_index, contributions, self.lists)


def totals(list_index: IntArray, values: FloatArray | IntArray, lists: int) -> FloatArray:
    """Correctly rounded sums of values by list or cell, shape (lists,); indices ascend.

    Example:
        >>> totals(np.array([0, 0, 2]), np.array([0.5, 0.25, 1.0]), 3).tolist()
        [0.75, 0.0, 1.0]
    """
    edges = np.searchsorted(list_index, np.arange(lists + 1)).tolist()
    value_list = values.tolist()
    return np.array([math.fsum(value_list[start:stop]) for start, stop in pairwise(edges)])


FIRST, INTERACTED, LENGTH, IDEAL = range(-1, 3)
"""Meaning of `size`: 1 for the first hit of a list, or a number of items."""


class HitsView:
    """The hits of cells or lists: the argument `hits` of a metric.

    `k` is the cut-off; None is the whole list.
    """

    def by_interacted(self, k: int | None) -> HitRows:
        """Hits up to rank k; `size` is the number of items interacted with."""
        return self.rows_by(INTERACTED, k)

    def by_length(self, k: int | None) -> HitRows:
        """Hits up to rank k; `size` is the length of the list."""
        return self.rows_by(LENGTH, k)

    def by_ideal(self, k: int | None) -> HitRows:
        """Hits up to rank k; `size` is the smaller of interacted items and list length."""
        return self.rows_by(IDEAL, k)

    def first(self, k: int | None) -> HitRows:
        """The first hit of each list that has one up to rank k; `size` is 1."""
        return self.rows_by(FIRST, k)

    def rows_by(self, size: int, k: int | None) -> HitRows:
        """Hits up to rank k; `size` is one of the constants above."""
        raise NotImplementedError

    def items(self, k: int | None) -> Total:
        """Number of items shown up to rank k."""
        raise NotImplementedError

    def wanted(self) -> Total:
        """Number of items interacted with."""
        raise NotImplementedError
