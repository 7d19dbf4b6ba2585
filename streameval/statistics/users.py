"""Who saw the lists of a cell: a sample of hashes of users, and how many lists name nobody."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Final

import msgspec
import numpy as np

from streameval.intervals import Audience
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, sums
from streameval.statistics.relation import Shape
from streameval.statistics.sampling import HALVINGS, Sampled
from streameval.statistics.statistic import Cells
from streameval.statistics.userhash import HashArray
from streameval.statistics.vocabulary import Items

MOST_USERS: Final = 16_384
_MOST_WAITING: Final = 65_536
_NAMED, _ANONYMOUS = range(2)
_HASHES: Final = 1 << 64


class UsersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a statistic of users; unlike ones do not merge.

    Attributes:
        max_users: most users of a cell that are kept.
    """

    max_users: int = MOST_USERS


class Users(Sampled):
    """The distinct users of each cell; above a number of them those with a small hash.

    Relations:
        users: (cell, hash) -> lists; the hash as a signed integer of the same bits.
        lists: (cell, 1 where the list names no user) -> lists.
        halvings: as of `Sampled`.

    Args:
        options: its identity.
        items: not used.

    Example:
        >>> users = Users(UsersOptions(), Items())
        >>> users.add(0, np.array([5, 5, 9], np.uint64), np.array([True, True, False]))
        >>> found, = users.view(np.array([0]))
        >>> found.hashes.tolist(), found.lists, found.anonymous
        ([5], 3, 1)
    """

    shapes: ClassVar[dict[str, Shape]] = {
        "users": Shape(keys=2),
        "lists": Shape(keys=2),
        "halvings": HALVINGS,
    }
    rows = "users"
    options: UsersOptions

    def __init__(self, options: UsersOptions, items: Items) -> None:
        super().__init__(options, items)
        self._where: list[tuple[IntArray, IntArray, BoolArray]] = []
        self._waiting = 0

    @property
    def most(self) -> int:
        """Users that a cell may have."""
        return self.options.max_users

    def places(self, codes: IntArray) -> FloatArray:
        """The place of users among all hashes, from 0 up to 1; exact, for it is of 53 bits."""
        hashes = np.ascontiguousarray(codes, np.int64).view(np.uint64)
        return np.ldexp((hashes >> np.uint64(11)).astype(np.float64), -53)

    def add(self, cells: Cells, hashes: HashArray, named: BoolArray) -> None:
        """Count lists.

        Args:
            cells: where each is counted.
            hashes: of their users; shape (lists,).
            named: which of the lists name their user; shape (lists,).
        """
        where = np.broadcast_to(np.asarray(cells, np.int64), hashes.shape)
        self._where.append((where, hashes.view(np.int64), named))
        self._waiting += hashes.size
        if self._waiting >= _MOST_WAITING:
            self.fold()

    def fold(self) -> None:
        """Move what is pending into the relations, and thin what has become too much."""
        if self._waiting:
            cells, hashes, named = map(np.concatenate, zip(*self._where, strict=True))
            self._where, self._waiting = [], 0
            ones = np.ones_like(cells)
            self.relations["lists"].add([cells, np.where(named, _NAMED, _ANONYMOUS)], [ones])
            limits = np.ldexp(1.0, -self.relations["halvings"].value(cells))
            kept = named & (self.places(hashes) < limits)
            self.relations["users"].add([cells[kept], hashes[kept]], [ones[kept]])
        super().fold()

    def view(self, cells: IntArray) -> list[Audience]:
        """The users of each of these cells."""
        self.fold()
        owner, (kind, lists) = self.relations["lists"].of(cells)
        everything = sums(owner, lists, cells.size).tolist()
        anonymous = sums(owner, lists * (kind == _ANONYMOUS), cells.size).tolist()
        owner, (hashes, _) = self.relations["users"].of(cells)
        edges = pairwise(np.searchsorted(owner, np.arange(cells.size + 1)).tolist())
        halvings = self.relations["halvings"].value(cells).tolist()
        return [
            Audience(
                hashes=np.sort(hashes[start:stop].view(np.uint64)),
                threshold=_HASHES >> halvings[place],
                lists=everything[place],
                anonymous=anonymous[place],
            )
            for place, (start, stop) in enumerate(edges)
        ]
