"""Reads lists in a column of a table: Arrow lists, or lists written as text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.errors import SourceError
from streameval.tables.files import Column, arrow

_SEPARATORS = "|;,\t"
_BRACKETS = {"(": ")", "{": "}"}


class Separator(NamedTuple):
    """What stands between the entries of lists that are written as text.

    Attributes:
        text: the separator; None means "|" in a column that holds one, white space otherwise.
        insisted: whether it was named for this column, so that no cell of it is doubted.
    """

    text: str | None = None
    insisted: bool = False


def holds_lists(path: str, name: str, kind: Any) -> bool:
    """Whether a column of this Arrow type holds lists, not lists written as text.

    Raises:
        SourceError: it holds neither.
    """
    types = arrow().types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return True
    if not (types.is_string(kind) or types.is_large_string(kind)):
        remedy = "give a column of lists, or of ids separated by spaces or |"
        raise SourceError(path, f"column {name!r} holds {kind}", remedy)
    return False


def lists_of(column: Column, separator: Separator, *, numeric: bool) -> Any:
    r"""A column of lists as an Arrow array of lists: from lists, or from text.

    Text holds JSON lists ('["a", 7]'; those of Python are read too), or entries between
    separators. A cell that looks like a list in another form than its column is refused: read
    as it stands, it would be one id that matches nothing.

    Args:
        column: of lists or text.
        separator: between entries.
        numeric: whether entries are numbers, not ids; a blank cell is then null, not empty.

    Raises:
        SourceError: it is neither lists nor text, a cell looks like a list of another form, or
            an entry is none.
    """
    if holds_lists(column.table.path, column.name, column.values.type):
        return column.values
    texts = [(text or "").strip() for text in column.values.to_pylist()]
    split = _splitter(column, texts, separator)
    entry: Callable[[Any], Any] = _number if numeric else _id
    blank: list[Any] | None = None if numeric else []
    lists = []
    for row, text in enumerate(texts):
        try:
            lists.append([entry(part) for part in split(row, text)] if text else blank)
        except (ValueError, OverflowError):
            what = "numbers" if numeric else "ids"
            remedy = f"write {what} between separators, or a JSON list of {what}"
            raise column.error(row, f"found {text!r:.60}", remedy) from None
    return arrow().array(lists, None if numeric else arrow().large_list(arrow().large_string()))


def _splitter(
    column: Column, texts: Sequence[str], separator: Separator
) -> Callable[[int, str], Sequence[Any]]:
    """How the cells of a column come apart: of a row, and its text that is not blank."""
    if separator.insisted:
        return lambda _row, text: text.split(separator.text)
    if any(map(_is_bracketed, texts)):
        return lambda row, text: _listed(column, row, text)
    given = separator.text or ("|" if any("|" in text for text in texts) else None)
    found = given is not None and any(given in text for text in texts)
    # A space inside of a cell is doubtful but where other cells show that the caller's
    # separator is the right one: it may be part of an id, as in a title.
    doubted = _SEPARATORS if found and separator.text else f"{_SEPARATORS} "

    def split(row: int, text: str) -> Sequence[str]:
        parts = text.split(given)
        strange = _other_separator(text, parts, given, doubted)
        if strange is not None:
            raise _doubtful(column, row, text, strange, given)
        return parts

    return split


def _is_bracketed(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _listed(column: Column, row: int, text: str) -> list[Any]:
    """The entries of a JSON list, or of a list as Python writes it."""
    found: Any = None
    if _is_bracketed(text):
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found = _literal(text)
    if not isinstance(found, list):
        remedy = 'other cells of the column are JSON lists; write this one like ["a", "b"], too'
        raise column.error(row, f"found {text!r:.60}, which is not a JSON list", remedy)
    return found


def _literal(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def _other_separator(
    text: str, parts: Sequence[str], separator: str | None, doubted: str
) -> str | None:
    """Another separator that a cell seems to have; "" where it seems to be in brackets."""
    if _BRACKETS.get(text[0]) == text[-1]:
        return ""
    if separator is None:
        return next((each for each in _SEPARATORS if each in text and not each.isspace()), None)
    if len(parts) == 1:
        return next((each for each in doubted if each in text), None)
    ends = {part.strip()[at] for part in parts if part.strip() for at in (0, -1)}
    return next((each for each in _SEPARATORS if each in ends and each != separator), None)


def _doubtful(
    column: Column, row: int, text: str, other: str, separator: str | None
) -> SourceError:
    if not other:
        problem = f"found {text!r:.60}, which looks like a list in brackets"
        return column.error(row, problem, 'write lists as JSON, like ["a", "b"]')
    problem = f"found {text!r:.60}, which looks like a list separated by {other!r}"
    insist = f"--separator {_shell(column.name, separator or ' ')} where it is part of an id"
    return column.error(
        row, problem, f"read it with --separator {_shell(column.name, other)}, or {insist}"
    )


def _shell(name: str, separator: str) -> str:
    """As a POSIX shell takes it."""
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
