"""Hits by rank: the statistic of the rank metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Final, TypeAlias

import numpy as np

from streameval.events import Batch
from streameval.statistics.arrays import IntArray, group_sum, sums, up_to
from streameval.statistics.hitrows import FIRST, IDEAL, INTERACTED, LENGTH, HitRows, HitsView
from streameval.statistics.lists import (
    POSITIONED,
    REFUSED,
    HitsOptions,
    Lists,
    explicit_ranks,
    lists_of,
)
from streameval.statistics.relation import RelationColumns, Shape
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

_RECOMMENDED: Final = 3
"""A further meaning of `size`, with value 0: items shown at explicit positions."""

_Rows: TypeAlias = tuple[IntArray, ...]
"""Owner, size, rank, hits, ordinals and first hits."""


class Hits(Statistic):
    """Counts lists by the ranks of their hits.

    No metric runs per event.

    Relations:
        hits: (cell, 2 x meaning of size, + 1 with gains, size, rank) -> hits, sum of the ordinals
            of the hits, lists with their first hit there.
        lists: (cell, 2 x kind of list, + 1 with gains, interacted items, list length) -> lists.

    Example:
        >>> hits = Hits(HitsOptions(depth=10), Items())
        >>> hits.count(Batch(recommendations=[["a", "b", "c"]], interactions=[["c"]]), 0)
        >>> hits.view(np.array([0])).by_interacted(10).rank.tolist()
        [3]
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "hits": Shape(keys=4, counts=3),
        "lists": Shape(keys=4),
    }
    options: HitsOptions

    def __init__(self, options: HitsOptions, items: Items) -> None:
        super().__init__(options, items)
        self._view: tuple[list[object], IntArray, HitsOfCells] | None = None

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many lists."""
        where = cell_of_each(cells, len(batch))
        if batch.positions is not None:
            rows, ranks = explicit_ranks_within(self.options, batch)
            self.add_ranks(where[rows], ranks)
        for _, lists in lists_of(self.options, batch, where):
            self.add(lists)

    def add(self, lists: Lists) -> None:
        """Count lists by their columns."""
        graded, list_index, hits = (
            int(lists.is_graded),
            lists.list_index,
            np.ones_like(lists.list_index),
        )
        # Group first: the many hits have few distinct keys, and each key is written three times.
        (cell, interacted, length, rank), counts = group_sum(
            [
                lists.cell[list_index],
                lists.interacted[list_index],
                lists.length[list_index],
                lists.rank,
            ],
            [hits, lists.ordinal, (lists.ordinal == 1).astype(np.int64)],
        )
        none = np.zeros(2 * rank.size, np.int64)
        self.relations["hits"].add(
            [
                np.tile(cell, 3),
                np.repeat(2 * np.array([INTERACTED, LENGTH, IDEAL]) + graded, rank.size),
                np.concatenate((interacted, length, np.minimum(interacted, length))),
                np.tile(rank, 3),
            ],
            [np.tile(counts[0], 3), *(np.concatenate((column, none)) for column in counts[1:])],
        )
        self.relations["lists"].add(
            [lists.cell, 2 * lists.kind + graded, lists.interacted, lists.length],
            [np.ones(len(lists), np.int64)],
        )

    def add_ranks(self, cells: IntArray, ranks: IntArray) -> None:
        """Count items at explicit positions, by the cell and rank of each."""
        # Group first: the many items have few distinct ranks.
        (cells, ranks), (items,) = group_sum([cells, ranks], [np.ones_like(ranks)])
        none = np.zeros_like(ranks)
        keys = [cells, np.full_like(ranks, 2 * _RECOMMENDED), none, ranks]
        self.relations["hits"].add(keys, [items, none, none])

    def view(self, cells: IntArray) -> HitsOfCells:
        """The argument of metrics, with one sum for each of these cells."""
        # One for all metrics that are read together.
        version, cached = self.version, self._view
        if cached is None or cached[0] != version or not np.array_equal(cached[1], cells):
            hits, lists = (self.relations[name].of(cells) for name in ("hits", "lists"))
            cached = self._view = version, cells, HitsOfCells(cells.size, hits, lists)
        return cached[2]


def explicit_ranks_within(options: HitsOptions, batch: Batch) -> tuple[IntArray, IntArray]:
    """The list and the rank of each item at an explicit position that is kept."""
    ranks = explicit_ranks(batch)
    inside = ranks.values <= options.last
    return np.repeat(np.arange(len(ranks)), ranks.lengths)[inside], ranks.values[inside]


class HitsOfCells(HitsView):
    """The hits of several cells, with one sum per cell.

    Args:
        cells: number of cells.
        hits: rows of the relation `hits`: indices of cells, other columns.
        lists: rows of the relation `lists`.
        with_gains: whether the hits of lists with gains count, too; first hits always do.
    """

    def __init__(
        self,
        cells: int,
        hits: tuple[IntArray, RelationColumns],
        lists: tuple[IntArray, RelationColumns],
        *,
        with_gains: bool = True,
    ) -> None:
        self.cells = cells
        self._relations = hits, lists
        self._with_gains = with_gains
        self._cell_index, (kind, self._interacted, self._length, self._lists) = lists
        self._kind, self._graded = kind >> 1, kind & 1
        self._by_size: dict[int, _Rows] = {}

    @cached_property
    def having(self) -> IntArray:
        """Lists of each cell with any item or not, any interaction or not; shape (2, 2, cells)."""
        having = (self._length > 0).astype(np.int64), (self._interacted > 0).astype(np.int64)
        lists = np.zeros((2, 2, self.cells), np.int64)
        np.add.at(lists, (*having, self._cell_index), self._lists)
        return lists

    @property
    def count(self) -> IntArray:
        """Lists of each cell."""
        return np.asarray(self.having.sum(axis=(0, 1)))

    @property
    def without_interactions(self) -> IntArray:
        """Lists without interactions."""
        return np.asarray(self.having[:, 0].sum(axis=0))

    @cached_property
    def graded(self) -> IntArray:
        """Lists with a gain other than 1."""
        return sums(self._cell_index, self._lists * self._graded, self.cells)

    @cached_property
    def refused(self) -> IntArray:
        """Lists on which the convention raises an error."""
        return sums(self._cell_index, self._lists * (self._kind & REFUSED > 0), self.cells)

    @cached_property
    def without_gains(self) -> HitsOfCells:
        """Without the hits of lists with gains; first hits and items shown stay."""
        if not self.graded.any():
            return self
        return HitsOfCells(self.cells, *self._relations, with_gains=False)

    @property
    def hits(self) -> IntArray:
        """Hits of each cell."""
        cell_index, _, _, hits, *_ = self._rows(INTERACTED)
        return sums(cell_index, hits, self.cells)

    def items(self, k: int | None) -> IntArray:
        """Number of items shown up to rank k."""
        unpositioned = self._kind & POSITIONED == 0
        cut = self._length if k is None else np.minimum(self._length, k)
        cell_index, _, rank, recommended, *_ = self._rows(_RECOMMENDED)
        selected = up_to(rank, k)
        return sums(
            self._cell_index[unpositioned], (cut * self._lists)[unpositioned], self.cells
        ) + sums(cell_index[selected], recommended[selected], self.cells)

    def wanted(self) -> IntArray:
        """Number of items interacted with."""
        return sums(self._cell_index, self._interacted * self._lists, self.cells)

    def _rows(self, size: int) -> _Rows:
        """The rows of a meaning of size."""
        if size not in self._by_size:
            cell_index, (kind, *columns) = self._relations[0]
            selected = kind >> 1 == (INTERACTED if size == FIRST else size)
            if size == FIRST:
                _, rank, _, _, firsts = columns
                selected &= firsts > 0
                keys, (lists,) = group_sum(
                    [cell_index[selected], rank[selected]], [firsts[selected]]
                )
                self._by_size[size] = (keys[0], np.ones_like(keys[1]), keys[1], lists, lists, lists)
            else:
                if not self._with_gains:
                    selected &= kind & 1 == 0
                self._by_size[size] = tuple(column[selected] for column in (cell_index, *columns))
        return self._by_size[size]

    def rows_by(self, size: int, k: int | None) -> HitRows:
        """See `HitsView`."""
        rows = self._rows(size)
        if k is not None:
            selected = rows[2] <= k
            rows = tuple(column[selected] for column in rows)
        cell_index, sizes, rank, hits, ordinals, _ = rows
        return HitRows(
            rank=rank,
            size=sizes,
            hits=hits,
            ordinals=ordinals,
            gain=np.ones(rank.size),
            list_index=cell_index,
            lists=self.cells,
            exact=True,
        )
