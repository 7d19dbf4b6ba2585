"""Exposures: how often each item was shown, for coverage, entropy and popularity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import ClassVar, Literal, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Event, Id, Interactions
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import IntArray, grouped, occurrences, placed
from streameval.statistics.relation import Columns, Shape
from streameval.statistics.sampling import HALVINGS, SampledStatistic, bounds_of
from streameval.statistics.scores import gains_of
from streameval.statistics.statistic import Cells
from streameval.statistics.vocabulary import Items

MAX_ITEMS = 1_000_000
_MOST_PENDING = 65_536
"""Number of distinct pending items at which they are folded."""

_MOST_WAITING = 1_048_576
"""Number of pending item codes of several cells at which they are folded."""

_FIRST = 1_000
"""Items that `meets` looks up first."""

Exposed: TypeAlias = Literal["items", "users", "users_with_hits"]
"""What is counted: items shown, users who were shown an item, or users with a hit."""


class ExposuresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of items shown; only equal options merge.

    Attributes:
        cutoff: cut-off k; None for the whole list.
        max_items: largest number of distinct items of a cell that are counted exactly.
        of: what is counted; a user has the rank of the list's first item or first hit.
    """

    cutoff: int | None = None
    max_items: int = MAX_ITEMS
    of: Exposed = "items"


class ItemsShown(SampledStatistic):
    """Counts how often each item was shown up to the cut-off.

    A cell with more than `max_items` items keeps a sample of them; readings are then `estimated`.

    Relations:
        shown: (cell, item) -> times shown.
        lists: (cell) -> lists; if users are counted, only lists with a user.
        halvings: see `SampledStatistic`.
        lost: (cell) -> times shown of all items outside the sample.

    Example:
        >>> shown = ItemsShown(ExposuresOptions(cutoff=1), Items())
        >>> shown.count(Batch(recommendations=[["a", "b"], ["a"]], interactions=[[], []]), 0)
        >>> shown.view(np.array([0]))[0].counts()
        [2]
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "shown": Shape(keys=2, items=1),
        "lists": Shape(keys=1),
        "halvings": HALVINGS,
        "lost": Shape(keys=1),
    }
    rows = "shown"
    options: ExposuresOptions

    def __init__(self, options: ExposuresOptions, items: Items) -> None:
        super().__init__(options, items, options.max_items)
        self._lists: Counter[int] = Counter()
        self._pending: dict[int, Counter[Id]] = {}
        self._mixed: list[tuple[IntArray, IntArray, IntArray]] = []
        self.waiting = 0

    def row_of(self, recommendations: Sequence[Id], _: Interactions) -> Sequence[Id]:
        """The part of one list that `count_rows` counts, as a copy."""
        return recommendations[: self.options.cutoff]

    def count_rows(self, rows: Sequence[Sequence[Id]]) -> None:
        """Count rows of `row_of` in cell 0."""
        self._count_lists(len(rows), 0)
        self._count_shown(rows, 0)

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the items of many lists, or the users of those lists that have one."""
        if self.options.of != "items":
            users = batch.users or []
            known = np.array([row for row, user in enumerate(users) if user is not None], np.int64)
            batch = batch.take(known.tolist())
            batch = _of_users(batch, hits=self.options.of == "users_with_hits")
            cells = cells if isinstance(cells, int) else cells[known]
            if not known.size:
                return
        shown = self._shown(batch)
        self._count_lists(len(batch), cells)
        if isinstance(cells, int):
            self._count_shown(shown, cells)
            return
        lists = shown if isinstance(shown, Sequence) else list(shown)
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        codes = self.items.codes(chain.from_iterable(lists), int(lengths.sum()))
        self._wait(cells, lengths, codes)

    def count_coded(self, coded: CodedBatch, cells: Cells) -> None:
        """`count` for a batch of coded ids; the same content."""
        if self.options.of != "items":
            self.count(coded.batch, cells)
            return
        self._count_lists(len(coded), cells)
        shown = coded.recommendations.between(0, self.options.cutoff)
        if isinstance(cells, int):
            known, counts = occurrences(shown.values)
            codes = self.items.codes_of(coded.named(known))
            self.relations["shown"].add([np.full_like(codes, cells), codes], [counts])
            return
        known, places = np.unique(shown.values, return_inverse=True)
        codes = self.items.codes_of(coded.named(known))
        self._wait(cells, shown.lengths, codes[places])

    def fold(self) -> None:
        """Move pending counts into the relations, and thin cells that are too large."""
        pending, self._pending = self._pending, {}
        if self._lists:
            cells, lists = np.array([*self._lists.items()], np.int64).T
            self._lists.clear()
            self.relations["lists"].add([cells], [lists])
        for cell, counts in pending.items():
            codes = self.items.codes_of([*counts])
            found = np.fromiter(counts.values(), np.int64, len(counts))
            self.relations["shown"].add([np.full_like(codes, cell), codes], [found])
        if self._mixed:
            cells, lengths, codes = map(np.concatenate, zip(*self._mixed, strict=True))
            self._mixed, self.waiting = [], 0
            # Cells are few but far apart. Their indices have no gaps, so nothing must be sorted.
            known, places = placed(cells)
            rows = [np.repeat(places, lengths), codes]
            (places, codes), shown = grouped(rows, [np.ones_like(codes)])
            self.relations["shown"].add([known[places], codes], shown)
        super().fold()

    def note_lost(self, columns: Columns) -> None:
        """Add the counts of items that leave the sample to `lost`."""
        cells, _, shown = columns
        self.relations["lost"].add([cells], [shown])

    def view(self, cells: IntArray) -> list[Exposures]:
        """The argument of metrics for each of these cells."""
        self.fold()
        lists, lost = (self.relations[name].value(cells).tolist() for name in ("lists", "lost"))
        found = self.relations["shown"].by_cell(cells)
        return [
            Exposures(lists=seen, share=kept, lost=gone, codes=codes, shown=shown, items=self.items)
            for seen, kept, gone, (codes, shown) in zip(
                lists, self.shares(cells), lost, found, strict=True
            )
        ]

    def _shown(self, batch: Batch) -> Iterable[Sequence[Id]]:
        k = self.options.cutoff
        if batch.positions is not None:
            rows = zip(batch.recommendations, batch.positions, strict=True)
            return (_up_to(items, ranks, k) for items, ranks in rows)
        if k is None or max(map(len, batch.recommendations), default=0) <= k:
            return batch.recommendations
        return map(itemgetter(slice(k)), batch.recommendations)

    def _count_shown(self, shown: Iterable[Sequence[Id]], cell: int) -> None:
        pending = self._pending.setdefault(cell, Counter())
        pending.update(chain.from_iterable(shown))
        if len(pending) >= _MOST_PENDING:
            self.fold()

    def _count_lists(self, lists: int, cells: Cells) -> None:
        if isinstance(cells, int):
            self._lists[cells] += lists
        else:
            self.relations["lists"].add([cells], [np.ones_like(cells)])

    def _wait(self, cells: IntArray, lengths: IntArray, codes: IntArray) -> None:
        self._mixed.append((cells, lengths, codes))
        self.waiting += codes.size
        if self.waiting >= _MOST_WAITING:
            self.fold()


class Exposures(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The items shown in one cell: the argument `exposures` of a metric.

    Attributes:
        lists: number of lists.
        share: sampled share of all items; 1 unless `estimated`.
        lost: times shown of all items outside the sample.
        codes: codes of the sampled items, shape (items,).
        shown: how often each of them was shown.
        items: the vocabulary of the codes.
    """

    lists: int
    share: float
    lost: int
    codes: IntArray
    shown: IntArray
    items: Items

    @property
    def estimated(self) -> bool:
        """Whether there were more than `max_items` items, so that counts are estimates."""
        return self.share < 1.0

    @property
    def distinct(self) -> float:
        """Distinct items shown; an estimate where `estimated`."""
        return self.codes.size / self.share

    def distinct_among(self, items: frozenset[Id]) -> float:
        """Distinct items shown that belong to `items`."""
        kept = len(items.intersection(self.items.named(self.codes)))
        return min(kept / self.share, float(len(items)))

    def meets(self, items: frozenset[Id]) -> bool:
        """Whether any item shown belongs to `items`; the first ones nearly always decide."""
        parts = (self.codes[:_FIRST], self.codes[_FIRST:])
        return not all(items.isdisjoint(self.items.named(part)) for part in parts)

    def bounds(self, among: frozenset[Id] | None = None) -> tuple[float, float]:
        """Bounds of the number of distinct items, or of those in `among`.

        Both equal the number if it is exact; otherwise their confidence is 99.9 %.
        """
        if among is None:
            return bounds_of(self.codes.size, self.share)
        kept = len(among.intersection(self.items.named(self.codes)))
        low, high = bounds_of(kept, self.share)
        return low, min(high, float(len(among)))

    def counts(self, among: frozenset[Id] | None = None) -> list[int]:
        """How often each sampled item, or each in `among`, was shown; ascending."""
        shown = self.shown
        if among is not None:
            known = (item in among for item in self.items.named(self.codes))
            shown = shown[np.fromiter(known, np.bool_, self.codes.size)]
        found: list[int] = np.sort(shown).tolist()
        return found


def _of_users(batch: Batch, *, hits: bool) -> Batch:
    """Lists with their user as the only item, at the rank of the first item or hit."""
    shown: list[list[Id]] = []
    ranks: list[list[int]] = []
    for event in batch.events():
        rank = _first_rank(event, hits=hits)
        if rank is None or event.user is None:
            shown.append([])
            ranks.append([])
        else:
            shown.append([event.user])
            ranks.append([rank])
    return Batch(recommendations=shown, interactions=batch.interactions, positions=ranks)


def _first_rank(event: Event, *, hits: bool) -> int | None:
    ranks = event.positions or range(1, len(event.recommendations) + 1)
    if not hits:
        return min(ranks, default=None)
    gains = gains_of(event.interactions)
    pairs = zip(event.recommendations, ranks, strict=True)
    return min((rank for item, rank in pairs if gains.get(item, 0) > 0), default=None)


def _up_to(items: Sequence[Id], ranks: Sequence[int] | None, k: int | None) -> Sequence[Id]:
    if ranks is None or k is None:
        return items[:k]
    return [item for item, rank in zip(items, ranks, strict=True) if rank <= k]
