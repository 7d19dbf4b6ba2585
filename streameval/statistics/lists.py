"""Distinct lists with their hits, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from typing import Any, Self, TypeAlias

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, grouped, placed, read_only, up_to
from streameval.statistics.hitcells import FIRST, IDEAL, INTERACTED, HitCells, HitsView
from streameval.statistics.vocabulary import Codes

Profile: TypeAlias = tuple[int, ...]
"""(kind, interacted, length, place of 1st hit, of 2nd hit, ...); a place is a rank from 0."""

GradedProfile: TypeAlias = tuple[Profile, tuple[float, ...], tuple[float, ...]]
"""(profile, gain of each hit, all relevant gains in descending order)."""

Outcome: TypeAlias = Profile | GradedProfile
"""Everything that rank metrics need from one list."""

POSITIONED, REFUSED = 1, 2
_HEAD = 3


class Lists(HitsView):
    """Distinct lists as read-only columns, with one sum per list.

    Attributes:
        count: how often each list occurred, shape (n,).
        cell: the cell in which it occurred.
        kind: sum of POSITIONED for a list with explicit positions, and REFUSED for a list on which
            the convention raises an error.
        interacted: number of relevant items interacted with.
        length: number of items in the list, up to the depth.
        owner: index of the list of each hit, shape (hits,).
        rank: rank of each hit.
        ordinal: 1 for the first hit of its list, 2 for the second, ...
    """

    def __init__(self, profiles: Sequence[Profile], counts: IntArray, cells: IntArray) -> None:
        widths = np.fromiter(map(len, profiles), np.int64, len(profiles))
        flat = np.fromiter(chain.from_iterable(profiles), np.int64, int(widths.sum()))
        starts = np.cumsum(widths) - widths
        self.count, self.cell = read_only(counts), read_only(cells)
        self.kind: IntArray = read_only(flat[starts])
        self.interacted: IntArray = read_only(flat[starts + 1])
        self.length: IntArray = read_only(flat[starts + 2])
        places = np.ones(flat.size, np.bool_)
        for each in range(_HEAD):
            places[starts + each] = False
        self.rank: IntArray = read_only(flat[places] + 1)
        self.owner, self.ordinal = map(read_only, _ragged(widths - _HEAD))

    @classmethod
    def of_hits(
        cls,
        cell: IntArray,
        kind: IntArray,
        interacted: IntArray,
        length: IntArray,
        owner: IntArray,
        rank: IntArray,
    ) -> Lists:
        """Lists that occurred once each, from the rank of each hit and the index of its list."""
        lists = cls.__new__(cls)
        lists.count = read_only(np.ones(length.size, np.int64))
        lists.cell, lists.kind = read_only(cell), read_only(kind)
        lists.interacted, lists.length = read_only(interacted), read_only(length)
        lists.rank = read_only(rank)
        ragged = _ragged(np.bincount(owner, minlength=length.size))
        lists.owner, lists.ordinal = map(read_only, ragged)
        return lists

    @cached_property
    def gain(self) -> FloatArray:
        """Gain of each hit; 1 without gains."""
        return read_only(np.ones(self.rank.size))

    @cached_property
    def _ideal(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Relevant items in ideal order: list, rank from 1, and gain of each."""
        owner, rank = _ragged(self.interacted)
        return owner, rank, np.ones(rank.size)

    def counted(self, counts: IntArray, cell: int) -> Self:
        """The same lists, with these counts in one cell."""
        twin = copy(self)
        twin.count, twin.cell = read_only(counts), read_only(np.full_like(counts, cell))
        return twin

    def __len__(self) -> int:
        return int(self.count.size)

    def items(self, k: int | None) -> IntArray:
        """Number of items of each list up to rank k, shape (n,)."""
        return self.length.copy() if k is None else np.minimum(self.length, k)

    def wanted(self) -> IntArray:
        """Number of items interacted with, shape (n,)."""
        return self.interacted.copy()

    def best(self, k: int | None) -> HitCells:
        """The hits of the ideal order: the relevant items by descending gain, up to rank k."""
        owners, ranks, gains = self._ideal
        here = up_to(ranks, k)
        owner, rank = owners[here], ranks[here]
        return HitCells(
            rank=rank,
            hits=np.ones_like(rank),
            ordinals=rank,
            size=self.interacted[owner],
            gain=gains[here],
            owner=owner,
            lists=len(self),
        )

    def cells_by(self, size: int, k: int | None) -> HitCells:
        """See `HitsView`."""
        here = up_to(self.rank, k)
        if size == FIRST:
            here &= self.ordinal == 1
        owner = self.owner[here]
        return HitCells(
            rank=self.rank[here],
            hits=np.ones(owner.size, np.int64),
            ordinals=self.ordinal[here],
            size=self._size(size)[owner],
            gain=self.gain[here],
            owner=owner,
            lists=len(self),
        )

    def _size(self, size: int) -> IntArray:
        if size == FIRST:
            return np.ones_like(self.length)
        if size == IDEAL:
            return np.minimum(self.interacted, self.length)
        return self.interacted if size == INTERACTED else self.length


class GradedLists(Lists):
    """Distinct lists whose interactions have gains."""

    def __init__(
        self, profiles: Sequence[GradedProfile], counts: IntArray, cells: IntArray
    ) -> None:
        super().__init__([profile for profile, _, _ in profiles], counts, cells)
        gains = chain.from_iterable(gains for _, gains, _ in profiles)
        ideals = [ideal for _, _, ideal in profiles]
        self.gain = read_only(np.fromiter(gains, np.float64, self.rank.size))
        owner, rank = _ragged(np.fromiter(map(len, ideals), np.int64, len(ideals)))
        self._ideal = owner, rank, np.fromiter(chain.from_iterable(ideals), np.float64, owner.size)


class Outcomes(Codes[Outcome]):
    """The codes of outcomes, and the lists that have them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        super().__init__()
        self._known: tuple[int, list[tuple[IntArray, Lists]]] = (0, [])

    def lists(self) -> list[tuple[IntArray, Lists]]:
        """Codes and their lists, separately for lists without and with gains."""
        if self._known[0] != len(self):
            every = np.arange(len(self))
            self._known = len(self), [*self._made(np.zeros_like(every), every, np.ones_like(every))]
        return self._known[1]

    def counted(self, cells: IntArray, codes: IntArray) -> Iterator[Lists]:
        """The distinct lists of each cell."""
        known, place = placed(cells)
        (place, code), (count,) = grouped([place, codes], [np.ones_like(codes)])
        if known.size == 1 and code.size == len(self):
            for own, lists in self.lists():
                yield lists.counted(count[own], int(known[0]))
            return
        for _, lists in self._made(known[place], code, count):
            yield lists

    def _made(
        self, cells: IntArray, codes: IntArray, counts: IntArray
    ) -> Iterator[tuple[IntArray, Lists]]:
        names = [self.names[code] for code in codes.tolist()]
        return ((codes[rows], lists) for rows, lists in lists_of(names, counts, cells))


def lists_of(
    outcomes: Sequence[Any], counts: IntArray, cells: IntArray
) -> Iterator[tuple[IntArray, Lists]]:
    """Lists with these outcomes, counts and cells, separately without and with gains.

    Yields:
        The indices of the outcomes, and their lists.
    """
    graded = np.fromiter((isinstance(each[0], tuple) for each in outcomes), np.bool_, len(outcomes))
    for kind, rows in ((Lists, np.flatnonzero(~graded)), (GradedLists, np.flatnonzero(graded))):
        if rows.size:
            whole = rows.size == len(outcomes)
            own = outcomes if whole else [outcomes[row] for row in rows.tolist()]
            yield rows, kind(own, counts[rows], cells[rows])


def _ragged(widths: IntArray) -> tuple[IntArray, IntArray]:
    """For rows of these widths, the row of each entry, and its place in the row from 1."""
    owner = np.repeat(np.arange(widths.size), widths)
    starts = np.cumsum(widths) - widths
    return owner, np.arange(owner.size) - starts[owner] + 1
