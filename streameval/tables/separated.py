"""Lists that are written as text: "7 8 9" or "a|b|c"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streameval.errors import SourceError
from streameval.tables.arrow import arrow


def separated(path: str, name: str, column: Any, separator: str | None, *, numeric: bool) -> Any:
    """A column of lists, from lists or from text.

    Args:
        path: of the file, for errors.
        name: of the column, for errors.
        column: Arrow array.
        separator: between entries; None means "|" in a column that holds one, and white space
            otherwise.
        numeric: whether entries are numbers.

    Raises:
        SourceError: it is neither lists nor text, or an entry is none.
    """
    types, kind = arrow().types, column.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return column
    if not (types.is_string(kind) or types.is_large_string(kind)):
        remedy = "give a column of lists, or of ids separated by spaces or |"
        raise SourceError(path, f"column {name!r} holds {kind}", remedy)
    texts = column.to_pylist()
    if separator is None:
        separator = "|" if any("|" in text for text in texts if text) else None
    entry: Callable[[str], Any] = _number if numeric else _id
    values = None if numeric else arrow().large_list(arrow().large_string())
    lists = []
    for row, text in enumerate(texts):
        try:
            lists.append([entry(part) for part in _parts(text, separator)])
        except ValueError:
            problem = f"row {row + 1}, column {name!r}: found {text!r:.60}"
            what = "numbers" if numeric else "ids"
            raise SourceError(path, problem, f"write {what} between separators") from None
    return arrow().array(lists, values)


def _parts(text: str | None, separator: str | None) -> list[str]:
    if text is None or not text.strip():
        return []
    return text.split(separator)


def _id(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
