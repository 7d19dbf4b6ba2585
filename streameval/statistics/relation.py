"""Relations of integers, (cell, key columns...) -> counts: the state of every statistic."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import BoolArray, IntArray, among, distinct, group_sum, narrow

RelationColumns: TypeAlias = list[IntArray]
"""Key columns, then count columns; immutable, so that relations may share them."""

_MOST_WAITING: Final = 1_024
"""Rows that may always wait, because joining so few costs less than the numpy calls."""

_MOST_PARTS: Final = 32
"""Parts that are read one by one; more are joined first."""

_MOST_KEPT: Final = 64
"""Parts that are kept: each is an array for every column, and short ones take memory, too."""

_VERSIONS: Final = itertools.count(1)


def next_version() -> int:
    """A number above all earlier ones of this process."""
    return next(_VERSIONS)


def _are_integers(columns: Sequence[IntArray]) -> bool:
    """True if all are integers of one length; floats would be cut to integers."""
    length = len(columns[0])
    return all(column.dtype.kind in "iub" and column.shape == (length,) for column in columns)


class Shape(NamedTuple):
    """The columns of a relation.

    Attributes:
        keys: number of key columns, including the cell.
        counts: number of count columns.
        items: index of the key column with item codes, at most one; None if there is none. Other
            ids, such as pairs of items, need a hash that is equal on every machine.
        combine: how counts of equal keys combine: sum or maximum.
    """

    keys: int
    counts: int = 1
    items: int | None = None
    combine: np.ufunc = np.add


class Relation:
    """Distinct keys, ascending, with their counts, as columns of the narrowest types.

    The first key column is the cell. Rows are kept in parts, which are joined when the rows are
    read or the parts become large: a window is the sum of hundreds of small relations.

    Attributes:
        size: number of rows; before parts are joined, keys may repeat.
        version: increases with every change.

    Example:
        >>> relation = Relation(Shape(keys=2))
        >>> relation.add([np.array([0, 0, 0]), np.array([3, 3, 1])], [np.array([1, 1, 5])])
        >>> relation.rows()
        [[0, 1, 5], [0, 3, 2]]
    """

    __slots__ = ("_parts", "shape", "size", "version")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.size = self.version = 0
        self._parts: list[RelationColumns] = []

    @property
    def columns(self) -> RelationColumns:
        """Keys and counts, each of shape (n,) and any integer type; read only."""
        if not self._parts:
            return [np.zeros(0, np.int64)] * (self.shape.keys + self.shape.counts)
        if len(self._parts) > 1:
            version = self.version
            self.replace([np.concatenate(parts) for parts in zip(*self._parts, strict=True)])
            self.version = version
        return self._parts[0]

    @property
    def parts(self) -> Sequence[RelationColumns]:
        """The rows in parts, each with distinct ascending keys; read only."""
        return self._parts

    @property
    def cells(self) -> IntArray:
        """The cells that have rows, ascending."""
        return distinct(self.columns[0]).astype(np.int64)

    def add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add counts (shape (n,) each) to keys (shape (n,) each), which may repeat.

        Raises:
            ValueError: the columns are not those of the shape, of integers and of one length.
        """
        columns, shape = [*keys, *counts], self.shape
        if (len(keys), len(counts)) != (shape.keys, shape.counts) or not _are_integers(columns):
            found = ", ".join(
                f"{column.dtype} {column.shape}" for column in map(np.asarray, columns)
            )
            raise ValueError(
                f"a relation has {shape.keys} key columns and {shape.counts} count columns, of "
                f"integers and of one length; found {len(keys)} and {len(counts)}: {found}"
            )
        if keys[0].size:
            found_keys, found_counts = group_sum(keys, counts, self.shape.combine)
            self._note([narrow([*found_keys, *found_counts])])

    def merge(self, *others: Relation) -> None:
        """Add other relations of the same shape; many at once are joined once."""
        self._note([part for other in others for part in other.parts])

    def subtract(self, other: Relation) -> None:
        """Subtract what was added before; rows whose counts are all 0 are removed."""
        columns = other.columns
        keys = self.shape.keys
        if columns[0].size:
            counts = [-column.astype(np.int64) for column in columns[keys:]]
            self._note([[*columns[:keys], *counts]])
            columns = self.columns
            left = np.logical_or.reduce([column != 0 for column in columns[keys:]])
            if not left.all():
                self.keep(left)

    def of(self, cells: IntArray) -> tuple[IntArray, RelationColumns]:
        """The rows of these cells, in the order of the cells.

        Returns:
            The index in `cells` of each row's cell, and the other columns as 64-bit integers.
        """
        columns = self.columns
        cells_of_rows = columns[0].astype(np.int64)
        starts, ends = (
            np.searchsorted(cells_of_rows, cells),
            np.searchsorted(cells_of_rows, cells, side="right"),
        )
        lengths = ends - starts
        cell_index = np.repeat(np.arange(cells.size), lengths)
        rows = np.arange(cell_index.size) + np.repeat(
            starts - (np.cumsum(lengths) - lengths), lengths
        )
        return cell_index, [column[rows].astype(np.int64) for column in columns[1:]]

    def by_cell(self, cells: IntArray) -> list[RelationColumns]:
        """The columns without the cell, for each of these cells."""
        cell_index, columns = self.of(cells)
        edges = np.searchsorted(cell_index, np.arange(cells.size + 1)).tolist()
        return [[column[start:stop] for column in columns] for start, stop in pairwise(edges)]

    def parts_of(self, cell: int) -> Iterator[RelationColumns]:
        """The rows of one cell, without the cell, in parts with distinct keys; not copied."""
        if len(self._parts) > _MOST_PARTS:
            _ = self.columns
        for columns in self._parts:
            start, stop = (bisect(columns[0], cell) for bisect in (bisect_left, bisect_right))
            if start < stop:
                yield [column[start:stop] for column in columns[1:]]

    def value(self, cells: IntArray) -> IntArray:
        """The count of each of these cells, if the cell is the only key; 0 without a row."""
        cells_here, counts = self.columns
        if not cells_here.size:
            return np.zeros(cells.size, np.int64)
        at = np.minimum(np.searchsorted(cells_here, cells), cells_here.size - 1)
        return np.where(cells_here[at] == cells, counts[at], 0).astype(np.int64)

    def like(self, columns: Sequence[IntArray]) -> Relation:
        """A relation of the same shape with these rows; keys may repeat, in any order."""
        relation = Relation(self.shape)
        relation.add(columns[: self.shape.keys], columns[self.shape.keys :])
        return relation

    def mapped(self, column: int, table: IntArray) -> Relation:
        """A copy with the codes of a key column replaced by table[code]."""
        columns = [*self.columns]
        if columns[0].size:
            columns[column] = table[columns[column]]
        return self.like(columns)

    def renamed(self, names: Mapping[int, int]) -> Relation:
        """A copy with cells renumbered; cells that are not in `names` keep their number."""
        columns = [*self.columns]
        old = np.array(sorted(names), np.int64)
        moved = among(columns[0], old)
        if not moved.any():
            return self.copy()
        new = np.array([names[cell] for cell in old.tolist()], np.int64)
        cells = columns[0].astype(np.int64)
        cells[moved] = new[np.searchsorted(old, cells[moved])]
        return self.like([cells, *columns[1:]])

    def selected(self, cells: IntArray) -> Relation:
        """The rows of these cells, which ascend."""
        rows = among(self.columns[0], cells)
        return self.like([column[rows] for column in self.columns])

    def split(self, bits: int) -> Iterator[tuple[int, Relation]]:
        """The rows of each value of the upper bits of cells, with the lower bits as the cell."""
        columns = self.columns
        if not columns[0].size:
            return
        cells = columns[0].astype(np.int64)
        upper, lower = cells >> bits, narrow([cells & ((1 << bits) - 1)])
        edges = [0, *(np.flatnonzero(upper[1:] != upper[:-1]) + 1).tolist(), cells.size]
        for start, stop in pairwise(edges):
            part = Relation(self.shape)
            # The rows already ascend. Copy them, because a view would keep all other rows alive.
            part._parts = [[column[start:stop].copy() for column in (*lower, *columns[1:])]]
            part.size = stop - start
            yield int(upper[start]), part

    def keep(self, rows: BoolArray) -> None:
        """Remove the rows where `rows` is false."""
        self.replace([column[rows] for column in self.columns])

    def replace(self, columns: Sequence[IntArray]) -> None:
        """Replace the content by these rows; keys may repeat, in any order."""
        self._parts, self.size = [], 0
        self.version += 1
        self.add(columns[: self.shape.keys], columns[self.shape.keys :])

    def load(self, columns: RelationColumns) -> None:
        """Replace the content by columns in the form of `columns`.

        Raises:
            ValueError: the columns have another shape, or do not ascend.
        """
        sizes = {column.size for column in columns}
        if len(columns) != self.shape.keys + self.shape.counts or len(sizes) > 1:
            message = f"columns of {[column.size for column in columns]} integers"
            raise ValueError(message)
        keys = columns[: self.shape.keys]
        distinct_keys, _ = group_sum(keys, [])
        if any(
            key_column is not other for key_column, other in zip(distinct_keys, keys, strict=True)
        ):
            message = "rows that do not ascend"
            raise ValueError(message)
        self._parts = [columns] if columns[0].size else []
        self.size = columns[0].size
        self.version += 1

    def saved(self, cells: IntArray, items: IntArray | None) -> list[Ext]:
        """The encoded columns of these cells; a cell is saved as its index in `cells`."""
        cells_here, *others = self.columns
        by_cell = np.argsort(cells)
        ascending = cells[by_cell]
        rows = np.flatnonzero(among(cells_here, ascending))
        numbers = by_cell[np.searchsorted(ascending, cells_here[rows])]
        # A stable sort keeps the order of the rows of one cell.
        order = np.argsort(numbers, kind="stable")
        columns = [numbers[order], *(column[rows[order]] for column in others)]
        keys = self.shape.keys
        if self.shape.items is not None and items is not None and rows.size:
            columns[self.shape.items] = items[columns[self.shape.items]]
            distinct_keys, counts = group_sum(columns[:keys], columns[keys:], self.shape.combine)
            columns = [*distinct_keys, *counts]
        return [_write(column) for column in narrow(columns)]

    def restore(self, saved: Sequence[Ext], cells: IntArray, items: IntArray) -> Relation:
        """Decode the output of `saved`.

        Raises:
            ValueError: it is not the output of `saved`.
        """
        relation = Relation(self.shape)
        relation.load([decode_column(entry) for entry in saved])
        relation = _translate(relation, 0, cells)
        column = self.shape.items
        return relation if column is None else _translate(relation, column, items)

    def rows(self) -> list[list[int]]:
        """Rows as [keys..., counts...], in ascending order of the keys."""
        columns = [column.tolist() for column in self.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def copy(self) -> Relation:
        """An independent relation with the same content."""
        duplicate = Relation(self.shape)
        duplicate._parts, duplicate.size = self._parts.copy(), self.size
        return duplicate

    def _note(self, parts: Sequence[RelationColumns]) -> None:
        size = sum(part[0].size for part in parts)
        if not size:
            return
        self._parts = [*self._parts, *parts]
        self.size += size
        self.version += 1
        first = self._parts[0][0].size
        # Join when the new rows are as many as the first part, so that a row moves about twice.
        if self.size - first > max(first, _MOST_WAITING):
            _ = self.columns
        elif len(self._parts) > _MOST_KEPT:
            self._join_shortest()

    def _join_shortest(self) -> None:
        """Join the newest parts, from the first on that is no longer than all after it.

        A row is then in a part of at least twice the length, so it moves a logarithmic number of
        times.
        """
        after, start = 0, len(self._parts)
        for index in range(len(self._parts) - 1, 0, -1):
            length = self._parts[index][0].size
            if length <= after or index == len(self._parts) - 1:
                start = index
            after += length
        keys = self.shape.keys
        columns = [np.concatenate(parts) for parts in zip(*self._parts[start:], strict=True)]
        joined_keys, counts = group_sum(columns[:keys], columns[keys:], self.shape.combine)
        before = sum(part[0].size for part in self._parts[:start])
        self._parts = [*self._parts[:start], narrow([*joined_keys, *counts])]
        self.size = before + joined_keys[0].size


def _translate(relation: Relation, column: int, table: IntArray) -> Relation:
    codes = relation.columns[column]
    if codes.size and not (int(codes.min()) >= 0 and int(codes.max()) < table.size):
        message = f"code {int(codes.max())} of only {table.size} codes"
        raise ValueError(message)
    same = (table == np.arange(table.size)).all()
    return relation if same else relation.mapped(column, table)


def encode_column(column: IntArray) -> Ext:
    """A column in its narrowest type; the extension's code is the number of bytes per integer.

    Example:
        >>> saved = encode_column(np.array([1, 300]))
        >>> saved.code, saved.data.hex()
        (2, '01002c01')
    """
    return _write(*narrow([column]))


def _write(column: IntArray) -> Ext:
    return Ext(column.itemsize, column.tobytes())


def decode_column(saved: Ext) -> IntArray:
    """Decode the output of `encode_column`; the column keeps its saved width.

    Raises:
        ValueError: it is not the output of `encode_column`.
    """
    if saved.code not in (1, 2, 4, 8):
        message = f"integers of {saved.code} bytes"
        raise ValueError(message)
    return np.frombuffer(memoryview(saved.data), np.dtype(f"<i{saved.code}"))
