"""Matrices, pairs of arrays and lists of arrays, read as ragged columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from streameval.columns.ragged import Array, IntArray, Ragged
from streameval.errors import InvalidEventError

_NO_ITEM = -1


def matrix_column(name: str, matrix: Array, lengths: Any = None) -> Ragged:
    """A matrix of shape (lists, K) without what only fills its rows.

    Args:
        name: of the column, for errors.
        matrix: a masked one ends its rows by its mask.
        lengths: entries of each row that count, shape (lists,); None where -1 ends a row.

    Raises:
        InvalidEventError: the lengths do not fit, or something stands after the end of a row.
    """
    rows, width = matrix.shape
    if lengths is None:
        lengths = _ends(name, matrix)
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


def listed(name: str, found: Any) -> Ragged:
    """A pair (values, offsets), or a list of arrays.

    Raises:
        InvalidEventError: it is neither.
    """
    if isinstance(found, Ragged):
        found = found.values, found.offsets
    if isinstance(found, tuple) and len(found) == 2:
        return _checked(name, np.asarray(found[0]), np.asarray(found[1]))
    if isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind == "O":
        found = found.tolist()
    if not isinstance(found, list):
        forms = "a matrix, (values, offsets), a list of arrays, or an Arrow array of lists"
        raise InvalidEventError("wrong_type", f"{name}: give {forms}, found {found!r:.80}")
    return _joined(name, found)


def _ends(name: str, matrix: Array) -> IntArray:
    width = matrix.shape[1]
    filled: Array = np.zeros(matrix.shape, np.bool_)
    if isinstance(matrix, np.ma.MaskedArray):
        filled = np.ma.getmaskarray(matrix)
    elif matrix.dtype.kind == "i" and matrix.size and int(matrix.min()) < 0:
        filled = matrix == _NO_ITEM
    lengths: IntArray = width - filled.sum(axis=1, dtype=np.int64)
    beyond = np.arange(width) >= lengths[:, None]
    if (filled != beyond).any():
        row = int(np.flatnonzero((filled != beyond).any(axis=1))[0])
        detail = f"{name}: in row {row} an item stands after the end of the list (-1 or masked)"
        raise InvalidEventError("invalid_id", detail)
    return lengths


def _checked(name: str, values: Array, offsets: Array) -> Ragged:
    flat = offsets.ndim == values.ndim == 1 and offsets.size and offsets.dtype.kind in "iu"
    if not flat or not _rising(offsets.astype(np.int64, copy=False), values.size):
        detail = "(values, offsets): offsets never fall, and end within the values"
        raise InvalidEventError("wrong_type", f"{name}: {detail}")
    offsets = offsets.astype(np.int64, copy=False)
    return Ragged(values[offsets[0] : offsets[-1]], offsets - offsets[0])


def _rising(offsets: IntArray, last: int) -> bool:
    return bool(offsets[0] >= 0 and offsets[-1] <= last and (np.diff(offsets) >= 0).all())


def _joined(name: str, rows: Sequence[Any]) -> Ragged:
    if any(isinstance(row, (str, bytes, Mapping)) or not hasattr(row, "__len__") for row in rows):
        raise InvalidEventError("wrong_type", f"{name}: an entry of the column is no list of ids")
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    if any(not isinstance(row, np.ndarray) for row in rows):
        return Ragged.of_lengths(_array(list(chain.from_iterable(rows))), lengths)
    kept = [row for row in rows if row.size]
    if len({row.dtype.kind for row in kept}) > 1:
        return Ragged.of_lengths(_array([item for row in kept for item in row.tolist()]), lengths)
    return Ragged.of_lengths(np.concatenate(kept) if kept else np.zeros(0, np.int64), lengths)


def _array(values: list[Any]) -> Array:
    """The values as they are: numpy makes one kind of unlike ones, and floats of large integers."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values)
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return np.array(values, np.int64)
    found = np.empty(len(values), object)
    found[:] = values
    return found
