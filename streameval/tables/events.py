"""Tables with one event per row: lists in parquet, lists as text in CSV.

Functions raise SourceError for a column without lists, for a cell whose list seems to have another
format than its column, and for an entry that is not an id or number.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streameval.catalogue.grammar import written
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import Refusal
from streameval.decoding.values import label_texts
from streameval.errors import InvalidEventError, SourceError
from streameval.events import END_TIME, FIRST_TIME
from streameval.events.arrow import column_of, in_microseconds
from streameval.events.batch import IntArray
from streameval.tables.files import (
    FileTable,
    Kind,
    TableColumn,
    TableFile,
    arrow,
    require,
    times_of,
    users_of,
)

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
    found = given is not None and any(given in text for text in texts)
    # A space inside a cell is ambiguous, unless other cells confirm the caller's separator: then
    # it may be part of an id, for example a title.
    doubted = _SEPARATORS if found and separator.text else f"{_SEPARATORS} "

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
    found: Any = None
    if _is_bracketed(text):
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found = _literal(text)
    if not isinstance(found, list):
        remedy = 'write each cell of the column like ["a", "b"]; of arrays, that is .tolist()'
        raise column.error(row, f"found {text!r:.60}, which is not a JSON list", remedy)
    return found


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
        return next((each for each in _SEPARATORS if each in text and not each.isspace()), None)
    if len(parts) == 1:
        return next((each for each in doubted if each in text), None)
    ends = {part.strip()[at] for part in parts if part.strip() for at in (0, -1)}
    return next((each for each in _SEPARATORS if each in ends and each != separator), None)


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


_IDS = ("recommendations", "interactions")
_NUMBERS = ("gains", "positions", "scores")
GAINS: Final = "gains"
"""The only list column that is not a field of JSON records."""


class TableOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read the columns of a table.

    Attributes:
        fields: names of the columns; those of positions and scores are optional.
        gains: name of the optional column of gains.
        labels: columns to split by.
        separators: separators in lists that are text, by column; "" is all columns.
        users: whether to read the user of each list.
        times: whether to read the time of each list.
        integers: whether to convert text ids to integers.
    """

    fields: EventFields
    gains: str = GAINS
    labels: Sequence[str] = ()
    separators: Mapping[str, str] = {}
    users: bool = False
    times: bool = False
    integers: bool = False

    def column(self, name: str) -> str:
        """The name of the column for this field of `Columns`."""
        field: str | None = self.gains if name == GAINS else getattr(self.fields, name)
        return field or name

    @property
    def by(self) -> list[str]:
        """The names of the label columns in the result of `event_rows`."""
        return [f"label {name}" for name in self.labels]

    def wanted(self) -> set[str]:
        """The names of all columns to read, if the table has them."""
        fields = self.fields
        labels = (fields.labels.get(name, name) for name in self.labels)
        lists = map(self.column, (*_IDS, *_NUMBERS))
        values = (fields.per_item or {}).values()
        return {*lists, *labels, *values, fields.user, *([fields.time] if fields.time else [])}

    def separator(self, column: str) -> Separator:
        """The separator in the lists of a column."""
        named = self.separators.get(column)
        return Separator(named or self.separators.get(""), explicit=named is not None)


def separators_of(texts: Iterable[str]) -> dict[str, str]:
    """Separators by column, from "|" (for every column, with the key "") and "column=|".

    Example:
        >>> separators_of(["|", "clicks=;", "="])
        {'': '=', 'clicks': ';'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, separator = text.partition("=")
        found |= {name: separator} if name and separator else {"": text}
    return found


def event_rows(table: FileTable, options: TableOptions) -> Any:
    """Rows of a file as an Arrow table with the columns of `Columns` and of `options.by`."""
    for name in options.separators:
        if name and name not in table.names:
            remedy = f"--separator {name}=... names one of them; --separator '|' is for all"
            raise SourceError(table.path, f"no column {name!r}; {table.listing}", remedy)
    columns = {}
    for name in (*_IDS, *_NUMBERS):
        known = options.column(name)
        if name in _IDS or known != name or known in table.names:
            column = _column(table, known, name)
            numeric = name not in _IDS
            separator = (
                options.separator(known) if numeric else _separator_of_ids(table, known, options)
            )
            columns[name] = lists_of(column, separator, numeric=numeric)
    if options.integers:
        columns |= {name: _integers(table.path, columns[name]) for name in _IDS}
    _refuse_floats(table.path, columns)
    if options.fields.per_item:
        columns["per_item"] = _item_values(table, options)
    user, time, unit = options.fields.user, options.fields.time, options.fields.time_unit
    if options.users and (user in table.names or user != EventFields().user):
        columns["users"] = users_of(_column(table, user, "user"))
    if options.times and time is not None and unit is not None:
        columns["times"] = arrow().array(times_of(_column(table, time, "time"), unit))
    for label, name in zip(options.by, options.labels, strict=True):
        column = _column(table, options.fields.labels.get(name, name), name)
        columns[label] = _label(column, options.fields.max_label_bytes)
    return arrow().table(columns)


def _item_values(table: FileTable, options: TableOptions) -> Any:
    """The values of per_item as an Arrow array of structs of lists."""
    named = options.fields.per_item or {}
    lists = [
        _lists_of_values(_column(table, column, f"per_item.{name}"), options.separator(column))
        for name, column in named.items()
    ]
    return arrow().StructArray.from_arrays(lists, names=list(named))


def _lists_of_values(column: TableColumn, separator: Separator) -> Any:
    """Lists of numbers, or of words if any entry of the column is not a number; null is unknown."""
    if holds_lists(column.table.path, column.name, column.values.type):
        return column.values
    cells = _Cells("numbers or words", _item_value, [None], None)
    lists = _split(column, _texts(column), separator, cells)
    kinds = {type(value) for values in lists for value in values or ()}
    if str in kinds:
        lists = [values and [_word(value) for value in values] for values in lists]
    kind = arrow().large_string() if str in kinds else arrow().float64()
    return arrow().array(lists, arrow().large_list(kind))


def _item_value(entry: Any) -> float | str | None:
    if not isinstance(entry, str):
        return None if entry is None else float(_number(entry))
    try:
        return float(entry)
    except ValueError:
        return entry.strip() or None


def _word(value: float | str | None) -> str | None:
    return None if value is None else written(value)


def _separator_of_ids(table: FileTable, name: str, options: TableOptions) -> Separator:
    """Make "|" the separator of a column without it if the other column of ids has it."""
    given = options.separator(name)
    if given.text is not None or table.text is None:
        return given
    any_of, match = arrow("compute").any, arrow("compute").match_substring
    piped = {
        each: any_of(match(_column(table, each, role).values, "|")).as_py()
        for each, role in ((options.column(role), role) for role in _IDS)
    }
    return Separator("|") if any(piped.values()) and not piped[name] else given


def _refuse_floats(path: str, columns: Mapping[str, Any]) -> None:
    """Refuse text ids like 7.0 in one column and 7 in the other, which never match."""
    forms = {name: _forms(columns[name]) for name in _IDS}
    if set(forms.values()) == {"integers", "floats"}:
        floats = next(name for name in _IDS if forms[name] == "floats")
        first = columns[floats].flatten()[0].as_py()
        problem = f"the ids of {floats} are floats, like {first!r:.40}, but the others are integers"
        raise SourceError(path, problem, "write integers in both; missing values cause floats")


def _forms(lists: Any) -> str | None:
    ids, matches = lists.flatten(), arrow("compute").match_substring_regex
    if not len(ids) or not arrow().types.is_large_string(ids.type):
        return None
    for form, pattern in (("integers", r"^-?\d+$"), ("floats", r"^-?\d+\.0$")):
        alike = (matches(each, pattern) for each in (ids[:1], ids))
        if all(arrow("compute").all(each).as_py() for each in alike):
            return form
    return None


def kind_of(files: Sequence[TableFile], options: TableOptions) -> Kind:
    """The kind of the ids of all files; "string" if any are text."""
    kinds: dict[bool, str] = {}
    for file in files:
        for name in _IDS:
            kind = _kind(file, options.column(name), name)
            if not arrow().types.is_null(kind):
                kinds.setdefault(arrow().types.is_integer(kind), f"{name} of {file.path}")
    if len(kinds) > 1 and options.fields.ids != "integer":
        problem = f"ids are integers in {kinds[True]} and text in {kinds[False]}"
        remedy = 'write them alike, or set ids = "integer" under [event] in --config FILE'
        raise SourceError(files[0].path, problem, remedy)
    return "string" if False in kinds or not kinds else "integer"


def _kind(file: TableFile, column: str, name: str) -> Any:
    """Arrow's type of the ids in a column."""
    if file.schema is None:
        return arrow().large_string()
    require(file.path, column, file.schema.names, _remedy(name))
    kind = file.schema.field(column).type
    if not holds_lists(file.path, column, _plain(kind)):
        return arrow().large_string()
    types, plain = arrow().types, _plain(kind.value_type)
    known = (types.is_integer, types.is_string, types.is_large_string, types.is_null)
    if not any(each(plain) for each in known):
        problem = f"{name} are lists of {plain}"
        raise SourceError(file.path, problem, "give ids as integers or as text")
    return plain


def _plain(kind: Any) -> Any:
    """The value type of a dictionary type; any other type unchanged."""
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def _integers(path: str, lists: Any) -> Any:
    try:
        return lists.cast(arrow().large_list(arrow().int64()))
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError(path, " ".join(str(error).split()), remedy) from error


def _column(table: FileTable, name: str, role: str) -> TableColumn:
    return table.column(name, _remedy(role))


def _remedy(role: str) -> str:
    option = "--time NAME" if role == "time" else f"--column {role}=NAME"
    name = f"name the one that holds the {role} with {option}"
    rows = "give rows of users and items to evaluate as --recommendations and --truth"
    return f"{name}, or {rows}" if role in _IDS else name


def _label(column: TableColumn, most: int) -> Any:
    """A dictionary-encoded column of labels, whose values are checked."""
    nested = column.values.type.num_fields > 0
    found = column.values if nested else column.values.dictionary_encode()
    for place, value in enumerate((found if nested else found.dictionary).to_pylist()):
        try:
            label_texts([value], most)
        except Refusal as refusal:
            row = place if nested else found.indices.to_pylist().index(place)
            problem = f"{column.table.place(row)}: {refusal}"
            remedy = "split by a column of short text or of integers"
            raise SourceError(column.table.path, problem, remedy) from refusal
    return found


def span_starts(times: IntArray, every: int) -> IntArray:
    """The start of the span of each time; spans are aligned to the epoch."""
    return np.floor_divide(times, every) * every


def starts_of(table: Any, every: int) -> list[IntArray]:
    """The start of each row's span, and whether the row has a time (0 or 1)."""
    column = in_microseconds(column_of(table, "times").combine_chunks())
    if not arrow().types.is_integer(column.type):
        detail = f"times: {column.type}; give timestamps, or microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    times = column.fill_null(0).to_numpy().astype(np.int64)
    if (wrong := times[(times < FIRST_TIME) | (times >= END_TIME)]).size:
        detail = f"times: {wrong[0]}; give timestamps, or microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    known = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return [span_starts(times, every) * known, known]
