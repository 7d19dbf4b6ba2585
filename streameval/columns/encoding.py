"""Ids of any kind as 64-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streameval.columns.ragged import Array, IntArray, Ragged
from streameval.errors import InvalidEventError
from streameval.events import Id

_LARGEST = np.iinfo(np.int64).max
_WORD = 8


class Column(NamedTuple):
    """One column as it was read.

    Attributes:
        ragged: its values; where there are names, indices of names.
        names: the ids behind the values; None where the values are the ids themselves.
    """

    ragged: Ragged
    names: Sequence[Id] | None = None

    def ids(self) -> list[Id]:
        """The ids of all lists, one after another.

        Raises:
            InvalidEventError: something is neither an integer nor a string.
        """
        if self.names is None:
            return ids_of(self.ragged.values)
        return [self.names[index] for index in self.ragged.values.tolist()]


def encoded(columns: Sequence[Column]) -> tuple[list[Ragged], list[Id] | None]:
    """Columns with one code for each id, equal where the ids are equal.

    Returns:
        The columns, and the id behind each code; None where the codes are the ids themselves.

    Raises:
        InvalidEventError: something is neither an integer nor a string.
    """
    codes: dict[Id, int] = {}
    if all(map(_fits, columns)):
        found = [column.ragged.values.astype(np.int64, copy=False) for column in columns]
    else:
        found = [_coded(column, codes) for column in columns]
    pairs = zip(found, columns, strict=True)
    return [Ragged(values, column.ragged.offsets) for values, column in pairs], list(codes) or None


def ids_of(values: Array) -> list[Id]:
    """Ids as Python's own integers and strings.

    Raises:
        InvalidEventError: something is neither.
    """
    if values.size and values.dtype.kind not in "iuUTO":
        raise _no_id(f"values of type {values.dtype}")
    found: list[Any] = values.tolist()
    if not set(map(type, found)) <= {int, str}:
        found = [item.item() if isinstance(item, np.generic) else item for item in found]
        for item in found:
            if type(item) is not int and type(item) is not str:
                raise _no_id(f"{item!r:.80}")
    return found


def _coded(column: Column, codes: dict[Id, int]) -> IntArray:
    if column.names is not None:
        return _codes(column.names, codes)[column.ragged.values]
    return _codes(ids_of(column.ragged.values), codes)


def _codes(ids: Sequence[Id], codes: dict[Id, int]) -> IntArray:
    for item in dict.fromkeys(ids):
        codes.setdefault(item, len(codes))
    return np.fromiter(map(codes.__getitem__, ids), np.int64, len(ids))


def _fits(column: Column) -> bool:
    kind, values = column.ragged.values.dtype, column.ragged.values
    if column.names is not None or not values.size:
        return not values.size
    if kind.kind == "u" and kind.itemsize == _WORD:
        return int(values.max()) <= _LARGEST
    return kind.kind in "iu"


def _no_id(found: str) -> InvalidEventError:
    return InvalidEventError("invalid_id", f"ids are integers or strings, found {found}")
