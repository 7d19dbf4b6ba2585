"""A sparse table of integers: the form in which statistics remember."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import IntArray, grouped
from streameval.statistics.packing import array_of, columns_of, integers, packed

Part: TypeAlias = tuple[list[IntArray], list[IntArray]]
"""Columns of keys and of counts, never changed, so that several tables may have the same."""

_MOST_WAITING: Final = 64
"""So many cells may wait in any case: moving them costs less than the call that moves them."""


class Cells:
    """Integer key columns -> integer count columns, without zeros, in ascending order.

    Small parts are only noted, and put together when they are read or have become much: a window
    is merged of hundreds of small tables.

    Example:
        >>> cells = Cells(keys=1, counts=1)
        >>> cells.add([np.array([3, 3, 1])], [np.array([1, 1, 5])])
        >>> cells.rows()
        [[1, 5], [3, 2]]
    """

    __slots__ = ("_parts", "_shape", "_size")

    def __init__(self, *, keys: int, counts: int) -> None:
        self._shape = keys, counts
        self._parts: list[Part] = []
        self._size = 0

    @property
    def keys(self) -> list[IntArray]:
        """Columns of shape (n,), to be read only."""
        return self._whole()[0]

    @property
    def counts(self) -> list[IntArray]:
        """Columns of shape (n,), to be read only."""
        return self._whole()[1]

    def add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add counts (shape (n,) each) at keys (shape (n,) each); keys may repeat."""
        self._take(*grouped(list(keys), list(counts)))

    def merge(self, other: Cells) -> None:
        """Add another table of the same shape, cell by cell."""
        if other._size > _MOST_WAITING:
            other._whole()
        self._note(other._parts, other._size)

    def rows(self) -> list[list[int]]:
        """Each cell as [keys..., counts...], in ascending order of the keys."""
        columns = [column.tolist() for column in (*self.keys, *self.counts)]
        return [list(row) for row in zip(*columns, strict=True)]

    def load(self, rows: Sequence[Sequence[int]]) -> None:
        """Take the place of the content by what `rows` gave."""
        table = np.array(rows, np.int64).reshape(len(rows), sum(self._shape))
        self._become([np.ascontiguousarray(column) for column in table.T])

    def copy(self) -> Cells:
        """An independent table with the same content."""
        twin = object.__new__(Cells)
        twin._shape, twin._size, twin._parts = self._shape, self._size, self._parts.copy()
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        columns = (*self.keys, *self.counts)
        yield array_of(len(columns))
        for column in columns:
            yield packed(integers(column))

    def adopt(self, saved: Sequence[Ext]) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
        """
        self._become(columns_of(saved, columns=sum(self._shape)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def __len__(self) -> int:
        return int(self.keys[0].size)

    def _become(self, columns: list[IntArray]) -> None:
        self._parts, self._size = [], 0
        self._take(columns[: self._shape[0]], columns[self._shape[0] :])

    def _take(self, keys: list[IntArray], counts: list[IntArray]) -> None:
        if keys[0].size:
            self._note([(keys, counts)], keys[0].size)

    def _note(self, parts: Sequence[Part], size: int) -> None:
        if not size:
            return
        self._parts += parts
        self._size += size
        first = self._parts[0][0][0].size
        # A share of the whole, so that a cell is moved a few times however many parts come.
        if self._size - first > max(first // 4, _MOST_WAITING):
            self._whole()

    def _whole(self) -> Part:
        if not self._parts:
            keys, counts = self._shape
            nothing = np.zeros(0, np.int64)
            return [nothing] * keys, [nothing] * counts
        if len(self._parts) > 1:
            self._parts = [_together(self._parts)]
            self._size = self._parts[0][0][0].size
        return self._parts[0]


def _together(parts: Sequence[Part]) -> Part:
    (first, _), *others = parts
    large = first[0].size > _MOST_WAITING
    if large and all(all(map(np.array_equal, first, keys)) for keys, _ in others):
        # Tables of many lists have all cells that there can be.
        return first, [sum(columns[1:], columns[0]) for columns in _side_by_side(parts, 1)]
    keys, counts = ([np.concatenate(each) for each in _side_by_side(parts, at)] for at in (0, 1))
    return grouped(keys, counts)


def _side_by_side(parts: Sequence[Part], at: int) -> list[tuple[IntArray, ...]]:
    return list(zip(*(part[at] for part in parts), strict=True))
