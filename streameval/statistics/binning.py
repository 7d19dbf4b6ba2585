"""Counts of floats: exact up to a cap of distinct values, then in narrow bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, among
from streameval.statistics.relation import Shape
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items

_SHIFT = 41
"""A bin keeps sign, exponent and the top 11 bits of the mantissa: values within 1 part in 2048."""

_TINY, _HUGE = 2.0**-32, 2.0**32
"""Magnitudes below and above share a bin, so that there are at most some 400,000 bins."""


def ordered(values: FloatArray) -> IntArray:
    """Integers in the order of the floats (finite, shape (n,)); one for each float.

    Example:
        >>> ordered(np.array([-1.0, 0.0, 1.0])).tolist()
        [-4607182418800017408, 0, 4607182418800017408]
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def unordered(keys: IntArray) -> FloatArray:
    """The floats that `ordered` gave these integers for."""
    return np.where(keys < 0, np.iinfo(np.int64).min - keys, keys).view(np.float64)


def binned(values: FloatArray) -> IntArray:
    """Each value's bin; bins are in the order of their values.

    Between 0.5 and 1 the bins are those of 1 - value, so that scores crowded near 1 are told
    apart as well as those near 0.
    """
    upper = _coarse(1.0 - np.clip(values, 0.5, 1.0))
    near_one = 2 * _HALF + 1 - upper
    above = 2 * _HALF + 2 + _coarse(values) - _ONE
    return np.where(values < 0.5, _coarse(values), np.where(values <= 1.0, near_one, above))


def middles(keys: IntArray) -> FloatArray:
    """A value inside each bin."""
    # The first of them holds 0.5 alone.
    near_one = np.maximum(1.0 - _middle(2 * _HALF + 1 - keys), 0.5)
    above = _middle(keys - 2 * _HALF - 2 + _ONE)
    return np.where(keys <= _HALF, _middle(keys), np.where(keys <= 2 * _HALF + 1, near_one, above))


def _coarse(values: FloatArray) -> IntArray:
    size = np.clip(np.abs(values), _TINY, _HUGE)
    clamped = np.where(np.abs(values) < _TINY, 0.0, np.copysign(size, values))
    keys = ordered(clamped)
    return np.where(keys < 0, -(-keys >> _SHIFT), keys >> _SHIFT)


def _middle(keys: IntArray) -> FloatArray:
    whole = (np.abs(keys) << _SHIFT) | (1 << (_SHIFT - 1))
    return np.where(keys == 0, 0.0, np.copysign(whole.view(np.float64), keys))


_HALF = int(_coarse(np.array([0.5]))[0])
_ONE = int(_coarse(np.array([1.0]))[0])


CAP = 65_536
BINNED = Shape(keys=1, combine=np.maximum)
"""(cell) -> 1 where its floats are binned; no row where every one is kept."""


class Binned(Statistic):
    """Keeps every distinct float of a cell up to a cap; beyond it all are binned.

    The content is a function of the multiset of floats alone.
    """

    rows: ClassVar[str]
    """The relation (cell, float's or bin's key) -> counts; `binned` is beside it."""

    def __init__(self, options: Any, items: Items) -> None:
        super().__init__(options, items)
        self._cap = self._room = options.cap

    @property
    def reduced(self) -> bool:
        """Whether the floats of any cell are binned."""
        return self.relations["binned"].size > 0

    def put(self, cells: IntArray, values: FloatArray, counts: Sequence[IntArray]) -> None:
        """Count floats (finite), shape (n,) each."""
        keys, reduced = ordered(values), among(cells, self.binned)
        if reduced.any():
            keys[reduced] = binned(values[reduced])
            self.leave(cells[reduced], values[reduced], [each[reduced] for each in counts])
        self.relations[self.rows].add([cells, keys], counts)

    def leave(self, cells: IntArray, values: FloatArray, counts: Sequence[IntArray]) -> None:
        """Take note of floats whose bins alone are kept from now on."""

    def fold(self) -> None:
        """Bin the cells that have too many distinct floats."""
        relation = self.relations[self.rows]
        if relation.size <= self._room:
            return
        cells, counts = np.unique(relation.columns[0], return_counts=True)
        exact = ~among(cells, self.binned)
        cells, counts = cells[exact].astype(np.int64), counts[exact]
        self.bin(cells[counts > self._cap])
        largest = min(self._cap, int(counts.max(initial=0)))
        self._room = relation.size + self._cap - largest

    def merge(self, *others: Self) -> None:
        """Add what others counted; cells binned in any one are binned."""
        for each in (self, *others):
            each.fold()
        if any(each.reduced for each in (self, *others)):
            for other in others:
                self.bin(other.binned[~among(other.binned, self.binned)])
            others = tuple(map(self._binned_alike, others))
        super().merge(*others)

    def _binned_alike(self, other: Self) -> Self:
        """Another one, in which the cells that are binned here are binned."""
        missing = self.binned[~among(self.binned, other.binned)]
        if among(missing, other.relations[self.rows].cells).any():
            other = other.copy()
            other.bin(missing)
        return other

    @property
    def added_up(self) -> bool:
        """Never: floats may be binned here that are not binned there."""
        return False

    def rename(self, names: Mapping[int, int]) -> None:
        """Cells get other numbers; those that meet are summed, and binned where one of them is."""
        self.fold()
        if self.reduced:
            goals = {names.get(cell, cell) for cell in self.binned.tolist()}
            cells = self.relations[self.rows].cells.tolist()
            meeting = [cell for cell in cells if names.get(cell, cell) in goals]
            found = np.array(meeting, np.int64)
            self.bin(found[~among(found, self.binned)])
        super().rename(names)
        self._room = -1

    @property
    def binned(self) -> IntArray:
        """The cells whose floats are binned, ascending."""
        return self.relations["binned"].cells

    def bin(self, cells: IntArray) -> None:
        """Bin the floats of cells, ascending, that are not binned yet."""
        if not cells.size:
            return
        relation = self.relations[self.rows]
        own, keys, *counts = relation.columns
        here = among(own, cells)
        values = unordered(keys[here].astype(np.int64))
        self.leave(own[here].astype(np.int64), values, [each[here] for each in counts])
        keys = keys.astype(np.int64)
        keys[here] = binned(values)
        relation.replace([own, keys, *counts])
        self.relations["binned"].add([cells], [np.ones_like(cells)])
