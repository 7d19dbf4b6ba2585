"""Counts of floats: exact up to a cap of distinct values, then in narrow bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from sys import float_info
from typing import Any, Final, Self

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, among
from streameval.statistics.relation import Shape
from streameval.statistics.statistic import CappedStatistic
from streameval.statistics.vocabulary import Items

BITS: Final = 11
"""Bits of the mantissa that the bins of scores and values keep: a relative width of 1/2048."""

_MANTISSA: Final = 52
_FEWEST: Final = 2.0**-32, 2.0**32
"""Smaller and larger magnitudes share a bin, which limits fine bins to some 400,000."""

_EVERY: Final = 2.0**-1022, float_info.max
"""Of coarse bins there are few, so that they reach to the largest float."""

_COARSE: Final = 4


def float_keys(values: FloatArray) -> IntArray:
    """Distinct integers in the order of the floats (finite, shape (n,)).

    Example:
        >>> float_keys(np.array([-1.0, 0.0, 1.0])).tolist()
        [-4607182418800017408, 0, 4607182418800017408]
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def floats_of_keys(keys: IntArray) -> FloatArray:
    """The inverse of `float_keys`."""
    return np.where(keys < 0, np.iinfo(np.int64).min - keys, keys).view(np.float64)


class Bins:
    """Narrow bins of floats, as integers in the order of the values.

    Between 0.5 and 1 the bins are those of 1 - value, so that resolution near 1 equals that near 0.

    `bits`: bits of the mantissa that a bin keeps.

    Example:
        >>> bins = Bins(4)
        >>> bins.middles(bins.keys(np.array([0.0, 1.0, 21_739.0]))).tolist()
        [0.0, 1.0, 22016.0]
    """

    def __init__(self, bits: int) -> None:
        self._shift = _MANTISSA - bits
        self._tiny, self._huge = _EVERY if bits <= _COARSE else _FEWEST
        self._half, self._one = self._coarse(np.array([0.5, 1.0])).tolist()

    def keys(self, values: FloatArray) -> IntArray:
        """The bin of each value."""
        half = self._half
        upper = self._coarse(1.0 - np.clip(values, 0.5, 1.0))
        near_one = 2 * half + 1 - upper
        above = 2 * half + 2 + self._coarse(values) - self._one
        return np.where(
            values < 0.5, self._coarse(values), np.where(values <= 1.0, near_one, above)
        )

    def middles(self, keys: IntArray) -> FloatArray:
        """A value inside each bin."""
        half = self._half
        # The first of these bins holds only 0.5.
        near_one = np.maximum(1.0 - self._middle(2 * half + 1 - keys), 0.5)
        above = self._middle(keys - 2 * half - 2 + self._one)
        inner = np.where(keys <= 2 * half + 1, near_one, above)
        return np.where(keys <= half, self._middle(keys), inner)

    def _coarse(self, values: FloatArray) -> IntArray:
        size = np.clip(np.abs(values), self._tiny, self._huge)
        clamped = np.where(np.abs(values) < self._tiny, 0.0, np.copysign(size, values))
        keys = float_keys(clamped)
        return np.where(keys < 0, -(-keys >> self._shift), keys >> self._shift)

    def _middle(self, keys: IntArray) -> FloatArray:
        whole = (np.abs(keys) << self._shift) | (1 << (self._shift - 1))
        return np.where(keys == 0, 0.0, np.copysign(whole.view(np.float64), keys))


@cache
def bins_of(bits: int) -> Bins:
    """The bins that keep these bits of the mantissa."""
    return Bins(bits)


CAP = 65_536
BINNED = Shape(keys=1, combine=np.maximum)
"""(cell) -> 1 if its floats are binned; no row otherwise."""


class BinnedStatistic(CappedStatistic):
    """Keeps the distinct floats of a cell up to a cap; beyond it, all its floats are binned.

    The content depends only on the multiset of floats. The bounded relation is (cell, key of a
    float or bin) -> counts; the relation `binned` has the shape BINNED.
    """

    marks = "binned"

    def __init__(self, options: Any, items: Items) -> None:
        super().__init__(options, items, options.cap)
        self.bins = bins_of(getattr(options, "bits", BITS))

    def put(self, cells: IntArray, values: FloatArray, counts: Sequence[IntArray]) -> None:
        """Count floats (finite), shape (n,) each."""
        keys, reduced = float_keys(values), among(cells, self.binned)
        if reduced.any():
            keys[reduced] = self.bins.keys(values[reduced])
            self.on_binned(cells[reduced], values[reduced], [count[reduced] for count in counts])
        self.relations[self.rows].add([cells, keys], counts)

    def on_binned(self, cells: IntArray, values: FloatArray, counts: Sequence[IntArray]) -> None:
        """Called with floats before they are replaced by their bins."""

    def fold(self) -> None:
        """Bin the cells with too many distinct floats."""
        if self.fits:
            return
        cells, counts = np.unique(self.relations[self.rows].columns[0], return_counts=True)
        exact = ~among(cells, self.binned)
        cells, counts = cells[exact].astype(np.int64), counts[exact]
        self.bin(cells[counts > self._most])
        self.note_largest(min(self._most, int(counts.max(initial=0))))

    def merge(self, *others: Self) -> None:
        """Add the counts of others; a cell binned in one of them is binned."""
        for statistic in (self, *others):
            statistic.fold()
        if any(statistic.reduced for statistic in (self, *others)):
            for other in others:
                self.bin(other.binned[~among(other.binned, self.binned)])
            others = tuple(map(self._binned_alike, others))
        super().merge(*others)

    def _binned_alike(self, other: Self) -> Self:
        """The other statistic, with the cells binned that are binned here."""
        missing = self.binned[~among(self.binned, other.binned)]
        if among(missing, other.relations[self.rows].cells).any():
            other = other.copy()
            other.bin(missing)
        return other

    @property
    def is_additive(self) -> bool:
        """False: a cell may be binned here and not there."""
        return False

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; cells that get one number are summed, and binned if one of them is."""
        self.fold()
        if self.reduced:
            goals = {names.get(cell, cell) for cell in self.binned.tolist()}
            cells = self.relations[self.rows].cells.tolist()
            meeting = [cell for cell in cells if names.get(cell, cell) in goals]
            cells_met = np.array(meeting, np.int64)
            self.bin(cells_met[~among(cells_met, self.binned)])
        super().rename(names)

    @property
    def binned(self) -> IntArray:
        """The cells whose floats are binned, ascending."""
        return self.relations["binned"].cells

    def bin(self, cells: IntArray) -> None:
        """Bin the floats of these cells, which ascend and are not binned yet."""
        if not cells.size:
            return
        relation = self.relations[self.rows]
        cells_here, keys, *counts = relation.columns
        here = among(cells_here, cells)
        values = floats_of_keys(keys[here].astype(np.int64))
        self.on_binned(cells_here[here].astype(np.int64), values, [count[here] for count in counts])
        keys = keys.astype(np.int64)
        keys[here] = self.bins.keys(values)
        relation.replace([cells_here, keys, *counts])
        self.relations["binned"].add([cells], [np.ones_like(cells)])
