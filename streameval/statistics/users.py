"""Who saw the lists of a cell: a sample of hashes of users, and how many lists name nobody."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise, repeat
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from streameval.columns import Coded
from streameval.events import Batch
from streameval.intervals import Audience
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, sums
from streameval.statistics.relation import Shape
from streameval.statistics.sampling import HALVINGS, Sampled
from streameval.statistics.statistic import Cells
from streameval.statistics.userhash import HashArray, user_hashes
from streameval.statistics.vocabulary import Items

MOST_USERS: Final = 16_384
_DAY: Final = 86_400 * 1_000_000
_NAMED, _ANONYMOUS = range(2)
_HASHES: Final = 1 << 64


class UsersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a statistic of users; unlike ones do not merge.

    Attributes:
        max_users: most users of a cell that are kept.
    """

    max_users: int = MOST_USERS


class Seen(NamedTuple):
    """Who saw lists, and when; shape (lists,) each.

    Attributes:
        cells: where each is counted.
        hashes: of the user; of the event's id where no user is named.
        named: whether a user is named.
        grouped: whether there is a hash at all.
        days: days since the epoch; 0 without event time.
    """

    cells: IntArray
    hashes: HashArray
    named: BoolArray
    grouped: BoolArray
    days: IntArray


class Users(Sampled):
    """The distinct users of each cell; above a number of them those with a small hash.

    Relations:
        users: (cell, hash) -> lists; the hash as a signed integer of the same bits.
        lists: (cell, 1 where the list names no user) -> lists.
        halvings: as of `Sampled`.

    Args:
        options: its identity.
        items: not used.

    Attributes:
        waiting: lists that are pending.

    Example:
        >>> users = Users(UsersOptions(), Items())
        >>> lists = [["a"], ["b"], ["a"]]
        >>> users.take(Batch(recommendations=lists, interactions=lists, users=["u", "u", None]), 0)
        >>> found, = users.view(np.array([0]))
        >>> found.users, found.lists, found.anonymous
        (1.0, 3, 1)
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
        self.waiting = 0
        self._taken: list[tuple[Any, ...]] = []
        self._seen: list[Seen] = []

    @property
    def most(self) -> int:
        """Users that a cell may have."""
        return self.options.max_users

    def places(self, codes: IntArray) -> FloatArray:
        """The place of users among all hashes, from 0 up to 1; exact, for it is of 53 bits."""
        hashes = np.ascontiguousarray(codes, np.int64).view(np.uint64)
        return np.ldexp((hashes >> np.uint64(11)).astype(np.float64), -53)

    def take(self, batch: Batch | Coded, cells: Cells) -> None:
        """Count who saw lists, later: many users are hashed at once."""
        columns = (batch.users, batch.event_ids, batch.times)
        where = np.full(len(batch), cells, np.int64)
        self._taken.append((where, *(None if each is None else [*each] for each in columns)))
        self.waiting += len(batch)

    def fold(self) -> None:
        """Move what is pending into the relations, and thin what has become too much."""
        if self.waiting:
            seen = _seen(self._taken)
            self._taken, self.waiting = [], 0
            self._seen.append(seen)
            self._add(seen.cells, seen.hashes.view(np.int64), seen.named)
        super().fold()

    def seen(self) -> list[Seen]:
        """Who saw the lists that were taken since the last time, in their order."""
        self.fold()
        seen, self._seen = self._seen, []
        return seen

    def _add(self, cells: IntArray, hashes: IntArray, named: BoolArray) -> None:
        ones = np.ones_like(cells)
        self.relations["lists"].add([cells, np.where(named, _NAMED, _ANONYMOUS)], [ones])
        limits = np.ldexp(1.0, -self.relations["halvings"].value(cells))
        kept = named & (self.places(hashes) < limits)
        cells, hashes = cells[kept], hashes[kept]
        if cells.size and (cells == cells[0]).all():
            # As it mostly is: one column is sorted sooner than two.
            known, lists = np.unique(hashes, return_counts=True)
            self.relations["users"].add([np.full_like(known, cells[0]), known], [lists])
        else:
            self.relations["users"].add([cells, hashes], [ones[kept]])

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


def _seen(taken: Sequence[tuple[Any, ...]]) -> Seen:
    """Of batches, each as cells, users, ids of events and their times."""
    cells = np.concatenate([where for where, *_ in taken])
    lengths = [len(where) for where, *_ in taken]
    users, events, times = (
        _joined([each[column] for each in taken], lengths) for column in (1, 2, 3)
    )
    days = np.zeros(cells.size, np.int64)
    if times is not None:
        days = np.array([at or 0 for at in times], np.int64) // _DAY
    named = grouped = np.full(cells.size, users is not None)
    known = users or [None] * cells.size
    if type(None) in set(map(type, known)):
        named = np.array([user is not None for user in known])
        both = zip(known, events or known, strict=True)
        known = [event if user is None else user for user, event in both]
        grouped = np.array([each is not None for each in known])
        known = ["" if each is None else each for each in known]
    return Seen(cells, user_hashes(known), named, grouped, days)


def _joined(columns: Sequence[Sequence[Any] | None], lengths: Sequence[int]) -> list[Any] | None:
    if all(column is None for column in columns):
        return None
    pairs = zip(columns, lengths, strict=True)
    return [*chain.from_iterable(repeat(None, n) if own is None else own for own, n in pairs)]
