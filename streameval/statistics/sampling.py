"""Samples items or users of a cell above a cap: keeps those with small hashes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.relation import Columns, Shape
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items

HALVINGS = Shape(keys=1, combine=np.maximum)
"""(cell) -> how often the limit of the hashes was halved; no row where it never was."""

_MOST_HALVED = 53


class Sampled(Statistic):
    """Keeps at most a number of rows of each cell; above it those of items with a small hash.

    A limit of the hashes is halved until the rows fit (bottom-k sampling by hash: Cohen and Kaplan,
    2007), so that the content is a function of the multiset of events alone.
    """

    rows: ClassVar[str]
    """The relation that is bounded; `halvings` is beside it, of the shape HALVINGS."""

    def __init__(self, options: Any, items: Items, most: int) -> None:
        super().__init__(options, items)
        self._most = self._room = most

    def places(self, codes: IntArray) -> FloatArray:
        """The place of what a row is of among all hashes, from 0 up to 1.

        Args:
            codes: of the key column beside the cell: of items, unless said otherwise.
        """
        return self.items.places[codes]

    @property
    def reduced(self) -> bool:
        """Whether the items of any cell are a sample."""
        return self.relations["halvings"].size > 0

    def merge(self, *others: Self) -> None:
        """Add the counts of others; the lowest limit applies."""
        super().merge(*others)
        if any(other.reduced for other in others):
            self._room = -1

    def rename(self, names: Mapping[int, int]) -> None:
        """Cells get other numbers; those that meet are summed."""
        super().rename(names)
        self._room = -1

    def fold(self) -> None:
        """Thin the cells that have become too large."""
        relation = self.relations[self.rows]
        if relation.size <= self._room:
            return
        cells, starts, counts = np.unique(
            relation.columns[0], return_index=True, return_counts=True
        )
        halvings = self.relations["halvings"].value(cells.astype(np.int64))
        thinned = np.flatnonzero((counts > self._most) | (halvings > 0))
        for at in thinned.tolist():
            rows = slice(starts[at], starts[at] + counts[at])
            codes = relation.columns[relation.shape.items or 1][rows]
            halvings[at] = halved(int(halvings[at]), self.places(codes), self._most)
        if thinned.size:
            limits = np.repeat(np.ldexp(1.0, -halvings), counts)
            codes = relation.columns[relation.shape.items or 1]
            kept = self.places(codes) < limits
            self.note_lost([column[~kept] for column in relation.columns])
            relation.keep(kept)
            found = cells[thinned].astype(np.int64)
            self.relations["halvings"].add([found], [halvings[thinned]])
        largest = self._most if thinned.size else int(counts.max(initial=0))
        self._room = relation.size + self._most - largest

    def note_lost(self, columns: Columns) -> None:
        """Told of the rows that are thinned out, before they are."""

    def shares(self, cells: IntArray) -> list[float]:
        """The share of all items that is kept of each cell."""
        return [0.5**each for each in self.relations["halvings"].value(cells).tolist()]


CONFIDENCE = 0.999
"""Probability that the truth lies within the bounds of `bounds_of`."""

WIDTH = math.log(2 * (_MOST_HALVED + 1) / (1.0 - CONFIDENCE))
"""Both ends may fail, at each of the limits that there may come to be: a union bound over them."""


def bounds_of(kept: int, share: float, width: float = WIDTH) -> tuple[float, float]:
    """Bounds of the number of items, from the number kept by their hash.

    Chernoff's bound for a binomial count, at `CONFIDENCE`; the hash is taken to be random.

    Args:
        kept: items whose hash lies below the limit.
        share: of all hashes that lie below it.
        width: minus the logarithm of how often each end may fail.

    Example:
        >>> low, high = bounds_of(10_000, 0.25)
        >>> round(low), round(high)
        (38105, 41957)
        >>> bounds_of(7, 1.0)
        (7.0, 7.0)
    """
    if share >= 1.0:
        return float(kept), float(kept)
    low = _expected(kept, 0.0, float(kept), width)
    high = _expected(kept, 4.0 * (kept + width), float(kept), width)
    return max(float(kept), low / share), high / share


def _expected(kept: int, outside: float, inside: float, width: float) -> float:
    """The expected count furthest from what was kept, towards outside, that explains it yet."""
    for _ in range(64):
        middle = (outside + inside) / 2.0
        unlikely = middle - kept + (kept * math.log(kept / middle) if kept else 0.0)
        outside, inside = (middle, inside) if unlikely > width else (outside, middle)
    return outside


def halved(halvings: int, places: FloatArray, most: int) -> int:
    """How often a limit must be halved so that at most so many places lie below it.

    Args:
        halvings: how often it was halved already.
        places: of the items among all hashes, from 0 up to 1; one for each row that is kept.
        most: rows.

    Example:
        >>> halved(0, np.array([0.1, 0.2, 0.6, 0.7]), 2)
        1
    """
    in_order = np.sort(places)
    while halvings < _MOST_HALVED and np.searchsorted(in_order, 0.5**halvings) > most:
        halvings += 1
    return halvings
