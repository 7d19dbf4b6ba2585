"""Distinct users of each cell, as hashes; above a cap, a sample of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Id
from streameval.events.saved_states import unlike
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, distinct
from streameval.statistics.limits import MOST_USERS
from streameval.statistics.relation import Shape
from streameval.statistics.sampling import HALVINGS, HashSample
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items

HashArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]

HashUsers: TypeAlias = Callable[[Sequence[Id]], HashArray]

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xD6E8FEB86659FD93)
_FINISH: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(33)
_WORD: Final = 8


def user_hashes(users: Sequence[Id]) -> HashArray:
    """Hashes of user ids, shape (users,); the same on every machine and in every release.

    The input is the UTF-8 text of the id. An integer is hashed as its decimal text, so that 7 and
    "7" are one user, whichever decoder read the id. The text is read as little-endian 64-bit words,
    padded with zeros; each word is mixed in by a multiplication and a shift, and the finaliser of
    MurmurHash3 (Appleby, 2011) comes last.

    Example:
        >>> [hex(each) for each in user_hashes(["7", 7]).tolist()]
        ['0x55af9f64b44494bc', '0x55af9f64b44494bc']
    """
    ids = id_bytes(users)
    lengths = ids.lengths
    hashes = _SEED ^ (lengths.astype(np.uint64) * _STEP)
    shortest = int(lengths.min(initial=0 if not lengths.size else lengths[0]))
    for offset in range(0, int(lengths.max(initial=0)), _WORD):
        rows = slice(None) if shortest > offset else np.flatnonzero(lengths > offset)
        mixed = ids.words(rows, offset, whole=shortest >= offset + _WORD)
        mixed ^= hashes[rows]
        mixed *= _STEP
        hashes[rows] = mixed ^ (mixed >> _HALF)
    for factor in _FINISH:
        hashes ^= hashes >> _SHIFT
        hashes *= factor
    hashes ^= hashes >> _SHIFT
    return hashes


def user_groups(hashes: HashArray, groups: int) -> IntArray:
    """The user group of each hash: its lower bits, as `groups` is a power of 2."""
    return (hashes & np.uint64(groups - 1)).astype(np.int64)


def hash_units(codes: IntArray) -> FloatArray:
    """The upper 53 bits of hashes, given as signed integers, as exact floats in [0, 1)."""
    hashes = np.ascontiguousarray(codes, np.int64).view(np.uint64)
    return np.ldexp((hashes >> np.uint64(11)).astype(np.float64), -53)


class IdBytes(NamedTuple):
    """Ids in UTF-8, for hashes that read 64-bit words of many at once.

    Attributes:
        data: all ids, each followed by a zero byte, and more zeros.
        starts: the first byte of each id; shape (ids,).
        lengths: in bytes; shape (ids,).
    """

    data: bytes
    starts: IntArray
    lengths: IntArray

    def words(self, rows: Any, offset: int, *, whole: bool = False) -> HashArray:
        """The little-endian word at an offset in each of these ids, padded with zeros.

        `whole`: whether no id ends in the word.
        """
        every = np.ndarray(len(self.data) - _WORD + 1, "<u8", self.data, strides=(1,))
        words: HashArray = every[self.starts[rows] + offset]
        if not whole:
            words &= _MASKS[np.minimum(self.lengths[rows] - offset, _WORD)]
        return words


def id_bytes(users: Sequence[Id]) -> IdBytes:
    """The bytes of ids; an integer is its decimal text."""
    try:
        joined = "\0".join(users)  # type: ignore[arg-type]  # raises for integers
    except TypeError:
        return id_bytes(list(map(str, users)))
    data = joined.encode("utf-8", "surrogatepass") + bytes(_WORD)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8, len(data) - _WORD + 1) == 0)
    if ends.size != len(users):
        # An id contains a zero byte, so lengths must be counted one by one.
        parts = [str(user).encode("utf-8", "surrogatepass") for user in users]
        ends = np.cumsum([len(part) + 1 for part in parts], dtype=np.int64) - 1
    starts = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    return IdBytes(data, starts, ends - starts)


_MASKS: Final = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], np.uint64)


_HASHES: Final = 1 << 64
_FEW: Final = 32


class ListUsers(NamedTuple):
    """Users and days of lists, shape (lists,) each.

    Attributes:
        hashes: hash of the user, or of the event's id if the user is unknown.
        named: whether the user is known.
        grouped: whether there is a hash.
        days: days since the epoch; 0 without event time.
    """

    cells: IntArray
    hashes: HashArray
    named: BoolArray
    grouped: BoolArray
    days: IntArray


def users_of(
    batch: Batch, cells: IntArray, days: IntArray | None, hashes_of: HashUsers = user_hashes
) -> ListUsers:
    """The users of the lists of a batch.

    Args:
        batch: the lists.
        cells: the cell of each.
        days: day of each, since the epoch; None without event time.
        hashes_of: hashes ids; with a key, that of the key.
    """
    days = np.zeros(len(batch), np.int64) if days is None else days
    if batch.users is None and batch.event_ids is None:
        hashes, nobody = np.repeat(hashes_of([""]), len(batch)), np.zeros(len(batch), np.bool_)
        return ListUsers(cells, hashes, named=nobody, grouped=nobody, days=days)
    ids: Sequence[Any] = batch.users or [None] * len(batch)
    named = grouped = np.ones(len(batch), np.bool_)
    if None in ids:
        named = np.array([user is not None for user in ids])
        pairs = zip(ids, batch.event_ids or repeat(None), strict=False)
        ids = [event if user is None else user for user, event in pairs]
        grouped = np.array([user_or_event is not None for user_or_event in ids])
        ids = ["" if user_or_event is None else user_or_event for user_or_event in ids]
    return ListUsers(cells, hashes_of(ids), named, grouped, days)


def times_of(batch: Batch) -> IntArray | None:
    """Event time of each list, 0 for those without; None if no list has one."""
    if batch.times is None:
        return None
    try:
        return np.array(batch.times, np.int64)
    except TypeError:
        return np.array([at or 0 for at in batch.times], np.int64)


class UserSample(NamedTuple):
    """Users of one cell.

    Attributes:
        hashes: of the users, ascending.
        first: day of the first list of each, since the epoch.
        last: day of the last list of each.
        threshold: all users with a smaller hash are in the sample; 2^64 if it has all users.
    """

    hashes: HashArray
    first: IntArray
    last: IntArray
    threshold: int


class UsersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of users; only equal options merge.

    Attributes:
        max_users: largest number of users kept per cell.
    """

    max_users: int = MOST_USERS


class Users(Statistic):
    """The distinct users of each cell with their days; above a cap, those with small hashes.

    A set cannot be subtracted, because it does not know how often a user came.

    Relations:
        users: (cell, hash) -> minus the first day, and the last day; the hash is a signed integer
            with the same bits. Both counts combine by the maximum.
        halvings: see `HashSample`.

    Example:
        >>> users = Users(UsersOptions(), Items())
        >>> users.add(np.array([0, 0, 0]), user_hashes(["u", "u", "v"]), np.array([7, 9, 8]))
        >>> found, = users.view(np.array([0]))
        >>> sorted(zip(found.first.tolist(), found.last.tolist()))
        [(7, 9), (8, 8)]
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "users": Shape(keys=2, counts=2, combine=np.maximum),
        "halvings": HALVINGS,
    }
    options: UsersOptions
    cap: HashSample

    def __init__(self, options: UsersOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = HashSample(
            self.relations, "users", options.max_users, hash_units, adds_only_sampled=True
        )

    @property
    def reduced(self) -> bool:
        """True if there is any user, because a set cannot be subtracted."""
        return self.relations["users"].size > 0

    def add(self, cells: IntArray, hashes: HashArray, days: IntArray) -> None:
        """Add users, by the hashes of their ids, who came to cells on days."""
        codes = hashes.view(np.int64)
        if self.cap.reduced:
            is_sampled = self.cap.keeps(cells, codes)
            cells, codes, days = cells[is_sampled], codes[is_sampled], days[is_sampled]
        cells, codes, days = _without_repeats(cells, codes, days)
        self.relations["users"].add([cells, codes], [-days, days])
        self.reduce()

    def merge(self, *others: Self) -> None:
        """Add the users of others; users whose days are known do not change the version."""
        for other in others:
            if other.options != self.options:
                raise unlike("users", self.options, other.options)
            other_marks, marks = (statistic.relations["halvings"] for statistic in (other, self))
            cells = other.cells
            halvings = other_marks.value(cells)
            more = halvings > marks.value(cells)
            if more.any():
                marks.add([cells[more]], [halvings[more]])
            cell_index, columns = other.relations["users"].of(cells)
            codes, *days = columns
            new = self.cap.unit_hashes(codes) < np.ldexp(1.0, -marks.value(cells))[cell_index]
            for at, cell in enumerate(cells.tolist()):
                start, stop = np.searchsorted(cell_index, (at, at + 1))
                rows = [column[start:stop] for column in columns]
                for part in self.relations["users"].parts_of(cell):
                    new[start:stop] &= ~_within(rows, part)
            self.relations["users"].add(
                [cells[cell_index][new], codes[new]], [day[new] for day in days]
            )
            self.reduce()

    def view(self, cells: IntArray) -> list[UserSample]:
        """The users of each of these cells."""
        self.reduce()
        columns, samples = self.relations["users"].columns, []
        halvings = self.relations["halvings"].value(cells).tolist()
        for cell, halved in zip(cells.tolist(), halvings, strict=True):
            rows_of_cell = slice(bisect_left(columns[0], cell), bisect_right(columns[0], cell))
            of_cell = [column[rows_of_cell] for column in columns[1:]]
            # Rows ascend by signed integers with the bits of the hashes.
            negative = bisect_left(of_cell[0], 0)
            codes, newest, last = (
                np.concatenate((column[negative:], column[:negative])).astype(np.int64)
                for column in of_cell
            )
            samples.append(UserSample(codes.view(np.uint64), -newest, last, _HASHES >> halved))
        return samples


def _without_repeats(
    cells: IntArray, codes: IntArray, days: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct rows if there are few cells and days, where a sort of each is fastest."""
    named_cells, named_days = distinct(cells), distinct(days)
    if named_cells.size * named_days.size > _FEW:
        return cells, codes, days
    pairs = [(cell, day) for cell in named_cells.tolist() for day in named_days.tolist()]
    parts = [distinct(codes[(cells == cell) & (days == day)]) for cell, day in pairs]
    sizes = [part.size for part in parts]
    pair_columns = np.array(pairs, np.int64).reshape(-1, 2)
    codes = np.concatenate([np.zeros(0, np.int64), *parts])
    return np.repeat(pair_columns[:, 0], sizes), codes, np.repeat(pair_columns[:, 1], sizes)


def _within(rows: Sequence[IntArray], sample: Sequence[IntArray]) -> BoolArray:
    """Which rows of (hash, days...) have a known hash with days that are as large."""
    codes, *days = rows
    at = np.minimum(np.searchsorted(sample[0], codes), sample[0].size - 1)
    is_inside: BoolArray = np.asarray(sample[0][at] == codes)
    for column, sampled in zip(days, sample[1:], strict=True):
        is_inside &= column <= sampled[at]
    return is_inside
