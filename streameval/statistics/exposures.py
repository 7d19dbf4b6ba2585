"""Exposures: how often each item was shown, for coverage, entropy and popularity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Literal, Self, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Id
from streameval.events.ids import IdKind
from streameval.events.lazy import LazyColumn
from streameval.events.ragged import IdColumn
from streameval.statistics.arrays import IntArray, group_sum, place_values
from streameval.statistics.asked import Asking, CellOptions
from streameval.statistics.limits import MAX_ITEMS
from streameval.statistics.relation import Shape
from streameval.statistics.sampling import HALVINGS, HashSample, bounds_of
from streameval.statistics.scores import relevant_items
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

_FIRST = 1_000
"""Items that `meets` looks up first."""


Exposed: TypeAlias = Literal["items", "users", "users_with_hits"]
"""What is counted: items shown, users who were shown an item, or users with a hit."""


class ExposuresOptions(CellOptions, frozen=True, kw_only=True):
    """Options of a statistic of items shown; only equal options merge.

    Attributes:
        cutoff: cut-off k; None for the whole list.
        max_items: largest number of distinct items of a cell that are counted exactly.
        of: what is counted; a user has the rank of the list's first item or first hit.
    """

    cutoff: int | None = None
    max_items: int = MAX_ITEMS
    of: Exposed = "items"

    @classmethod
    def asked_by(cls, metric: Asking, max_items: int) -> Self:
        """See `CellOptions`."""
        of: Exposed = "items"
        if metric.reads == "users":
            of = "users" if metric.values["having"] == "item" else "users_with_hits"
        return cls(cutoff=metric.k, max_items=max_items, of=of)

    @property
    def recommended(self) -> slice | None:
        """See `CellOptions`."""
        return slice(self.cutoff) if self.of == "items" else None

    @property
    def keeps_users(self) -> bool:
        """See `CellOptions`."""
        return self.of != "items"

    def make(self, items: Items, _attributes: Mapping[str, Any]) -> ItemsShown:
        """See `CellOptions`."""
        return ItemsShown(self, items)

    def user_ids(self, statistic: ItemsShown) -> IdKind | None:
        """See `CellOptions`."""
        if not self.keeps_users:
            return None
        users = statistic.items.named(statistic.relations["shown"].columns[1][:1])
        return next(("text" if isinstance(user, str) else "integer" for user in users), None)


class ItemsShown(Statistic):
    """Counts how often each item was shown up to the cut-off.

    A cell with more than `max_items` items keeps a sample of them; readings are then `estimated`.

    Relations:
        shown: (cell, item) -> times shown.
        lists: (cell) -> lists; if users are counted, only lists with a user.
        halvings: see `HashSample`.
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
    options: ExposuresOptions
    cap: HashSample

    def __init__(self, options: ExposuresOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = HashSample(
            self.relations, "shown", options.max_items, items.unit_hashes, lost="lost"
        )

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the items of many lists, or the users of those lists that have one."""
        where = cell_of_each(cells, len(batch))
        if self.options.of != "items":
            users = enumerate(batch.users or ())
            having = np.array([row for row, user in users if user is not None], np.int64)
            where = where[having]
            batch = _of_users(batch.take(having), hits=self.options.of == "users_with_hits")
        self.relations["lists"].add([where], [np.ones_like(where)])
        lists = self._recommended(batch)
        if where.size and (where == where[0]).all():
            codes, counts = self.items.occurrences(lists)
            cells = np.full_like(codes, where[0])
        else:
            coded = self.items.coded(lists)
            # Cells are few but far apart. Their indices have no gaps, so nothing must be sorted.
            distinct_cells, indices = place_values(where)
            rows = [coded.spread(indices), coded.values]
            (indices, codes), (counts,) = group_sum(rows, [np.ones_like(coded.values)])
            cells = distinct_cells[indices]
        self.relations["shown"].add([cells, codes], [counts])

    def view(self, cells: IntArray) -> list[Exposures]:
        """The argument of metrics for each of these cells."""
        self.reduce()
        lists, lost = (self.relations[name].value(cells).tolist() for name in ("lists", "lost"))
        counts_by_cell = self.relations["shown"].by_cell(cells)
        return [
            Exposures(
                lists=count, share=share, lost=gone, codes=codes, shown=counts, items=self.items
            )
            for count, share, gone, (codes, counts) in zip(
                lists, self.cap.shares(cells), lost, counts_by_cell, strict=True
            )
        ]

    def _recommended(self, batch: Batch) -> Sequence[Sequence[Id]]:
        k, lists = self.options.cutoff, batch.recommendations
        if isinstance(lists, LazyColumn):
            lists = lists.column
        if batch.positions is not None:
            return [
                items[:k]
                if ranks is None or k is None
                else [item for item, rank in zip(items, ranks, strict=True) if rank <= k]
                for items, ranks in zip(lists, batch.positions, strict=True)
            ]
        if isinstance(lists, IdColumn):
            return IdColumn(lists.ragged.between(0, k), lists.names)
        if k is None or max(map(len, lists), default=0) <= k:
            return lists
        return list(map(itemgetter(slice(k)), lists))


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
        """True if there were more than `max_items` items, so that counts are estimates."""
        return self.share < 1.0

    @property
    def distinct(self) -> float:
        """Distinct items shown; an estimate where `estimated`."""
        return self.codes.size / self.share

    @property
    def by_problem(self) -> str | None:
        """The reason, in a sentence, that `by` would be wrong; None without one."""
        if not self.estimated:
            return None
        return (
            "Only a sample of the items was counted, and values without an item in it are not "
            "seen: raise max_items above the number of items that are shown."
        )

    def by(self, values_of: Callable[[Id], Sequence[str]]) -> Exposures:
        """The values of the items shown, each as often as its items; exact counts only.

        `values_of`: the values of an item; it counts once for each, or not at all without one.

        Example:
            >>> items = Items()
            >>> codes = items.codes(["a", "b", "c"])
            >>> shown = Exposures(
            ...     lists=2, share=1.0, lost=0, codes=codes, shown=np.array([3, 1, 2]), items=items
            ... )
            >>> shown.by({"a": ["news"], "b": ["news", "drama"], "c": []}.__getitem__).counts()
            [1, 4]
        """
        totals = Counter[str]()
        for item, count in zip(self.items.named(self.codes), self.shown.tolist(), strict=True):
            for value in values_of(item):
                totals[value] += count
        values = Items()
        return msgspec.structs.replace(
            self,
            codes=values.codes(totals),
            shown=np.fromiter(totals.values(), np.int64, len(totals)),
            items=values,
        )

    def bounded(self, among: frozenset[Id] | None = None) -> tuple[float, float, float]:
        """Distinct items shown, or those in `among`, with the bounds of their number.

        The three are equal if the number is exact; otherwise the bounds have a confidence of
        99.9 %. NaN without lists.
        """
        if not self.lists:
            return math.nan, math.nan, math.nan
        sampled, most = self.codes.size, math.inf
        if among is not None:
            sampled = len(among.intersection(self.items.named(self.codes)))
            most = float(len(among))
        low, high = bounds_of(sampled, self.share)
        return min(sampled / self.share, most), low, min(high, most)

    def meets(self, items: frozenset[Id]) -> bool:
        """True if any item shown belongs to `items`; the first ones nearly always decide."""
        parts = (self.codes[:_FIRST], self.codes[_FIRST:])
        return not all(items.isdisjoint(self.items.named(part)) for part in parts)

    def counts(self, among: frozenset[Id] | None = None) -> list[int]:
        """Exposures of each sampled item, or of each in `among`; ascending."""
        counts = self.shown
        if among is not None:
            is_member = (item in among for item in self.items.named(self.codes))
            counts = counts[np.fromiter(is_member, np.bool_, self.codes.size)]
        ascending: list[int] = np.sort(counts).tolist()
        return ascending


def _of_users(batch: Batch, *, hits: bool) -> Batch:
    """Lists with their user as the only item, at the rank of the first item or hit."""
    recommended: list[list[Id]] = []
    ranks: list[list[int]] = []
    for event in batch.events():
        items = event.recommendations
        positions = event.positions or range(1, len(items) + 1)
        if hits:
            relevant = relevant_items(event.interactions)
            positions = [
                rank for item, rank in zip(items, positions, strict=True) if item in relevant
            ]
        first = min(positions, default=None)
        if first is None or event.user is None:
            recommended.append([])
            ranks.append([])
        else:
            recommended.append([event.user])
            ranks.append([first])
    return Batch(recommendations=recommended, interactions=batch.interactions, positions=ranks)
