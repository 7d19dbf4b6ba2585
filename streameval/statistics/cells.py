"""A sparse table of integers: the form in which statistics remember."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import IntArray, grouped
from streameval.statistics.packing import array_of, columns_of, integers, packed


class Cells:
    """Integer key columns -> integer count columns, without zeros, in ascending order.

    Example:
        >>> cells = Cells(keys=1, counts=1)
        >>> cells.add([np.array([3, 3, 1])], [np.array([1, 1, 5])])
        >>> cells.rows()
        [[1, 5], [3, 2]]
    """

    __slots__ = ("counts", "keys")

    def __init__(self, *, keys: int, counts: int) -> None:
        self.keys = [np.zeros(0, np.int64) for _ in range(keys)]
        self.counts = [np.zeros(0, np.int64) for _ in range(counts)]

    def add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add counts (shape (n,) each) at keys (shape (n,) each); keys may repeat."""
        if keys[0].size:
            self._absorb(*grouped(list(keys), list(counts)))

    def merge(self, other: Cells) -> None:
        """Add another table of the same shape, cell by cell."""
        if not len(self):
            # Columns are replaced and never changed, so that both may have the same ones.
            self.keys, self.counts = other.keys, other.counts
        elif all(map(np.array_equal, self.keys, other.keys)):
            # Tables of many lists have all cells that there can be.
            self.counts = list(map(np.add, self.counts, other.counts))
        elif len(other):
            self._absorb(other.keys, other.counts)

    def rows(self) -> list[list[int]]:
        """Each cell as [keys..., counts...], in ascending order of the keys."""
        columns = [column.tolist() for column in (*self.keys, *self.counts)]
        return [list(row) for row in zip(*columns, strict=True)]

    def load(self, rows: Sequence[Sequence[int]]) -> None:
        """Take the place of the content by what `rows` gave."""
        table = np.array(rows, np.int64).reshape(len(rows), len(self.keys) + len(self.counts))
        columns = [np.ascontiguousarray(column) for column in table.T]
        self.keys = columns[: len(self.keys)]
        self.counts = columns[len(self.keys) :]

    def copy(self) -> Cells:
        """An independent table with the same content."""
        # Columns are replaced and never changed, so that both may have the same ones.
        twin = Cells(keys=0, counts=0)
        twin.keys, twin.counts = self.keys, self.counts
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
        columns = columns_of(saved, columns=len(self.keys) + len(self.counts))
        self.keys, self.counts = columns[: len(self.keys)], columns[len(self.keys) :]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def __len__(self) -> int:
        return int(self.keys[0].size)

    def _absorb(self, keys: list[IntArray], counts: list[IntArray]) -> None:
        self.keys, self.counts = grouped(
            [np.concatenate(pair) for pair in zip(self.keys, keys, strict=True)],
            [np.concatenate(pair) for pair in zip(self.counts, counts, strict=True)],
        )
