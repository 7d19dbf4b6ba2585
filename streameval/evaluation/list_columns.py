"""Lists in the cells of a column: Arrow lists, or lists as text.

Functions raise InputError for a column without lists, for a cell whose list seems to have another
form than its column, and for an entry that is not an id or number.
"""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
import numpy as np

from streameval.evaluation.arguments import InputError, Setting
from streameval.evaluation.files import TableColumn, arrow

_MISSING: Final = ("NaN", "nan", "None", "null", "NULL", "NA", "<NA>", "\\N")
"""Texts that programs write for a missing value."""

_TEXT: Final = r"""\s*+[uU]?(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")\s*+"""
_ENTRY: Final = rf"""(?:{_TEXT}|[^'",\[\]]++)?+"""
_PYTHON: Final = re.compile(rf"\[{_ENTRY}(?:,{_ENTRY})*+\]", re.DOTALL)
"""A Python list; texts without a comma between them are refused, because Python joins them."""

_INTEGERS: Final = r"^\[\s*(-?(0|[1-9]\d*)\s*(,\s*-?(0|[1-9]\d*)\s*)*)?\]$"
_NUMBERS: Final = r"^\[[-+0-9.eE,\s]*\]$"
_WORD: Final = r"""("[^"'\\]*"|'[^"'\\]*')\s*"""
_QUOTED: Final = rf"^\[\s*({_WORD}(,\s*{_WORD})*)?\]$"
"""JSON lists of integers, of numbers, and of words without quotes or escapes: the usual ones."""

_LIST_OF_DIGITS: Final = r"^-?\d+(?:(?: +-?\d+)+|(?:\s*,\s*-?\d+)+|(?:\s*;\s*-?\d+)+)$"
"""Integers with one separator between them."""

ListKind = Literal["ids", "numbers", "values"]
"""What the entries of the lists are: ids; numbers; or numbers and words, null if unknown."""


def is_list_type(kind: Any) -> bool:
    """True if an Arrow type is one of lists."""
    types = arrow().types
    return any(is_(kind) for is_ in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def is_text(kind: Any) -> bool:
    """True if an Arrow type is text."""
    types = arrow().types
    return any(is_(kind) for is_ in (types.is_string, types.is_large_string, types.is_string_view))


def require_lists(path: str, name: str, kind: Any) -> None:
    """Refuse a column of an Arrow type that holds neither lists nor text."""
    if arrow().types.is_map(kind):
        raise InputError(
            "{problem}, which has no order; give lists of ids, best first, or one map for each "
            "user as {recommendations} with {truth}.",
            problem=f"{path}: column {name!r} holds {kind}",
        )
    if not (is_list_type(kind) or is_text(kind) or arrow().types.is_null(kind)):
        raise InputError(
            "{problem}; give a column of lists, or of ids separated by spaces or |.",
            problem=f"{path}: column {name!r} holds {kind}",
        )


class ListColumn:
    """The lists of one column of a file, block after block.

    The first cell with several entries tells the form of all: a cell of another form is an error,
    not an id.

    Args:
        kind: what the entries are.
        separator: between entries of lists that are text; None for "|" if the column has one,
            otherwise white space.
        explicit: whether a caller named it for this column, so that its cells are not checked.

    Attributes:
        has_bars: whether any cell so far has a "|", which then separates.
        has_separator: whether the separator of the caller decided about any cell so far.
    """

    def __init__(
        self, kind: ListKind, separator: str | None = None, *, explicit: bool = False
    ) -> None:
        self._kind, self._separator, self._explicit = kind, separator, explicit
        self._form: Literal["json", "split"] | None = "split" if explicit else None
        self._is_confirmed = False
        self.has_bars = self.has_separator = False

    def read(self, column: TableColumn) -> Any:
        """The lists of a block: an Arrow array, but Python lists of values.

        A blank cell is an empty list of ids; numbers and values have none.
        """
        require_lists(column.path, column.name, column.values.type)
        if is_list_type(column.values.type):
            return column.values.to_pylist() if self._kind == "values" else column.values
        compute = arrow("compute")
        texts = compute.fill_null(compute.utf8_trim_whitespace(column.values), "")
        blank = compute.equal(texts, "")
        if not self._explicit:
            self._find_form(column, texts, blank)
        is_json = self._form == "json"
        lists = self._parse(column, texts) if is_json else self._split(column, texts, blank)
        if self._kind == "numbers":
            return self._numbers(column, lists, blank)
        return _values(lists, blank) if self._kind == "values" else lists

    def note_bars(self, column: TableColumn) -> bool:
        """Look for a "|"; returns `has_bars`."""
        if is_text(column.values.type) and not self.has_bars:
            bars = arrow("compute").match_substring(column.values, "|")
            self.has_bars = bool(arrow("compute").any(bars).as_py())
        return self.has_bars

    def _find_form(self, column: TableColumn, texts: Any, blank: Any) -> None:
        """Find the form of a column; refuses a missing value, and cells of both forms."""
        compute = arrow("compute")
        if self._kind == "ids":
            missing = compute.is_in(texts, value_set=arrow().array(_MISSING, texts.type))
            if (row := _first(missing)) is not None:
                raise column.error(
                    row,
                    f"found {texts[row].as_py()!r}, which looks like a missing list",
                    "leave the cell empty, or {insist} if it is an id",
                    insist=Setting("separator", "|", column.name),
                )
        bracketed = _enclosed(texts, "[", "]")
        single_cell = _first(compute.invert(compute.or_(bracketed, blank)))
        bracketed_cell = _first(bracketed)
        if self._form is None and (bracketed_cell is not None or single_cell is not None):
            self._form = "split" if bracketed_cell is None else "json"
        if self._form == "json" and single_cell is not None:
            self._parse(column, texts[:single_cell])
            raise _no_json(column, single_cell)
        if self._form == "split" and bracketed_cell is not None:
            text = texts[bracketed_cell].as_py()
            problem = f"found {text!r:.60}, a list in brackets, and cells before have none"
            remedy = 'write each cell of the column like ["a", "b"]'
            raise column.error(bracketed_cell, problem, remedy)

    def _parse(self, column: TableColumn, texts: Any) -> Any:
        """JSON lists, or those that Python writes; the usual ones without a Python object each."""
        compute = arrow("compute")
        filled = compute.if_else(compute.equal(texts, ""), "[]", texts)
        inner = compute.utf8_trim_whitespace(compute.utf8_slice_codeunits(filled, 1, -1))
        empty, comma = compute.equal(inner, ""), ","
        usual = _NUMBERS if self._kind == "numbers" else _INTEGERS
        if not _all(compute.match_substring_regex(filled, usual)):
            if self._kind != "ids" or not _all(compute.match_substring_regex(filled, _QUOTED)):
                return self._parse_one_by_one(column, filled)
            for marks, instead in (
                (r"""^\s*['"]|['"]\s*$""", ""),
                (r"""(["'])\s*,\s*["']""", "\x1f"),
            ):
                inner = compute.replace_substring_regex(inner, marks, replacement=instead)
            comma = "\x1f"
        lists = _trim_entries(compute.split_pattern(inner, comma))
        return compute.if_else(empty, arrow().scalar([], lists.type), lists)

    def _parse_one_by_one(self, column: TableColumn, texts: Any) -> Any:
        lists = []
        for row, text in enumerate(texts.to_pylist()):
            entries = _json_list(text)
            if entries is None:
                raise _no_json(column, row)
            # Empty texts at the end are padding.
            length = len(entries)
            while length and entries[length - 1] == "":
                length -= 1
            for entry in entries[:length]:
                if (
                    isinstance(entry, bool)
                    or not isinstance(entry, str | int | float | None)
                    or (self._kind != "values" and (entry is None or not str(entry).strip()))
                    or (self._kind == "ids" and isinstance(entry, float))
                ):
                    raise self._no_entry(column, row, text)
            lists.append([None if entry is None else str(entry).strip() for entry in entries])
        return arrow().array(lists, arrow().large_list(arrow().large_string()))

    def _no_entry(self, column: TableColumn, row: int, text: str) -> InputError:
        what = {"ids": "ids", "numbers": "numbers", "values": "numbers or words"}[self._kind]
        remedy = f"write {what} between separators, or a JSON list of {what}"
        return column.error(row, f"found {text!r:.60}", remedy)

    def _split(self, column: TableColumn, texts: Any, blank: Any) -> Any:
        """The lists of cells with a separator between their entries."""
        compute, separator = arrow("compute"), self._separator
        if separator is not None and not self.has_separator:
            # It also keeps what would look like a list without it.
            sign = re.escape(separator) + r"|[|;,\s\[({]" if separator else r"[|;,\s\[({]"
            has_it = compute.any(compute.match_substring_regex(texts, sign))
            self.has_separator = has_it.as_py() is True
        self.note_bars(column)
        if separator is None and self.has_bars:
            separator = "|"
        if not self._explicit:
            self._refuse_others(column, texts, separator)
        if separator == "":
            bounds = arrow().array(np.arange(len(texts) + 1))
            lists = arrow().LargeListArray.from_arrays(bounds, texts)
        elif separator is None:
            lists = compute.utf8_split_whitespace(texts)
        else:
            lists = compute.split_pattern(texts, separator)
        lists = _trim_entries(lists)
        lists = compute.if_else(blank, arrow().scalar([], lists.type), lists)
        empty = np.flatnonzero(_numpy(compute.equal(lists.values, "")))
        if empty.size and self._kind != "values":
            # An empty entry before others is an error; those at the end are padding.
            offsets = lists.offsets.to_numpy()
            ends = offsets[np.searchsorted(offsets, empty, side="right")]
            inside = (empty + 1 < ends) & (np.append(empty[1:], -1) != empty + 1)
            if inside.any():
                row = int(np.searchsorted(offsets, empty[inside][0], side="right")) - 1
                raise self._no_entry(column, row, texts[row].as_py())
        return lists

    def _refuse_others(self, column: TableColumn, texts: Any, separator: str | None) -> None:
        """Refuse cells that seem to have another separator than their column."""
        compute = arrow("compute")
        brackets = compute.or_(_enclosed(texts, "(", ")"), _enclosed(texts, "{", "}"))
        if (row := _first(brackets)) is not None:
            problem = f"found {texts[row].as_py()!r:.60}, which looks like a list in brackets"
            raise column.error(row, problem, 'write lists as JSON, like ["a", "b"]')
        if separator is None:
            suspects = [(mark, compute.match_substring(texts, mark)) for mark in "|;,"]
        else:
            has_it = compute.match_substring(texts, separator)
            alone, sign = compute.invert(has_it), re.escape(separator)
            # A space inside a cell is ambiguous, unless other cells confirm the caller's
            # separator: then it may be part of an id, for example a title.
            self._is_confirmed |= bool(self._separator) and _first(has_it) is not None
            suspects = []
            for mark in "|;,\t ".replace(separator, ""):
                if not (self._is_confirmed and mark == " "):
                    matches = compute.match_substring(texts, mark)
                    suspects.append((mark, compute.and_(alone, matches)))
                if not mark.isspace():
                    edge = rf"(?:^|{sign})\s*{re.escape(mark)}|{re.escape(mark)}\s*(?:{sign}|$)"
                    beside = compute.match_substring_regex(texts, edge)
                    suspects.append((mark, compute.and_(has_it, beside)))
        rows = [(row, mark) for mark, mask in suspects if (row := _first(mask)) is not None]
        if rows:
            row, mark = min(rows, key=lambda pair: pair[0])
            text = texts[row].as_py()
            raise column.error(
                row,
                f"found {text!r:.60}, which looks like a list separated by {mark!r}",
                "read it with {separator}, or {separator_2} if it is part of an id",
                separator=Setting("separator", mark, column.name),
                separator_2=Setting("separator", separator or " ", column.name),
            )

    def _numbers(self, column: TableColumn, lists: Any, blank: Any) -> Any:
        """Lists of numbers; a blank cell is null."""
        compute = arrow("compute")
        flat = lists.flatten()
        try:
            numbers = compute.if_else(compute.equal(flat, ""), None, flat).cast(arrow().float64())
        except arrow().ArrowInvalid:
            parsed: list[float | None] = []
            for row, entries in enumerate(lists.to_pylist()):
                try:
                    parsed += [float(entry) if entry else None for entry in entries or ()]
                except ValueError:
                    raise self._no_entry(column, row, " ".join(map(str, entries))) from None
            numbers = arrow().array(parsed, arrow().float64())
        if _all(compute.match_substring_regex(flat, r"^-?\d{1,15}$")):
            numbers = numbers.cast(arrow().int64())
        offsets = compute.subtract(lists.offsets, lists.offsets[0]).cast(arrow().int64())
        return arrow().LargeListArray.from_arrays(offsets, numbers, mask=blank)


def lists_in_rows(column: TableColumn, separator: str | None) -> tuple[Any, str | None]:
    """The lists in the cells of a column that usually has one id a row; None if it has none.

    A column has lists if its type says so, if a cell is in brackets, if a cell has a "|", or if all
    cells hold integers, several of them with one separator in some. Text with spaces stays one id.

    Args:
        column: all rows.
        separator: "" if each cell is one id; None to tell by the cells.

    Returns:
        An Arrow array of lists and the text of a cell with several entries; or None, None.
    """
    kind = column.values.type
    if is_list_type(kind):
        return column.values, None
    if separator == "" or not is_text(kind) or not len(column.values):
        return None, None
    if separator is not None:
        return ListColumn("ids", separator, explicit=True).read(column), None
    compute = arrow("compute")
    texts = compute.fill_null(compute.utf8_trim_whitespace(column.values), "")
    bars = compute.match_substring(texts, "|")
    example = _first(_enclosed(texts, "[", "]"))
    example = _first(bars) if example is None else example
    if example is None:
        digits = compute.match_substring_regex(texts, _LIST_OF_DIGITS)
        single = compute.match_substring_regex(texts, r"^(-?\d+)?$")
        example = _first(digits)
        if example is None or not _all(compute.or_(digits, single)):
            return None, None
        separator = re.sub(r"[\d\s-]", "", texts[example].as_py())[:1] or None
    return ListColumn("ids", separator).read(column), texts[example].as_py()


def _enclosed(texts: Any, first: str, last: str) -> Any:
    compute = arrow("compute")
    return compute.and_(compute.starts_with(texts, first), compute.ends_with(texts, last))


def _first(mask: Any) -> int | None:
    rows = np.flatnonzero(_numpy(mask))
    return int(rows[0]) if rows.size else None


def _all(mask: Any) -> bool:
    return bool(_numpy(mask).all())


def _numpy(mask: Any) -> Any:
    return arrow("compute").fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False)


def _trim_entries(lists: Any) -> Any:
    """Lists of texts without white space around the entries, as large lists."""
    compute = arrow("compute")
    values = compute.utf8_trim_whitespace(lists.flatten()).cast(arrow().large_string())
    offsets = compute.subtract(lists.offsets, lists.offsets[0]).cast(arrow().int64())
    return arrow().LargeListArray.from_arrays(offsets, values)


def _no_json(column: TableColumn, row: int) -> InputError:
    text = (column.values[row].as_py() or "").strip()
    remedy = 'write each cell of the column like ["a", "b"]; of arrays, that is .tolist()'
    return column.error(row, f"found {text!r:.60}, which is not a JSON list", remedy)


def _json_list(text: str) -> list[Any] | None:
    parsed: Any = None
    try:
        parsed = msgspec.json.decode(text)
    except msgspec.DecodeError:
        wrong = (ValueError, SyntaxError, MemoryError, RecursionError)
        with warnings.catch_warnings(), suppress(*wrong):
            warnings.simplefilter("ignore", SyntaxWarning)
            parsed = ast.literal_eval(text) if _PYTHON.fullmatch(text) else None
    return parsed if isinstance(parsed, list) else None


def _values(lists: Any, blank: Any) -> list[list[float | str | None] | None]:
    """Lists of numbers and words, None for a blank cell; an empty entry is None."""

    def value(entry: str | None) -> float | str | None:
        with suppress(ValueError):
            return None if entry is None else float(entry)
        return entry or None

    return [
        None if is_blank else list(map(value, entries))
        for entries, is_blank in zip(lists.to_pylist(), blank.to_pylist(), strict=True)
    ]
