"""Samples of the items or users of a cell: above a cap, those with small hashes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.relation import Columns, Shape
from streameval.statistics.statistic import CappedStatistic

HALVINGS = Shape(keys=1, combine=np.maximum)
"""(cell) -> number of halvings of the hash threshold; no row without a halving."""

_MOST_HALVED = 53


class SampledStatistic(CappedStatistic):
    """Bounds the rows of each cell; above the cap it keeps the items with small hashes.

    A threshold of the hashes is halved until the rows fit (bottom-k sampling: Cohen and Kaplan,
    2007), so the content depends only on the multiset of events. The relation `halvings` has the
    shape HALVINGS.
    """

    marks = "halvings"
    adds_only_sampled: ClassVar[bool] = False
    """Whether rows with hashes above the threshold are never added."""

    def unit_hashes(self, codes: IntArray) -> FloatArray:
        """Hashes of codes, scaled to [0, 1).

        `codes`: the second key column, item codes by default.
        """
        return self.items.unit_hashes[codes]

    def fold(self) -> None:
        """Thin the cells that are too large."""
        if self.fits:
            return
        relation = self.relations[self.rows]
        cells, starts, counts = np.unique(
            relation.columns[0], return_index=True, return_counts=True
        )
        halvings = self.relations["halvings"].value(cells.astype(np.int64))
        thinned = np.flatnonzero((counts > self._most) | (halvings > 0))
        for at in thinned.tolist():
            rows = slice(starts[at], starts[at] + counts[at])
            codes = relation.columns[relation.shape.items or 1][rows]
            halvings[at] = halvings_for(int(halvings[at]), self.unit_hashes(codes), self._most)
        if thinned.size:
            limits = np.repeat(np.ldexp(1.0, -halvings), counts)
            codes = relation.columns[relation.shape.items or 1]
            kept = self.unit_hashes(codes) < limits
            self.note_lost([column[~kept] for column in relation.columns])
            relation.keep(kept)
            cells_thinned = cells[thinned].astype(np.int64)
            self.relations["halvings"].add([cells_thinned], [halvings[thinned]])
            if self.adds_only_sampled:
                counts = np.unique(relation.columns[0], return_counts=True)[1]
        full = thinned.size > 0 and not self.adds_only_sampled
        self.note_largest(self._most if full else int(counts.max(initial=0)))

    def note_lost(self, columns: Columns) -> None:
        """Called with the rows that thinning will remove."""

    def shares(self, cells: IntArray) -> list[float]:
        """The sampled share of all items in each cell."""
        return [0.5**halvings for halvings in self.relations["halvings"].value(cells).tolist()]


CONFIDENCE = 0.999
"""Confidence of the bounds of `bounds_of`."""

WIDTH = math.log(2 * (_MOST_HALVED + 1) / (1.0 - CONFIDENCE))
"""A union bound: each of two ends may fail at each of the possible thresholds."""


def bounds_of(kept: int, share: float, width: float = WIDTH) -> tuple[float, float]:
    """Bounds of the number of items, from the number below the hash threshold.

    Chernoff's bound of a binomial count at `CONFIDENCE`; hashes are assumed to be random.

    Args:
        kept: number of items below the threshold.
        share: the threshold as a share of all hashes.
        width: minus the logarithm of the error probability of each end.

    Example:
        >>> low, high = bounds_of(10_000, 0.25)
        >>> round(low), round(high)
        (38105, 41957)
        >>> bounds_of(7, 1.0)
        (7.0, 7.0)
    """
    if share >= 1.0:
        return float(kept), float(kept)
    low = _expected_count(kept, 0.0, float(kept), width)
    high = _expected_count(kept, 4.0 * (kept + width), float(kept), width)
    return max(float(kept), low / share), high / share


def _expected_count(kept: int, outside: float, inside: float, width: float) -> float:
    """The expected count furthest towards `outside` that is still compatible with `kept`."""
    for _ in range(64):
        middle = (outside + inside) / 2.0
        unlikely = middle - kept + (kept * math.log(kept / middle) if kept else 0.0)
        outside, inside = (middle, inside) if unlikely > width else (outside, middle)
    return outside


def halvings_for(halvings: int, hashes: FloatArray, most: int) -> int:
    """How often a threshold must be halved so that at most `most` hashes are below it.

    `halvings`: halvings so far. `hashes`: one per row, scaled to [0, 1).

    Example:
        >>> halvings_for(0, np.array([0.1, 0.2, 0.6, 0.7]), 2)
        1
    """
    in_order = np.sort(hashes)
    while halvings < _MOST_HALVED and np.searchsorted(in_order, 0.5**halvings) > most:
        halvings += 1
    return halvings
