"""Counts of items by the length of their lists, for personalization."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from streameval.events import Batch
from streameval.statistics.arrays import IntArray
from streameval.statistics.asked import CellOptions
from streameval.statistics.relation import Shape
from streameval.statistics.sampling import HALVINGS, HashSample
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

MAX_PAIRS: Final = 1_000_000


class PairingsOptions(CellOptions, frozen=True, kw_only=True):
    """Options of a statistic of pairings; only equal options merge.

    Attributes:
        cutoff: cut-off k; None for the whole list.
        max_rows: largest number of pairs of item and length that a cell counts exactly.
    """

    cutoff: int | None = None
    max_rows: int = MAX_PAIRS

    def make(self, items: Items, _attributes: Mapping[str, Any]) -> ItemPairings:
        """See `CellOptions`."""
        return ItemPairings(self, items)


class ItemPairings(Statistic):
    """Counts (item, number of distinct items in the list) over all lists.

    Relations:
        pairs: (cell, item, length) -> lists with the item.
        lengths: (cell, distinct items in the list) -> lists, lists with a repeated item.
        halvings: see `HashSample`.

    Example:
        >>> pairings = ItemPairings(PairingsOptions(), Items())
        >>> lists = [["a", "b"], ["b", "c"]]
        >>> pairings.count(Batch(recommendations=lists, interactions=[[], []]), 0)
        >>> round(pairings.view(np.array([0]))[0].mean_cosine(), 12)
        0.5
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "pairs": Shape(keys=3, items=1),
        "lengths": Shape(keys=2, counts=2),
        "halvings": HALVINGS,
    }
    options: PairingsOptions
    cap: HashSample

    def __init__(self, options: PairingsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = HashSample(self.relations, "pairs", options.max_rows, items.unit_hashes)

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the items of many lists."""
        shown = [items[: self.options.cutoff] for items in batch.recommendations]
        sets = list(map(set, shown))
        lengths = np.fromiter(map(len, sets), np.int64, len(sets))
        repeating = lengths < np.fromiter(map(len, shown), np.int64, len(sets))
        where = cell_of_each(cells, len(sets))
        counts = [np.ones_like(lengths), repeating.astype(np.int64)]
        self.relations["lengths"].add([where, lengths], counts)
        codes = self.items.codes(chain.from_iterable(sets), int(lengths.sum()))
        keys = [np.repeat(where, lengths), codes, np.repeat(lengths, lengths)]
        self.relations["pairs"].add(keys, [np.ones_like(codes)])

    def view(self, cells: IntArray) -> list[Pairings]:
        """The argument of metrics for each of these cells."""
        self.reduce()
        pairs, lengths = (self.relations[name].by_cell(cells) for name in ("pairs", "lengths"))
        rows = zip(pairs, lengths, self.cap.shares(cells), strict=True)
        return [
            Pairings(pairs=pairs_of_cell, by_length=lengths_of_cell, share=kept)
            for pairs_of_cell, lengths_of_cell, kept in rows
        ]


class Pairings(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The items of one cell by the length of their lists: the argument `pairings` of a metric.

    Attributes:
        pairs: columns of item codes (ascending), lengths, and lists.
        by_length: columns of lengths, lists of that length, and those with a repeated item.
        share: sampled share of all items; 1 unless `estimated`.
    """

    pairs: list[IntArray]
    by_length: list[IntArray]
    share: float

    @property
    def estimated(self) -> bool:
        """True if only a sample of the items was kept, so that the mean cosine is an estimate."""
        return self.share < 1.0

    @property
    def lists(self) -> int:
        """Number of lists, including empty ones."""
        return int(self.by_length[1].sum())

    @property
    def empty(self) -> int:
        """Number of empty lists."""
        return int(self.by_length[1][self.by_length[0] == 0].sum())

    @property
    def repeating(self) -> int:
        """Number of lists with a repeated item."""
        return int(self.by_length[2].sum())

    @property
    def lengths(self) -> list[int]:
        """The lengths of non-empty lists, ascending."""
        return [length for length in self.by_length[0].tolist() if length]

    def mean_cosine(self) -> float:
        """Mean cosine of the item sets over pairs of lists; NaN for fewer than two lists."""
        n = self.lists - self.empty
        if n < 2:
            return math.nan
        codes, lengths, counts = (column.tolist() for column in self.pairs)
        by_item: dict[int, list[tuple[int, int]]] = {}
        for code, length, count in zip(codes, lengths, counts, strict=True):
            by_item.setdefault(code, []).append((length, count))
        # For each item, the squared sum over its lists of 1 / sqrt(length).
        squares = []
        for pairs in by_item.values():
            together = math.fsum(count / math.sqrt(length) for length, count in pairs)
            (length, count), *others = pairs
            squares.append(together * together if others else count**2 / length)
        cosine = (math.fsum(squares) / self.share - n) / (n * (n - 1))
        return min(max(cosine, 0.0), 1.0) if self.estimated else cosine
