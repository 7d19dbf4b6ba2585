"""Lists in the cells of a table: Arrow lists, or lists as text.

Functions raise SourceError for a column without lists, for a cell whose list seems to have another
format than its column, and for an entry that is not an id or number.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from streameval.evaluation.tables.files import (
    TableColumn,
    arrow,
)
from streameval.events.errors import SourceError

_SEPARATORS = "|;,\t"
_MISSING = frozenset({"NaN", "nan", "None", "null", "NULL", "NA", "<NA>", "\\N"})
"""Texts that programs write for a missing value."""
_TEXT = r"""\s*+[uU]?(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")\s*+"""
_ENTRY = rf"""(?:{_TEXT}|[^'",\[\]]++)?+"""
_PYTHON = re.compile(rf"\[{_ENTRY}(?:,{_ENTRY})*+\]", re.DOTALL)
"""A Python list; texts without a comma between them are refused, because Python joins them."""
_BRACKETS = {"(": ")", "{": "}"}


class Separator(NamedTuple):
    """The separator between entries of lists that are text.

    Attributes:
        text: the separator; None means "|" if the column has one, otherwise white space.
        explicit: whether it was given for this column, so that its cells are not questioned.
    """

    text: str | None = None
    explicit: bool = False


def holds_lists(path: str, name: str, kind: Any) -> bool:
    """Whether a column of this Arrow type has lists, rather than lists as text."""
    types = arrow().types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return True
    if not (types.is_string(kind) or types.is_large_string(kind)):
        remedy = "give a column of lists, or of ids separated by spaces or |"
        raise SourceError(path, f"column {name!r} holds {kind}", remedy)
    return False


def lists_of(column: TableColumn, separator: Separator, *, numeric: bool) -> Any:
    r"""A column of lists, or of lists as text, as an Arrow array of lists.

    Text is a JSON list ('["a", 7]'; Python lists are read too), or entries between separators. A
    cell whose list seems to have another format than its column is refused: it would be read as one
    id that matches nothing.

    `numeric`: whether entries are numbers rather than ids; a blank cell is then null, not empty.
    """
    if holds_lists(column.table.path, column.name, column.values.type):
        return column.values
    texts = _texts(column)
    if numeric:
        split = _split(column, texts, separator, _Cells("numbers", _number, [], None))
        return arrow().array(split)
    if not separator.explicit:
        _refuse_missing(column, texts)
    split = _split(column, texts, separator, _Cells("ids", _id, [""], []))
    return arrow().array(split, arrow().large_list(arrow().large_string()))


class _Cells(NamedTuple):
    """What the cells of a column of text hold.

    Attributes:
        entry: converts the text, or the JSON value, of an entry.
        padding: what the empty entries at the end of a cell become.
        blank: the list of a blank cell.
    """

    what: str
    entry: Callable[[Any], Any]
    padding: list[Any]
    blank: list[Any] | None


def _split(
    column: TableColumn, texts: Sequence[str], separator: Separator, cells: _Cells
) -> list[Any]:
    """The list of each cell."""
    split = _splitter(column, texts, separator)
    lists = []
    for row, text in enumerate(texts):
        try:
            entries = _entries(split(row, text), cells.entry, cells.padding) if text else None
            lists.append(cells.blank if entries is None else entries)
        except (ValueError, OverflowError):
            remedy = f"write {cells.what} between separators, or a JSON list of {cells.what}"
            raise column.error(row, f"found {text!r:.60}", remedy) from None
    return lists


def _entries(parts: Sequence[Any], entry: Callable[[Any], Any], padding: list[Any]) -> list[Any]:
    """The entries of a cell; empty ones at its end become `padding`."""
    filled = len(parts)
    while filled and isinstance(parts[filled - 1], str) and not parts[filled - 1].strip():
        filled -= 1
    return [*map(entry, parts[:filled]), *padding * (len(parts) - filled)]


def _texts(column: TableColumn) -> list[str]:
    return [(text or "").strip() for text in column.values.to_pylist()]


def _refuse_missing(column: TableColumn, texts: Sequence[str]) -> None:
    row = next((row for row, text in enumerate(texts) if text in _MISSING), None)
    if row is not None:
        problem = f"found {texts[row]!r}, which looks like a missing list"
        insist = f"--separator {_shell(column.name, '|')} if it is an id"
        raise column.error(row, problem, f"leave the cell empty, or {insist}")


def _splitter(
    column: TableColumn, texts: Sequence[str], separator: Separator
) -> Callable[[int, str], Sequence[Any]]:
    """A function that splits the text of a cell, given its row; the text is not blank."""
    if separator.explicit:
        return lambda _row, text: text.split(separator.text)
    if any(map(_is_bracketed, texts)):
        return lambda row, text: _json_list(column, row, text)
    given = separator.text or ("|" if any("|" in text for text in texts) else None)
    contains_it = given is not None and any(given in text for text in texts)
    # A space inside a cell is ambiguous, unless other cells confirm the caller's separator: then
    # it may be part of an id, for example a title.
    doubted = _SEPARATORS if contains_it and separator.text else f"{_SEPARATORS} "

    def split(row: int, text: str) -> Sequence[str]:
        parts = text.split(given)
        other = _other_separator(text, parts, given, doubted)
        if other is not None:
            raise _ambiguous(column, row, text, other, given)
        return parts

    return split


def _is_bracketed(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _json_list(column: TableColumn, row: int, text: str) -> list[Any]:
    """The entries of a JSON list, or of a Python list."""
    parsed: Any = None
    if _is_bracketed(text):
        try:
            parsed = msgspec.json.decode(text)
        except msgspec.DecodeError:
            parsed = _literal(text)
    if not isinstance(parsed, list):
        remedy = 'write each cell of the column like ["a", "b"]; of arrays, that is .tolist()'
        raise column.error(row, f"found {text!r:.60}, which is not a JSON list", remedy)
    return parsed


def _literal(text: str) -> Any:
    if not _PYTHON.fullmatch(text):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def _other_separator(
    text: str, parts: Sequence[str], separator: str | None, doubted: str
) -> str | None:
    """Another separator that a cell seems to have; "" if the cell seems to be in brackets."""
    if _BRACKETS.get(text[0]) == text[-1]:
        return ""
    if separator is None:
        return next(
            (
                candidate
                for candidate in _SEPARATORS
                if candidate in text and not candidate.isspace()
            ),
            None,
        )
    if len(parts) == 1:
        return next((candidate for candidate in doubted if candidate in text), None)
    ends = {part.strip()[at] for part in parts if part.strip() for at in (0, -1)}
    return next(
        (candidate for candidate in _SEPARATORS if candidate in ends and candidate != separator),
        None,
    )


def _ambiguous(
    column: TableColumn, row: int, text: str, other: str, separator: str | None
) -> SourceError:
    if not other:
        problem = f"found {text!r:.60}, which looks like a list in brackets"
        return column.error(row, problem, 'write lists as JSON, like ["a", "b"]')
    problem = f"found {text!r:.60}, which looks like a list separated by {other!r}"
    insist = f"--separator {_shell(column.name, separator or ' ')} if it is part of an id"
    return column.error(
        row, problem, f"read it with --separator {_shell(column.name, other)}, or {insist}"
    )


def _shell(name: str, separator: str) -> str:
    """The option's value, quoted for a POSIX shell."""
    return f"$'{name}=\\t'" if separator == "\t" else f"'{name}={separator}'"


def _id(entry: Any) -> str:
    if isinstance(entry, str) and entry.strip():
        return entry.strip()
    if type(entry) is int:
        return str(entry)
    raise ValueError


def _number(entry: Any) -> float:
    if isinstance(entry, str):
        return int(entry) if entry.strip().isdecimal() else float(entry)
    if type(entry) is not int and type(entry) is not float:
        raise ValueError
    return entry


def value_lists(column: TableColumn, separator: Separator) -> Any:
    """Lists of numbers and words; null is unknown. Text that reads as a number is one."""
    if holds_lists(column.table.path, column.name, column.values.type):
        return column.values
    cells = _Cells("numbers or words", _item_value, [None], None)
    lists = _split(column, _texts(column), separator, cells)
    entries = [entry for values in lists for entry in values or ()]
    kinds = {type(entry) for entry in entries}
    if {float, str} <= kinds:
        return _as_union(lists, entries)
    kind = arrow().large_string() if str in kinds else arrow().float64()
    return arrow().array(lists, arrow().large_list(kind))


def _as_union(lists: Sequence[Sequence[Any] | None], entries: Sequence[Any]) -> Any:
    """An Arrow array of lists of numbers and words."""
    is_word = arrow().array([isinstance(entry, str) for entry in entries])
    by_kind = [
        arrow().array([entry if isinstance(entry, kind) else None for entry in entries], of_kind)
        for kind, of_kind in ((float, arrow().float64()), (str, arrow().large_string()))
    ]
    values = arrow().UnionArray.from_sparse(is_word.cast(arrow().int8()), by_kind)
    offsets = arrow().array([0, *accumulate(len(row or ()) for row in lists)], arrow().int64())
    unknown = arrow().array([row is None for row in lists])
    return arrow().LargeListArray.from_arrays(offsets, values, mask=unknown)


def _item_value(entry: Any) -> float | str | None:
    if not isinstance(entry, str):
        return None if entry is None else float(_number(entry))
    try:
        return float(entry)
    except ValueError:
        return entry.strip() or None
