"""Ranks at which items of each kind were shown and hit, for the exposure of groups of items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat
from operator import itemgetter
from typing import ClassVar, Final, Literal, Self, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Id
from streameval.statistics.arrays import IntArray, up_to
from streameval.statistics.relation import Columns, Shape
from streameval.statistics.scores import gains_of
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

KindsOf: TypeAlias = Callable[[Id], Sequence[str]]
"""The kinds of an item: the values that it has in one attribute."""

Discount: TypeAlias = Literal["log2", "none"]
"""Worth of a rank: 1 / log2(rank + 1), or 1."""

_MOST_WAITING: Final = 65_536


class PlacementsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of placements; only equal options merge.

    Attributes:
        by: name of the attribute that gives the kinds.
        type: the type of interactions that count; "" for all types.
    """

    by: str = ""
    type: str = ""


class ItemPlacements(Statistic):
    """Counts at which ranks items of each kind were shown, and hit.

    An item of several kinds counts for each. A kind is stored as a hash of its name, so that items
    and kinds may be added to the attribute later.

    Relations:
        places: (cell, kind, rank) -> times shown, hits; a repeated item is a hit at its first rank.
        acts: (cell, kind) -> items interacted with.
        lists: (cell) -> lists.

    Attributes:
        kinds_of: gives the kinds of an item.

    Example:
        >>> placements = ItemPlacements(PlacementsOptions(by="genre"), Items())
        >>> placements.kinds_of = {"a": ["news"], "b": ["news", "drama"]}.__getitem__
        >>> placements.count(Batch(recommendations=[["a", "b"]], interactions=[["b"]]), 0)
        >>> placements.view(np.array([0]))[0].hits("news", None)
        1
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "places": Shape(keys=3, counts=2),
        "acts": Shape(keys=2),
        "lists": Shape(keys=1),
    }
    options: PlacementsOptions

    def __init__(self, options: PlacementsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.kinds_of: KindsOf = _kindless
        self._shown: Counter[tuple[int, int, int]] = Counter()
        self._hits: Counter[tuple[int, int, int]] = Counter()
        self._acts: Counter[tuple[int, int]] = Counter()

    def empty(self) -> Self:
        """See `Statistic.empty`."""
        twin = super().empty()
        twin.kinds_of = self.kinds_of
        return twin

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the items of many lists."""
        if self.options.type:
            batch = batch.of_type(self.options.type)
        where = cell_of_each(cells, len(batch))
        self.relations["lists"].add([where], [np.ones_like(where)])
        ranks = batch.positions or repeat(None)
        rows = zip(where.tolist(), batch.recommendations, batch.interactions, ranks, strict=False)
        for cell, shown, acts, positions in rows:
            gains = gains_of(acts)
            wanted = {item for item in acts if gains[item] > 0}
            self._acts.update((cell, code) for item in wanted for code in self._codes(item))
            self._place(cell, shown, positions, wanted)
        self.waiting = len(self._shown) + len(self._acts)
        if self.waiting >= _MOST_WAITING:
            self.fold()

    def fold(self) -> None:
        """Move pending counts into the relations."""
        if self._shown:
            keys = np.array([*self._shown], np.int64).T
            shown = np.fromiter(self._shown.values(), np.int64, len(self._shown))
            hits = np.fromiter((self._hits[key] for key in self._shown), np.int64, shown.size)
            self.relations["places"].add([*keys], [shown, hits])
        if self._acts:
            keys = np.array([*self._acts], np.int64).T
            counts = np.fromiter(self._acts.values(), np.int64, len(self._acts))
            self.relations["acts"].add([*keys], [counts])
        self._shown, self._hits, self._acts, self.waiting = Counter(), Counter(), Counter(), 0

    def view(self, cells: IntArray) -> list[Placements]:
        """The argument of metrics for each of these cells."""
        self.fold()
        places, acts = (self.relations[name].by_cell(cells) for name in ("places", "acts"))
        lists = self.relations["lists"].value(cells).tolist()
        return [
            Placements(lists=seen, places=shown, acts=acted)
            for seen, shown, acted in zip(lists, places, acts, strict=True)
        ]

    def _place(
        self, cell: int, shown: Sequence[Id], positions: Sequence[int] | None, wanted: set[Id]
    ) -> None:
        """Count the places of one list; removes the hits from `wanted`."""
        pairs = zip(
            range(1, len(shown) + 1) if positions is None else positions, shown, strict=True
        )
        for rank, item in pairs if positions is None else sorted(pairs, key=itemgetter(0)):
            keys = [(cell, code, rank) for code in self._codes(item)]
            self._shown.update(keys)
            if item in wanted:
                self._hits.update(keys)
                wanted.remove(item)

    def _codes(self, item: Id) -> list[int]:
        return [kind_code(kind) for kind in self.kinds_of(item)]


class Placements(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The ranks of the items of each kind in one cell: the argument `placements` of a metric.

    Attributes:
        lists: number of lists.
        places: columns of kinds (codes), ranks, times shown, and hits.
        acts: columns of kinds, and items interacted with.
    """

    lists: int
    places: Columns
    acts: Columns

    def exposure(self, kind: str, k: int | None, discount: Discount = "log2") -> float:
        """What the ranks at which items of a kind were shown are worth together."""
        ranks, shown, _ = self._up_to(kind, k)
        if discount == "none":
            return float(shown.sum())
        pairs = zip(ranks.tolist(), shown.tolist(), strict=True)
        return math.fsum(times / math.log2(rank + 1) for rank, times in pairs)

    def shown(self, kind: str, k: int | None) -> int:
        """How often items of a kind were shown up to rank k."""
        return int(self._up_to(kind, k)[1].sum())

    def hits(self, kind: str, k: int | None) -> int:
        """Hits of items of a kind up to rank k."""
        return int(self._up_to(kind, k)[2].sum())

    def interactions(self, kind: str) -> int:
        """Items of a kind interacted with, shown or not."""
        kinds, acts = self.acts
        return int(acts[kinds == kind_code(kind)].sum())

    def _up_to(self, kind: str, k: int | None) -> tuple[IntArray, IntArray, IntArray]:
        kinds, ranks, shown, hits = self.places
        here = (kinds == kind_code(kind)) & up_to(ranks, k)
        return ranks[here], shown[here], hits[here]


@lru_cache(maxsize=65_536)
def kind_code(kind: str) -> int:
    """The number of a kind: a hash of its name, the same on every machine and in every release.

    Example:
        >>> kind_code("news") == kind_code("news") != kind_code("drama")
        True
    """
    digest = blake2b(kind.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _kindless(_: Id) -> Sequence[str]:
    return ()
