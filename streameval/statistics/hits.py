"""Hits by rank: the statistic of the rank metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import ClassVar, TypeAlias

import numpy as np

from streameval.events import Batch
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import BoolArray, IntArray, grouped, sums, up_to
from streameval.statistics.hitcells import FIRST, IDEAL, INTERACTED, LENGTH, HitCells, HitsView
from streameval.statistics.lists import POSITIONED, REFUSED, GradedLists, Lists, Outcome, lists_of
from streameval.statistics.profiles import (
    HitsOptions,
    can_be_matched,
    matched,
    outcome_of,
    profiler,
)
from streameval.statistics.relation import Shape
from streameval.statistics.statistic import Cells, Statistic
from streameval.statistics.terms import ListCollector
from streameval.statistics.vocabulary import Items

_MOST_PENDING = 8_192
"""Number of distinct pending profiles at which they are folded, which takes milliseconds."""

_MOST_FOLDED = 65_536
"""Coded lists folded at once; more would only take more memory."""

_SHOWN = 3
"""A further meaning of `size`, with value 0: items shown at explicit positions."""

_NONE: IntArray = np.zeros(0, np.int64)
_Rows: TypeAlias = tuple[IntArray, ...]
"""Owner, size, rank, hits, ordinals and first hits."""

Listener: TypeAlias = Callable[[Lists], None]


class Hits(Statistic):
    """Counts lists by the ranks of their hits.

    Counting finds the profile of a list (interacted items, length, ranks of the hits) and adds 1 to
    its count. The pending profiles of all cells are folded together into relations of integers.
    No metric runs per event.

    Relations:
        hits: (cell, 2 x meaning of size, + 1 with gains, size, rank) -> hits, sum of the ordinals
            of the hits, lists with their first hit there.
        lists: (cell, 2 x kind of profile, + 1 with gains, interacted items, list length) -> lists.

    Attributes:
        listener: called with all lists that are folded.
        collector: takes the outcomes of the lists in order.
        row_of: the row of one list for `count_rows`.

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
        self.listener: Listener | None = None
        self.collector: ListCollector | None = None
        self.row_of = profiler(options)
        self._pending: dict[int, Counter[Outcome]] = {}
        self._outcomes: list[Outcome] = []
        self._cells: list[IntArray] = []
        self._shown: Counter[tuple[int, int]] = Counter()
        self._waiting = 0
        self._view: tuple[list[object], IntArray, HitsOfCells] | None = None

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many lists."""
        if self.options.type:
            batch = batch.of_type(self.options.type)
        if batch.positions is not None:
            self._take_ranks(batch.positions, cells)
        outcomes = self._outcomes_of(batch)
        if self.collector is not None:
            self.collector.take(outcomes, cells, len(batch))
            return
        for start in range(0, len(batch), _MOST_PENDING):
            part = islice(outcomes, _MOST_PENDING)
            if isinstance(cells, int):
                self._count(cells, part)
            else:
                # With many cells few lists are equal, and finding those costs more than it saves.
                self._outcomes.extend(part)
                self._cells.append(cells[start : start + _MOST_PENDING])
                self._add_pending(self._cells[-1].size)

    def count_coded(self, coded: CodedBatch, cells: Cells) -> None:
        """`count` for a batch of coded ids; the same content."""
        if not can_be_matched(self.options, coded):
            self.count(coded.batch, cells)
            return
        where = np.full(len(coded), cells) if isinstance(cells, int) else cells
        for start in range(0, len(coded), _MOST_FOLDED):
            stop = start + _MOST_FOLDED
            lists = matched(self.options, coded.rows(start, stop), where[start:stop])
            if self.collector is not None:
                self.collector.take_lists(lists)
            self._fold_lists(lists)

    def count_rows(self, rows: Iterable[Outcome]) -> None:
        """Count rows of `row_of` in cell 0."""
        self._count(0, rows)

    def fold(self) -> None:
        """Move pending lists into the relations."""
        for lists in self.collector.drain_lists() if self.collector is not None else ():
            self._fold_lists(lists)
        if self._waiting or self._shown:
            self._waiting = 0
            self._fold_shown()
            self._fold_pending()

    def view(self, cells: IntArray) -> HitsOfCells:
        """The argument of metrics, with one sum for each of these cells."""
        self.fold()
        known = self._view
        if known is None or known[0] != self._versions or not np.array_equal(known[1], cells):
            view = HitsOfCells(self, cells)
            known = self._view = self._versions, cells, view
        return known[2]

    @property
    def _versions(self) -> list[object]:
        return [(each, each.version) for each in self.relations.values()]

    def _outcomes_of(self, batch: Batch) -> Iterator[Outcome]:
        shown, acts = batch.recommendations, batch.interactions
        if batch.positions is None and dict not in set(map(type, acts)):
            return map(self.row_of, shown, acts)
        outcome = partial(outcome_of, self.options)
        return map(outcome, shown, acts, batch.positions or repeat(None))

    def _take_ranks(self, positions: Sequence[Sequence[int] | None], cells: Cells) -> None:
        last = self.options.last
        ranks = [
            (row, rank) for row, own in enumerate(positions) for rank in own or () if rank <= last
        ]
        where = np.broadcast_to(cells, len(positions))
        self._shown.update((int(where[row]), rank) for row, rank in ranks)
        if self.collector is not None:
            self.collector.take_ranks(ranks)

    def _count(self, cell: int, outcomes: Iterable[Outcome]) -> None:
        pending = self._pending.get(cell)
        if pending is None:
            pending = self._pending[cell] = Counter()
        self._waiting -= len(pending)
        pending.update(outcomes)
        self._add_pending(len(pending))

    def _add_pending(self, more: int) -> None:
        self._waiting += more
        if self._waiting >= _MOST_PENDING:
            self.fold()

    def _fold_shown(self) -> None:
        if self._shown:
            cell, rank = np.array([*self._shown], np.int64).T
            items = np.fromiter(self._shown.values(), np.int64, len(self._shown))
            self._shown.clear()
            none = np.zeros_like(rank)
            kind = np.full_like(rank, 2 * _SHOWN)
            self.relations["hits"].add([cell, kind, none, rank], [items, none, none])

    def _fold_pending(self) -> None:
        pending, self._pending = self._pending, {}
        outcomes, self._outcomes = self._outcomes, []
        counts, cells = [1] * len(outcomes), np.concatenate([_NONE, *self._cells]).tolist()
        self._cells = []
        outcomes += chain.from_iterable(pending.values())
        counts += chain.from_iterable(each.values() for each in pending.values())
        cells += chain.from_iterable(repeat(cell, len(pending[cell])) for cell in pending)
        for _, lists in lists_of(outcomes, np.array(counts, np.int64), np.array(cells, np.int64)):
            self._fold_lists(lists)

    def _fold_lists(self, lists: Lists) -> None:
        graded = int(isinstance(lists, GradedLists))
        count, owner = lists.count[lists.owner], lists.owner
        # Group first: the many hits have few distinct keys, and each key is written three times.
        (cell, interacted, length, rank), counts = grouped(
            [lists.cell[owner], lists.interacted[owner], lists.length[owner], lists.rank],
            [count, count * lists.ordinal, count * (lists.ordinal == 1)],
        )
        none = np.zeros(2 * rank.size, np.int64)
        self.relations["hits"].add(
            [
                np.tile(cell, 3),
                np.repeat(2 * np.array([INTERACTED, LENGTH, IDEAL]) + graded, rank.size),
                np.concatenate((interacted, length, np.minimum(interacted, length))),
                np.tile(rank, 3),
            ],
            [np.tile(counts[0], 3), *(np.concatenate((each, none)) for each in counts[1:])],
        )
        self.relations["lists"].add(
            [lists.cell, 2 * lists.kind + graded, lists.interacted, lists.length], [lists.count]
        )
        if self.listener is not None:
            self.listener(lists)


class HitsOfCells(HitsView):
    """The hits of several cells, with one sum per cell.

    Attributes:
        cells: number of cells.
        count: lists of each cell.
        graded: lists with a gain other than 1.
        without_interactions: lists without interactions.
        refused: lists on which the convention raises an error.
    """

    def __init__(self, hits: Hits, cells: IntArray) -> None:
        self.cells = cells.size
        owner, (kind, size, rank, *counts) = hits.relations["hits"].of(cells)
        self._rows: _Rows = (owner, size, rank, *counts)
        self._axis, self._with_gains = kind >> 1, kind & 1 > 0
        self._owner, (kind, self._interacted, self._length, self._lists) = hits.relations[
            "lists"
        ].of(cells)
        self._kind = kind >> 1
        self.count = self._lists_where(kind >= 0)
        self.graded = self._lists_where(kind & 1 > 0)
        self.without_interactions = self._lists_where(self._interacted == 0)
        self.refused = self._lists_where(self._kind & REFUSED > 0)
        self._known: dict[int, _Rows] = {}

    def without_gains(self) -> HitsOfCells:
        """Without the hits of lists with gains; first hits and items shown stay."""
        kept = ~self._with_gains
        twin = object.__new__(HitsOfCells)
        twin.__dict__.update(self.__dict__)
        twin._rows = tuple(column[kept] for column in self._rows)
        twin._axis, twin._known = self._axis[kept], {FIRST: self._cached_rows(FIRST)}
        return twin

    @property
    def hits(self) -> IntArray:
        """Hits of each cell."""
        owner, _, _, hits, *_ = self._cached_rows(INTERACTED)
        return sums(owner, hits, self.cells)

    def having(self, *, items: bool, interactions: bool) -> IntArray:
        """Lists of each cell with or without any item, and with or without any interaction."""
        here = (self._length > 0) == items
        return self._lists_where(here & ((self._interacted > 0) == interactions))

    def items(self, k: int | None) -> IntArray:
        """Number of items shown up to rank k."""
        whole = self._kind & POSITIONED == 0
        cut = self._length if k is None else np.minimum(self._length, k)
        owner, _, rank, shown, *_ = self._cached_rows(_SHOWN)
        here = up_to(rank, k)
        return sums(self._owner[whole], (cut * self._lists)[whole], self.cells) + sums(
            owner[here], shown[here], self.cells
        )

    def wanted(self) -> IntArray:
        """Number of items interacted with."""
        return sums(self._owner, self._interacted * self._lists, self.cells)

    def _cached_rows(self, axis: int) -> _Rows:
        if axis not in self._known:
            self._known[axis] = self._first_hits() if axis == FIRST else self._rows_of(axis)
        return self._known[axis]

    def _rows_of(self, axis: int) -> _Rows:
        here = self._axis == axis
        return tuple(column[here] for column in self._rows)

    def _first_hits(self) -> _Rows:
        owner, _, rank, _, _, firsts = self._cached_rows(INTERACTED)
        some = firsts > 0
        (owner, rank), (lists,) = grouped([owner[some], rank[some]], [firsts[some]])
        return owner, np.ones_like(rank), rank, lists, lists, lists

    def cells_by(self, size: int, k: int | None) -> HitCells:
        """See `HitsView`."""
        rows = self._cached_rows(size)
        if k is not None:
            here = rows[2] <= k
            rows = tuple(column[here] for column in rows)
        owner, sizes, rank, hits, ordinals, _ = rows
        return HitCells(
            rank=rank,
            size=sizes,
            hits=hits,
            ordinals=ordinals,
            gain=np.ones(rank.size),
            owner=owner,
            lists=self.cells,
            exact=True,
        )

    def _lists_where(self, here: BoolArray) -> IntArray:
        return sums(self._owner[here], self._lists[here], self.cells)
