"""Columns of a table as ids and as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from streameval.columns.ragged import Array
from streameval.errors import SourceError
from streameval.tables.arrow import arrow

Kind: TypeAlias = Literal["string", "integer"]


def ids(path: str, name: str, column: Any) -> Any:
    """A column of ids as an Arrow array of integers or of strings.

    Raises:
        SourceError: it holds something else, or a row has none.
    """
    types, kind = arrow().types, column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_string(kind):
        kind = arrow().large_string()
        column = column.cast(kind)
    array = column.combine_chunks() if isinstance(column, arrow().ChunkedArray) else column
    if not (types.is_integer(kind) or types.is_large_string(kind)):
        problem = f"column {name!r} holds {kind}"
        raise SourceError(path, problem, "write ids as integers or as text")
    compute = arrow("compute")
    missing = compute.is_null(array)
    if types.is_large_string(kind):
        missing = compute.or_kleene(missing, compute.equal(array, ""))
    _refuse_first(path, name, missing.to_pylist() if compute.any(missing).as_py() else [], "no id")
    return array


def of_one_kind(arrays: Sequence[Any], wanted: Kind = "string") -> list[Any]:
    """Arrays of ids, all of integers or all of strings: integers only where each of them is.

    Args:
        arrays: of integers or of strings each.
        wanted: "integer" makes integers of strings of digits, too.

    Raises:
        SourceError: a string is no integer, where integers are wanted.
    """
    types = arrow().types
    if all(types.is_integer(array.type) for array in arrays):
        return list(arrays)
    kind = arrow().int64() if wanted == "integer" else arrow().large_string()
    try:
        return [array.cast(kind) for array in arrays]
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError("ids", " ".join(str(error).split()), remedy) from error


def numbers(path: str, name: str, column: Any) -> Array:
    """A column of finite numbers, from numbers or from text; shape (rows,).

    Raises:
        SourceError: a row has none.
    """
    compute, wanted = arrow("compute"), arrow().float64()
    array = column.combine_chunks() if isinstance(column, arrow().ChunkedArray) else column
    try:
        found = array.cast(wanted)
    except (arrow().ArrowInvalid, arrow().ArrowNotImplementedError):
        found = _parsed(array)
    finite = compute.fill_null(compute.is_finite(found), fill_value=False)
    if not compute.all(finite).as_py():
        row = finite.to_pylist().index(False)
        raise _no_number(path, name, row, array[row].as_py())
    values: Array = found.to_numpy(zero_copy_only=False)
    return values


def _parsed(array: Any) -> Any:
    """Numbers where the text is one; null elsewhere."""
    return arrow().array([_number(value) for value in array.to_pylist()], arrow().float64())


def _number(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _no_number(path: str, name: str, row: int, found: object) -> SourceError:
    problem = f"row {row + 1}, column {name!r}: found {found!r:.40}, which is no finite number"
    return SourceError(path, problem, "correct it, or name another column")


def _refuse_first(path: str, name: str, bad: Sequence[bool], what: str) -> None:
    if bad:
        problem = f"row {bad.index(True) + 1}, column {name!r}: {what}"
        raise SourceError(path, problem, "every row needs one; correct the file")
