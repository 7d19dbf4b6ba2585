"""Samples of the items or users of a cell: above a cap, those with small hashes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.statistic import CellCap
from streameval.statistics.vocabulary import Items

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
        hashes: of codes, scaled to [0, 1); a code is the item of a row, or its second key.
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
        self._hashes = hashes
        self._lost = lost
        self._adds_only_sampled = adds_only_sampled

    def unit_hashes(self, codes: IntArray) -> FloatArray:
        """Hashes of codes, scaled to [0, 1)."""
        return self._hashes(codes)

    def keeps(self, cells: IntArray, codes: IntArray) -> BoolArray:
        """Whether the hash of each code is below the threshold of its cell; both of shape (n,)."""
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
        halvings = self.marks.value(cells.astype(np.int64))
        thinned = np.flatnonzero((counts > self._most) | (halvings > 0))
        for at in thinned.tolist():
            rows = slice(starts[at], starts[at] + counts[at])
            codes = relation.columns[relation.shape.items or 1][rows]
            halvings[at] = halvings_for(int(halvings[at]), self.unit_hashes(codes), self._most)
        if thinned.size:
            self._thin(np.repeat(np.ldexp(1.0, -halvings), counts))
            self.marks.add([cells[thinned].astype(np.int64)], [halvings[thinned]])
            if self._adds_only_sampled:
                counts = np.unique(relation.columns[0], return_counts=True)[1]
        full = thinned.size > 0 and not self._adds_only_sampled
        self.note_largest(self._most if full else int(counts.max(initial=0)))

    def _thin(self, limits: FloatArray) -> None:
        """Remove the rows with hashes from a limit on; `limits`: of each row."""
        relation = self.rows
        kept = self.unit_hashes(relation.columns[relation.shape.items or 1]) < limits
        if self._lost:
            cells, *counts = (
                relation.columns[at][~kept]
                for at in (0, *range(relation.shape.keys, len(relation.columns)))
            )
            self._relations[self._lost].add([cells], counts)
        relation.keep(kept)


def item_sample(
    relations: Mapping[str, Relation], rows: str, most: int, items: Items, lost: str = ""
) -> HashSample:
    """A sample of the items of each cell; see `HashSample`."""
    return HashSample(relations, rows, most, partial(_item_hashes, items), lost=lost)


def _item_hashes(items: Items, codes: IntArray) -> FloatArray:
    return items.unit_hashes[codes]


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
