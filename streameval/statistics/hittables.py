"""The tables that hits are folded into, and how metrics see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import IntArray
from streameval.statistics.cells import Cells
from streameval.statistics.hitcells import HitCells
from streameval.statistics.lists import POSITIONED, REFUSED, Lists
from streameval.statistics.packing import array_of

_NO_INTERACTION = 1


class HitTables:
    """Integer tables of all lists; `view` gives what metrics read.

    Attributes:
        interacted: (graded, interacted items, rank) -> (hits, sum of the hits' ordinals).
        length: (graded, list length, rank) -> hits.
        ideal: (graded, smaller of both, rank) -> hits.
        first: rank of the first hit -> lists.
        lists: (graded, interacted items) -> lists.
        lengths: (kind, list length) -> lists; kind is twice the profile's, plus 1 without
            interactions.
        shown: rank -> items shown there, of lists whose items stood at ranks of their own.
    """

    NAMES = ("interacted", "length", "ideal", "first", "lists", "lengths", "shown")

    def __init__(self) -> None:
        self.interacted = Cells(keys=3, counts=2)
        self.length = Cells(keys=3, counts=1)
        self.ideal = Cells(keys=3, counts=1)
        self.first = Cells(keys=1, counts=1)
        self.lists = Cells(keys=2, counts=1)
        self.lengths = Cells(keys=2, counts=1)
        self.shown = Cells(keys=1, counts=1)

    def add(self, lists: Lists, *, graded: int) -> None:
        """Add distinct lists, each as often as its count says."""
        count, rank = lists.count[lists.owner], lists.rank
        interacted, length = lists.interacted[lists.owner], lists.length[lists.owner]
        flag = np.full_like(rank, graded)
        self.interacted.add([flag, interacted, rank], [count, count * lists.ordinal])
        self.length.add([flag, length, rank], [count])
        self.ideal.add([flag, np.minimum(interacted, length), rank], [count])
        self.first.add([rank[lists.ordinal == 1]], [count[lists.ordinal == 1]])
        self.lists.add([np.full_like(lists.count, graded), lists.interacted], [lists.count])
        kind = 2 * lists.kind + _NO_INTERACTION * (lists.interacted == 0)
        self.lengths.add([kind, lists.length], [lists.count])

    def add_shown(self, ranks: Mapping[int, int]) -> None:
        """Add items shown at ranks of their own: rank -> how many."""
        rank = np.fromiter(ranks.keys(), np.int64, len(ranks))
        self.shown.add([rank], [np.fromiter(ranks.values(), np.int64, len(ranks))])

    def view(self, *, graded: bool = True) -> TableView:
        """What metrics read, with or without the lists that carry gains."""
        return TableView(self, graded=graded)

    @property
    def count(self) -> int:
        """All lists."""
        return int(self.lists.counts[0].sum())

    @property
    def without_interactions(self) -> int:
        """Lists whose user did nothing."""
        return int(self.lists.counts[0][self.lists.keys[1] == 0].sum())

    def having(self, *, items: bool, interactions: bool) -> int:
        """Lists with or without any item, and with or without any interaction."""
        kind, length = self.lengths.keys
        here = (length > 0) == items
        here &= (kind & _NO_INTERACTION == 0) == interactions
        return int(self.lengths.counts[0][here].sum())

    @property
    def refused(self) -> int:
        """Lists that the convention asked for does not take."""
        kind = self.lengths.keys[0]
        return int(self.lengths.counts[0][kind & (2 * REFUSED) > 0].sum())

    @property
    def graded(self) -> int:
        """Lists whose interactions carry gains other than 1."""
        return int(self.lists.counts[0][self.lists.keys[0] == 1].sum())

    @property
    def hits(self) -> int:
        """All hits."""
        return int(self.interacted.counts[0].sum())

    def items_shown(self, k: int | None) -> int:
        """Items shown up to rank k, over all lists."""
        kind, length = self.lengths.keys
        whole = kind & (2 * POSITIONED) == 0
        cut = length if k is None else np.minimum(length, k)
        at_ranks = _up_to(self.shown.keys[0], k)
        return int((cut * self.lengths.counts[0])[whole].sum()) + int(
            self.shown.counts[0][at_ranks].sum()
        )

    def merge(self, other: HitTables) -> None:
        """Add another's cells."""
        for name in self.NAMES:
            getattr(self, name).merge(getattr(other, name))

    def state_dict(self) -> dict[str, Any]:
        """Every table as rows of integers in ascending order."""
        return {name: getattr(self, name).rows() for name in self.NAMES}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave."""
        for name in self.NAMES:
            getattr(self, name).load(state[name])

    def copy(self) -> HitTables:
        """Independent tables with the same content."""
        twin = object.__new__(HitTables)
        for name in self.NAMES:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        yield array_of(len(self.NAMES))
        for name in self.NAMES:
            yield from getattr(self, name).dump()

    def adopt(self, saved: Sequence[Sequence[Ext]]) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
        """
        for name, columns in zip(self.NAMES, saved, strict=True):
            getattr(self, name).adopt(columns)


class TableView:
    """Hits of all lists at once; fulfils `HitsView` with one sum for all."""

    __slots__ = ("_graded", "_tables")

    def __init__(self, tables: HitTables, *, graded: bool) -> None:
        self._tables = tables
        self._graded = graded

    def by_interacted(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the number of items interacted with."""
        return self._cells(self._tables.interacted, k)

    def by_length(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the length of the list."""
        return self._cells(self._tables.length, k)

    def by_ideal(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the smaller of interacted items and list length."""
        return self._cells(self._tables.ideal, k)

    def first(self, k: int | None) -> HitCells:
        """The first hit of each list that has one up to rank k; `size` is 1."""
        rank, lists = self._tables.first.keys[0], self._tables.first.counts[0]
        here = _up_to(rank, k)
        ones = np.ones_like(rank[here])
        return _hit_cells(rank[here], ones, [lists[here], lists[here]])

    def items(self, k: int | None) -> int:
        """How many items were shown up to rank k."""
        return self._tables.items_shown(k)

    def wanted(self) -> int:
        """How many items were interacted with."""
        (_, interacted), (lists,) = self._tables.lists.keys, self._tables.lists.counts
        return sum(
            size * count for size, count in zip(interacted.tolist(), lists.tolist(), strict=True)
        )

    def _cells(self, table: Cells, k: int | None) -> HitCells:
        graded, size, rank = table.keys
        here = _up_to(rank, k)
        if not self._graded:
            here &= graded == 0
        return _hit_cells(rank[here], size[here], [column[here] for column in table.counts])


def _hit_cells(rank: IntArray, size: IntArray, counts: Sequence[IntArray]) -> HitCells:
    return HitCells(
        rank=rank, size=size, hits=counts[0], ordinals=counts[-1], gain=np.ones(rank.size)
    )


def _up_to(rank: IntArray, k: int | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return rank <= (np.iinfo(np.int64).max if k is None else k)
