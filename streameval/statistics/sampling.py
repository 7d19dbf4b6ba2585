"""Samples of the items or users of a cell: above a cap, those with small hashes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.statistic import CellCap

HALVINGS = Shape(keys=1, combine=np.maximum)
"""(cell) -> number of halvings of the hash threshold; no row without a halving."""

_MOST_HALVED = 53


class HashSample(CellCap):
    """Above a cap, keeps the rows of a cell with small hashes, of items or of users.

    A threshold of the hashes is halved until the rows fit (bottom-k sampling: Cohen and Kaplan,
    2007), so the content depends only on the multiset of events. The relation `halvings` has the
    shape HALVINGS.

    Args:
        relations: of the statistic.
        rows: name of the bounded relation.
        most: largest number of rows of a cell that is not thinned.
        hashes: of codes, scaled to [0, 1); a code is the item of a row, or its second key. The
            attribute `unit_hashes`.
        lost: name of the relation that sums the counts of removed rows by cell; "" for none.
        adds_only_sampled: whether rows with hashes above the threshold are never added.
    """

    def __init__(
        self,
        relations: Mapping[str, Relation],
        rows: str,
        most: int,
        hashes: Callable[[IntArray], FloatArray],
        *,
        lost: str = "",
        adds_only_sampled: bool = False,
    ) -> None:
        super().__init__(relations, rows, "halvings", most)
        self.unit_hashes = hashes
        self._lost = lost
        self._adds_only_sampled = adds_only_sampled

    def keeps(self, cells: IntArray, codes: IntArray) -> BoolArray:
        """True for each code whose hash is below the threshold of its cell; both of shape (n,)."""
        if not self.marks.size:
            return np.ones(codes.size, np.bool_)
        return np.asarray(self.unit_hashes(codes) < np.ldexp(1.0, -self.marks.value(cells)))

    def shares(self, cells: IntArray) -> list[float]:
        """The sampled share of all items or users in each cell."""
        return [0.5**halvings for halvings in self.marks.value(cells).tolist()]

    def reduce(self) -> None:
        """Thin the cells that are too large."""
        relation = self.rows
        cells, starts, counts = np.unique(
            relation.columns[0], return_index=True, return_counts=True
        )
        cells = cells.astype(np.int64)
        halvings = self.marks.value(cells)
        thinned = np.flatnonzero((counts > self._most) | (halvings > 0))
        if not thinned.size:
            self.note_largest(int(counts.max(initial=0)))
            return
        hashes = self.unit_hashes(relation.columns[relation.shape.items or 1])
        for at in thinned.tolist():
            rows = slice(starts[at], starts[at] + counts[at])
            halvings[at] = halvings_for(int(halvings[at]), hashes[rows], self._most)
        is_sampled = hashes < np.repeat(np.ldexp(1.0, -halvings), counts)
        if self._lost:
            gone = [column[~is_sampled] for column in relation.columns]
            self._relations[self._lost].add(gone[:1], gone[relation.shape.keys :])
        relation.keep(is_sampled)
        self.marks.add([cells[thinned]], [halvings[thinned]])
        if self._adds_only_sampled:
            largest = int(np.unique(relation.columns[0], return_counts=True)[1].max(initial=0))
            self.note_largest(largest)
        else:
            self.note_largest()


CONFIDENCE = 0.999
"""Confidence of the bounds of `bounds_of`."""

WIDTH = math.log(2 * (_MOST_HALVED + 1) / (1.0 - CONFIDENCE))
"""A union bound: each of two ends may fail at each of the possible thresholds."""


def bounds_of(sampled: int, share: float, width: float = WIDTH) -> tuple[float, float]:
    """Bounds of the number of items, from the number below the hash threshold.

    Chernoff's bound of a binomial count at `CONFIDENCE`; hashes are assumed to be random.

    Args:
        sampled: number of items below the threshold.
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
        return float(sampled), float(sampled)
    low = _expected_count(sampled, 0.0, float(sampled), width)
    high = _expected_count(sampled, 4.0 * (sampled + width), float(sampled), width)
    return max(float(sampled), low / share), high / share


def _expected_count(sampled: int, outside: float, inside: float, width: float) -> float:
    """The expected count furthest towards `outside` that is still compatible with `sampled`."""
    for _ in range(64):
        middle = (outside + inside) / 2.0
        unlikely = middle - sampled + (sampled * math.log(sampled / middle) if sampled else 0.0)
        outside, inside = (middle, inside) if unlikely > width else (outside, middle)
    return outside


def halvings_for(halvings: int, hashes: FloatArray, most: int) -> int:
    """Number of halvings of a threshold until at most `most` hashes are below it.

    `halvings`: halvings so far. `hashes`: one per row, scaled to [0, 1).

    Example:
        >>> halvings_for(0, np.array([0.1, 0.2, 0.6, 0.7]), 2)
        1
    """
    in_order = np.sort(hashes)
    while halvings < _MOST_HALVED and np.searchsorted(in_order, 0.5**halvings) > most:
        halvings += 1
    return halvings
