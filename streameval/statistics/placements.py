"""Ranks at which items of each kind were shown and hit, for the exposure of groups of items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Literal, Self, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Id
from streameval.events.digests import blake2b
from streameval.statistics.arrays import IntArray, up_to
from streameval.statistics.asked import Asking, CellOptions
from streameval.statistics.relation import RelationColumns, Shape
from streameval.statistics.scores import relevant_items
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

KindsOf: TypeAlias = Callable[[Id], tuple[str, ...]]
"""The kinds of an item: the values that it has in one attribute."""

Discount: TypeAlias = Literal["log2", "none"]
"""Worth of a rank: 1 / log2(rank + 1), or 1."""


class PlacementsOptions(CellOptions, frozen=True, kw_only=True):
    """Options of a statistic of placements; only equal options merge.

    Attributes:
        by: name of the attribute that gives the kinds.
        type: the type of interactions that count; "" for all types.
    """

    by: str = ""
    type: str = ""

    @classmethod
    def asked_by(cls, metric: Asking, max_items: int) -> Self:  # noqa: ARG003  ranks need no cap
        """See `CellOptions`."""
        return cls(by=metric.attribute or "", type=str(metric.values["type"]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """See `CellOptions`."""
        return (f"attributes.{self.by}",)

    def make(self, items: Items, attributes: Mapping[str, Any]) -> ItemPlacements:
        """See `CellOptions`."""
        made = ItemPlacements(self, items)
        made.kinds_of = attributes[self.by].of
        return made


class ItemPlacements(Statistic):
    """Counts at which ranks items of each kind were shown, and hit.

    An item of several kinds counts for each. A kind is stored as a hash of its name, so that items
    and kinds may be added to the attribute later.

    Relations:
        ranks: (cell, kind, rank) -> times shown, hits; a repeated item is a hit at its first rank.
        interacted: (cell, kind) -> items interacted with.
        lists: (cell) -> lists.

    Attributes:
        kinds_of: gives the kinds of an item.

    Example:
        >>> placements = ItemPlacements(PlacementsOptions(by="genre"), Items())
        >>> placements.kinds_of = {"a": ("news",), "b": ("news", "drama")}.__getitem__
        >>> placements.count(Batch(recommendations=[["a", "b"]], interactions=[["b"]]), 0)
        >>> placements.view(np.array([0]))[0].hits("news", None)
        1
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "ranks": Shape(keys=3, counts=2),
        "interacted": Shape(keys=2),
        "lists": Shape(keys=1),
    }
    options: PlacementsOptions

    def __init__(self, options: PlacementsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.kinds_of: KindsOf = lambda _: ()

    def empty(self) -> Self:
        """See `Statistic.empty`."""
        duplicate = super().empty()
        duplicate.kinds_of = self.kinds_of
        return duplicate

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the items of many lists."""
        if self.options.type:
            batch = batch.of_type(self.options.type)
        where = cell_of_each(cells, len(batch))
        self.relations["lists"].add([where], [np.ones_like(where)])
        relevant, recommended = [*map(relevant_items, batch.interactions)], [*batch.recommendations]
        # Items interacted with, by kind.
        codes, index = self._kinds([item for items in relevant for item in items])
        cell_index = np.repeat(where, np.fromiter(map(len, relevant), np.int64, len(relevant)))
        self.relations["interacted"].add([cell_index[index], codes], [np.ones_like(codes)])
        # Items shown, and hits, by kind and rank.
        lengths = np.fromiter(map(len, recommended), np.int64, len(recommended))
        starts = np.cumsum(lengths) - lengths
        ranks = np.arange(1, int(lengths.sum()) + 1) - np.repeat(starts, lengths)
        hits = np.zeros_like(ranks)
        positions = batch.positions or [None] * len(recommended)
        rows = zip(starts.tolist(), recommended, positions, relevant, strict=True)
        for start, items, explicit, relevant_of_list in rows:
            if explicit is not None:
                ranks[start : start + len(items)] = explicit
            if not relevant_of_list.isdisjoint(items):
                hits[[start + row for row in _first_hits(items, explicit, relevant_of_list)]] = 1
        codes, index = self._kinds([item for items in recommended for item in items])
        cell_index, hits = np.repeat(where, lengths), hits[index]
        keys = [cell_index[index], codes, ranks[index]]
        self.relations["ranks"].add(keys, [np.ones_like(hits), hits])

    def view(self, cells: IntArray) -> list[Placements]:
        """The argument of metrics for each of these cells."""
        ranks, interacted = (
            self.relations[name].by_cell(cells) for name in ("ranks", "interacted")
        )
        lists = self.relations["lists"].value(cells).tolist()
        return [Placements(*columns) for columns in zip(lists, ranks, interacted, strict=True)]

    def _kinds(self, items: Sequence[Id]) -> tuple[IntArray, IntArray]:
        """The codes of the kinds of all items, and the index of the item that each is of."""
        codes = [tuple(map(kind_code, self.kinds_of(item))) for item in items]
        lengths = np.fromiter(map(len, codes), np.int64, len(codes))
        flat = np.fromiter(chain.from_iterable(codes), np.int64, int(lengths.sum()))
        return flat, np.repeat(np.arange(len(codes)), lengths)


def _first_hits(items: Sequence[Id], ranks: Sequence[int] | None, relevant: set[Id]) -> list[int]:
    """The index of each relevant item of a list; of a repeated one that of its first rank."""
    order = range(len(items)) if ranks is None else sorted(range(len(items)), key=ranks.__getitem__)
    first: dict[Id, int] = {}
    for index in order:
        if items[index] in relevant:
            first.setdefault(items[index], index)
    return [*first.values()]


class Placements(msgspec.Struct, frozen=True, eq=False):
    """The ranks of the items of each kind in one cell: the argument `placements` of a metric.

    Attributes:
        lists: number of lists.
        ranks: columns of kinds (codes), ranks, times shown, and hits.
        interacted: columns of kinds, and items interacted with.
    """

    lists: int
    ranks: RelationColumns
    interacted: RelationColumns

    def exposure(self, kind: str, k: int | None, discount: Discount = "log2") -> float:
        """The total weight of the ranks at which items of a kind were shown."""
        ranks, shown, _ = self._up_to(kind, k)
        if discount == "none":
            return float(shown.sum())
        pairs = zip(ranks.tolist(), shown.tolist(), strict=True)
        return math.fsum(times / math.log2(rank + 1) for rank, times in pairs)

    def shown(self, kind: str, k: int | None) -> int:
        """Number of times that items of a kind were shown up to rank k."""
        return int(self._up_to(kind, k)[1].sum())

    def hits(self, kind: str, k: int | None) -> int:
        """Hits of items of a kind up to rank k."""
        return int(self._up_to(kind, k)[2].sum())

    def interactions(self, kind: str) -> int:
        """Items of a kind interacted with, shown or not."""
        kinds, items = self.interacted
        return int(items[kinds == kind_code(kind)].sum())

    def _up_to(self, kind: str, k: int | None) -> tuple[IntArray, IntArray, IntArray]:
        kinds, ranks, exposures, hits = self.ranks
        inside = (kinds == kind_code(kind)) & up_to(ranks, k)
        return ranks[inside], exposures[inside], hits[inside]


@lru_cache(maxsize=65_536)
def kind_code(kind: str) -> int:
    """The number of a kind: a hash of its name, the same on every machine and in every release.

    Example:
        >>> kind_code("news") == kind_code("news") != kind_code("drama")
        True
    """
    digest = blake2b(kind.encode("utf-8", "surrogatepass"), 8)
    return int.from_bytes(digest, "little", signed=True)
