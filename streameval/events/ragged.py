"""Ragged arrays: lists of any lengths in two arrays, with ids as 64-bit integers.

Functions raise InvalidEventError for a column without lists, or with an entry that is not an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from streameval.events.batch import BoolArray, FloatArray, IntArray
from streameval.events.errors import InvalidEventError
from streameval.events.event import Id
from streameval.events.rules import (
    FEWEST_MARKED,
    IGNORED,
    MARKS,
    RESERVED,
    are_marks,
    are_marks_throughout,
    check_id,
    in_row,
    marks_error,
    misplaced_error,
    without_padding,
)

Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Any]]
T = TypeVar("T")


def is_list(value: object) -> bool:
    """True if this is a flat collection: not text, a mapping, a table or a single number."""
    is_collection = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
    return is_collection and getattr(value, "ndim", 1) == 1


class Ragged:
    """Concatenated lists: list i is `values[offsets[i]:offsets[i + 1]]`.

    Attributes:
        values: all entries, shape (entries,).
        offsets: from 0 up to the number of entries, non-decreasing; shape (lists + 1,).

    Example:
        >>> ragged = Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
        >>> ragged.lists()
        [[7, 8], [], [9]]
    """

    def __init__(self, values: Array, offsets: IntArray) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def of_lengths(cls, values: Array, lengths: IntArray) -> Ragged:
        """Lists of these lengths, shape (lists,)."""
        return cls(values, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))

    def joined(self, *others: Ragged) -> Ragged:
        """These lists, then those of others."""
        if not others:
            return self
        parts = (self, *others)
        return self.of_lengths(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )

    def __len__(self) -> int:
        return self.offsets.size - 1

    @cached_property
    def lengths(self) -> IntArray:
        """Number of entries of each list, shape (lists,)."""
        return np.diff(self.offsets)

    @cached_property
    def width(self) -> int | None:
        """The length of all lists if they are equally long; otherwise None."""
        if not len(self):
            return 0
        shortest = int(self.lengths.min())
        return shortest if shortest == int(self.lengths.max()) else None

    def spread(self, per_list: Array) -> Array:
        """Values per list, shape (lists,), repeated for each entry, shape (entries,)."""
        return np.repeat(per_list, self.lengths if self.width is None else self.width)

    def list_indices(self, entries: IntArray) -> IntArray:
        """The index of the list of each of these entries."""
        if self.width:
            return entries // self.width
        return np.searchsorted(self.offsets, entries, side="right") - 1

    def rows(self, start: int, stop: int) -> Ragged:
        """The lists start, ..., stop - 1."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, rows: IntArray) -> Ragged:
        """These lists, in this order."""
        if rows.size and (np.diff(rows) == 1).all():
            return self.rows(int(rows[0]), int(rows[-1]) + 1)
        lengths = self.lengths[rows]
        shifts = self.offsets[rows] + lengths - np.cumsum(lengths)
        indices = np.arange(int(lengths.sum())) + np.repeat(shifts, lengths)
        return Ragged.of_lengths(self.values[indices], lengths)

    def equals(self, others: Ragged) -> BoolArray:
        """True if each list equals the list of others with its index, shape (lists,).

        Example:
            >>> one = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
            >>> one.equals(Ragged(np.array([7, 8, 8]), np.array([0, 2, 3]))).tolist()
            [True, False]
        """
        equal: BoolArray = self.lengths == others.lengths
        rows = np.flatnonzero(equal)
        first, second = self.take(rows), others.take(rows)
        equal[rows[first.list_indices(np.flatnonzero(first.values != second.values))]] = False
        return equal

    def between(self, start: int, stop: int | None) -> Ragged:
        """The entries start, ..., stop - 1 of each list."""
        last = np.iinfo(np.int64).max if stop is None else stop
        counts = np.maximum(np.minimum(self.lengths, last) - start, 0)
        if int(counts.sum()) == self.values.size:
            return self
        if self.width is not None:
            values = self.values.reshape(len(self), self.width)[:, start:stop].ravel()
        else:
            rank = np.arange(self.values.size) - self.spread(self.offsets[:-1])
            values = self.values[(rank >= start) & (rank < last)]
        return Ragged.of_lengths(values, counts)

    def prefixes(self, lengths: IntArray) -> Ragged:
        """The first entries of each list, so many as these lengths."""
        if (lengths == self.lengths).all():
            return self
        if self.width:
            inside = (np.arange(self.width) < lengths[:, None]).ravel()
        else:
            rank = np.arange(self.values.size) - self.spread(self.offsets[:-1])
            inside = rank < self.spread(lengths)
        return Ragged.of_lengths(self.values[inside], lengths)

    def lists(self) -> list[list[Any]]:
        """The lists as Python lists."""
        return self.cut(self.values.tolist())

    def cut(self, entries: list[T]) -> list[list[T]]:
        """Other entries cut into lists of these lengths."""
        return [entries[start:stop] for start, stop in pairwise(self.offsets.tolist())]


def matrix_column(name: str, matrix: Array, lengths: Any = None) -> Ragged:
    """A matrix of shape (lists, K) as lists, without masked entries.

    `matrix`: the mask of a masked array marks padding. `lengths`: number of items in each row,
    shape (lists,); None if all rows are full, or masked.
    """
    rows, width = matrix.shape
    if lengths is None:
        lengths = np.full(rows, width)
        if isinstance(matrix, np.ma.MaskedArray):
            entries = np.flatnonzero(np.ma.getmaskarray(matrix))
            lengths = ends(name, Ragged.of_lengths(matrix, lengths), entries)
    lengths = np.asarray(lengths)
    fitting = lengths.shape == (rows,) and lengths.dtype.kind in "iu"
    if not fitting or ((lengths < 0) | (lengths > width)).any():
        detail = f"{name}: lengths must be {rows} whole numbers from 0 to {width}"
        raise InvalidEventError("wrong_type", detail)
    lengths = lengths.astype(np.int64, copy=False)
    values = np.asarray(matrix)
    if not (lengths == width).all():
        return Ragged.of_lengths(values[np.arange(width) < lengths[:, None]], lengths)
    return Ragged.of_lengths(values.ravel(), lengths)


def ragged_column(name: str, column: Any) -> Ragged:
    """A pair (values, offsets), or a list of arrays."""
    if isinstance(column, Ragged):
        column = column.values, column.offsets
    if isinstance(column, tuple) and len(column) == 2:
        values, offsets = map(np.asarray, column)
        is_valid = offsets.ndim == values.ndim == 1 and offsets.size and offsets.dtype.kind in "iu"
        if is_valid:
            offsets = offsets.astype(np.int64, copy=False)
            within = offsets[0] >= 0 and offsets[-1] <= values.size
            is_valid = within and bool((np.diff(offsets) >= 0).all())
        if not is_valid:
            detail = "(values, offsets): offsets must not decrease, and must end within the values"
            raise InvalidEventError("wrong_type", f"{name}: {detail}")
        return Ragged(values[offsets[0] : offsets[-1]], offsets - offsets[0])
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind == "O":
        column = column.tolist()
    if not isinstance(column, list):
        forms = "a matrix, (values, offsets), a list of arrays, or an Arrow array of lists"
        raise InvalidEventError("wrong_type", f"{name}: give {forms}, found {column!r:.80}")
    # Interactions may be sets; all other columns need an order.
    refused = () if name == "interactions" else (set, frozenset)
    for row in column:
        if isinstance(row, refused) or not (is_list(row) and hasattr(row, "__len__")):
            detail = f"{name}: an entry is not a list, but {row!r:.80}"
            raise InvalidEventError("wrong_type", detail)
        if isinstance(row, set | frozenset):
            _ = without_padding(name, row)
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    if any(not isinstance(row, np.ndarray) for row in column):
        return Ragged.of_lengths(_array(list(chain.from_iterable(column))), lengths)
    arrays = [row for row in column if row.size]
    if len({row.dtype.kind for row in arrays}) > 1:
        return Ragged.of_lengths(_array([item for row in arrays for item in row.tolist()]), lengths)
    return Ragged.of_lengths(np.concatenate(arrays) if arrays else np.zeros(0, np.int64), lengths)


def ends(name: str, lists: Ragged, padding: IntArray) -> IntArray:
    """The lengths of lists without padding, which must be at their ends; shape (lists,).

    `padding`: the indices of the entries that are padding, ascending.
    """
    rows = lists.list_indices(padding)
    lengths: IntArray = lists.lengths - np.bincount(rows, minlength=len(lists))
    inside = padding - lists.offsets[rows] < lengths[rows]
    if inside.any():
        raise in_row(int(rows[inside][0]), len(lists), misplaced_error(name))
    return lengths


def _array(values: list[Any]) -> Array:
    """The values unchanged; numpy would give mixed ones one type, and large integers a float."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values)
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return np.array(values, np.int64)
    array = np.empty(len(values), object)
    array[:] = values
    return array


_LARGEST = np.iinfo(np.int64).max
_WORD = 8


class IdColumn(Sequence[list[Id]]):
    """A column of lists of ids, as integers.

    Attributes:
        ragged: the ids, or indices into `names`.
        names: the id of each index; None if `ragged` holds the ids.

    Example:
        >>> column = IdColumn(Ragged(np.array([1, 0, 1]), np.array([0, 2, 3])), ["a", "b"])
        >>> [*column], column.take(np.array([1]))[0]
        ([['b', 'a'], ['b']], ['b'])
    """

    __slots__ = ("names", "ragged")

    def __init__(self, ragged: Ragged, names: Sequence[Id] | None = None) -> None:
        self.ragged = ragged
        self.names = names

    def __len__(self) -> int:
        return len(self.ragged)

    def __getitem__(self, row: Any) -> Any:
        row = range(len(self))[row]
        start, stop = self.ragged.offsets[row : row + 2].tolist()
        return self.named(self.ragged.values[start:stop])

    def __iter__(self) -> Iterator[list[Id]]:
        return iter(self.ragged.cut(self.ids()))

    def take(self, rows: IntArray) -> IdColumn:
        """These lists, in this order."""
        return IdColumn(self.ragged.take(rows), self.names)

    def rows(self, start: int, stop: int) -> IdColumn:
        """The lists start, ..., stop - 1."""
        return IdColumn(self.ragged.rows(start, stop), self.names)

    def joined(self, *others: IdColumn) -> IdColumn:
        """These lists, then those of others with the same names."""
        ragged = self.ragged.joined(*(other.ragged for other in others))
        columns = (self, *others)
        if not any(isinstance(column, GradedIds) for column in columns):
            return IdColumn(ragged, self.names)
        return GradedIds(ragged, self.names, np.concatenate([*map(_gains_of, columns)]))

    def ids(self) -> list[Id]:
        """The ids of all lists, concatenated."""
        return ids_of(self.ragged.values) if self.names is None else self.named(self.ragged.values)

    def named(self, codes: IntArray) -> list[Id]:
        """The ids of these codes."""
        code_list: list[int] = codes.tolist()
        return list(code_list) if self.names is None else [self.names[code] for code in code_list]

    def indices_of(self, ids: frozenset[Id]) -> IntArray:
        """The indices of the entries that are one of these ids, ascending."""
        values = self.ragged.values
        if self.names is not None:
            if ids.isdisjoint(self.names):
                return _NO_INDICES
            codes = [code for code, name in enumerate(self.names) if name in ids]
            return np.flatnonzero(np.isin(values, codes))
        if values.dtype.kind in "iu":
            integers = [item_id for item_id in ids if type(item_id) is int]
            if not values.size or max(integers) < int(values.min()):
                return _NO_INDICES
            matching = [values == item_id for item_id in integers]
            return np.flatnonzero(np.logical_or.reduce(matching))
        if values.dtype.kind not in "UTO":
            return _NO_INDICES
        # An entry that is no id is refused later.
        items = values.tolist()
        return np.flatnonzero([isinstance(item, _IDS) and item in ids for item in items])

    def without_padding(self, name: str) -> IdColumn:
        """The column without the padding at the end of its lists."""
        padding = self.indices_of(RESERVED)
        if not padding.size:
            return self
        if self.indices_of(frozenset({IGNORED})).size:
            check_id(name, IGNORED)
        return IdColumn(self.ragged.prefixes(ends(name, self.ragged, padding)), self.names)


class GradedIds(IdColumn):
    """A column of interactions, some of which have gains: a dict for each row that has them.

    Attributes:
        gains: of each entry, shape (entries,); NaN for the entries of a row without gains. Rows
            with gains hold each item once.

    Example:
        >>> ragged = Ragged(np.array([1, 0, 1]), np.array([0, 2, 3]))
        >>> [*GradedIds(ragged, ["a", "b"], np.array([2.0, 0.5, np.nan]))]
        [{'b': 2.0, 'a': 0.5}, ['b']]
    """

    __slots__ = ("gains",)

    def __init__(self, ragged: Ragged, names: Sequence[Id] | None, gains: FloatArray) -> None:
        super().__init__(ragged, names)
        self.gains = gains

    def __getitem__(self, row: Any) -> Any:
        ids = super().__getitem__(row)
        start = int(self.ragged.offsets[range(len(self))[row]])
        return _graded(ids, self.gains[start : start + len(ids)].tolist())

    def __iter__(self) -> Iterator[Any]:
        return map(_graded, super().__iter__(), self.ragged.cut(self.gains.tolist()))

    def take(self, rows: IntArray) -> GradedIds:
        """See `IdColumn.take`."""
        gains = Ragged(self.gains, self.ragged.offsets).take(rows).values
        return GradedIds(self.ragged.take(rows), self.names, gains)

    def rows(self, start: int, stop: int) -> GradedIds:
        """See `IdColumn.rows`."""
        gains = Ragged(self.gains, self.ragged.offsets).rows(start, stop).values
        return GradedIds(self.ragged.rows(start, stop), self.names, gains)


def _graded(ids: list[Id], gains: list[float]) -> list[Id] | dict[Id, float]:
    """The row with these gains; those of a row without gains are NaN."""
    return dict(zip(ids, gains, strict=True)) if gains and gains[0] == gains[0] else ids


def _gains_of(column: IdColumn) -> FloatArray:
    if isinstance(column, GradedIds):
        return column.gains
    return np.full(column.ragged.values.size, np.nan)


def refuse_marks(recommendations: IdColumn, interactions: IdColumn) -> None:
    """Refuse a 0 or 1 for each item, shown or not, which would be read as the items 0 and 1."""
    marks = interactions.indices_of(MARKS)
    if not marks.size:
        return
    first = np.arange(min(len(interactions.ragged), FEWEST_MARKED))
    likely = are_marks_throughout([*recommendations.take(first)], [*interactions.take(first)])
    if likely and are_marks_throughout([*recommendations], [*interactions]):
        raise marks_error("interactions")
    rows, counts = np.unique(interactions.ragged.list_indices(marks), return_counts=True)
    rows = rows[(counts == interactions.ragged.lengths[rows]) & (counts > 1)]
    marked = (
        recommendations.ragged.list_indices(recommendations.indices_of(MARKS))
        if rows.size
        else _NO_INDICES
    )
    rows = rows[~np.isin(rows, marked)]
    for row, *pair in zip(
        rows.tolist(), recommendations.take(rows), interactions.take(rows), strict=True
    ):
        if are_marks(*pair):
            raise in_row(row, len(interactions.ragged), marks_error("interactions"))


_IDS = (int, str, np.integer)
_NO_INDICES = np.zeros(0, np.int64)


def encode_columns(columns: Sequence[IdColumn]) -> list[IdColumn]:
    """Columns with ids replaced by codes; equal ids of all columns get equal codes."""
    shared = columns[0].names
    if shared is not None and all(column.names is shared for column in columns):
        return list(columns)
    codes: dict[Id, int] = {}
    if all(map(_fits, columns)):
        coded = [column.ragged.values.astype(np.int64, copy=False) for column in columns]
    else:
        coded = [
            _codes(ids_of(column.ragged.values), codes)
            if column.names is None
            else _codes(column.names, codes)[column.ragged.values]
            for column in columns
        ]
    names = list(codes) or None
    pairs = zip(coded, columns, strict=True)
    return [IdColumn(Ragged(values, column.ragged.offsets), names) for values, column in pairs]


def ids_of(values: Array) -> list[Id]:
    """Ids as built-in integers and strings."""
    if values.size and values.dtype.kind not in "iuUTO":
        raise _no_id(f"values of type {values.dtype}")
    id_list: list[Any] = values.tolist()
    if not set(map(type, id_list)) <= {int, str}:
        id_list = [item.item() if isinstance(item, np.generic) else item for item in id_list]
        for item in id_list:
            if type(item) is not int and type(item) is not str:
                raise _no_id(f"{item!r:.80}")
    return id_list


def _codes(ids: Sequence[Id], codes: dict[Id, int]) -> IntArray:
    for item in dict.fromkeys(ids):
        codes.setdefault(item, len(codes))
    return np.fromiter(map(codes.__getitem__, ids), np.int64, len(ids))


def _fits(column: IdColumn) -> bool:
    kind, values = column.ragged.values.dtype, column.ragged.values
    if column.names is not None or not values.size:
        return not values.size
    if kind.kind == "u" and kind.itemsize == _WORD:
        return int(values.max()) <= _LARGEST
    return kind.kind in "iu"


def _no_id(description: str) -> InvalidEventError:
    return InvalidEventError("invalid_id", f"ids are integers or strings, found {description}")
