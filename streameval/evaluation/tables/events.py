"""Tables with one event per row: their columns as those of events.

Functions raise SourceError for a column that is missing or has no lists, and for unlike ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import Refusal
from streameval.decoding.values import label_texts
from streameval.evaluation.tables.files import (
    FileTable,
    Kind,
    TableColumn,
    TableFile,
    arrow,
    ids_of,
    require,
    times_of,
    users_of,
)
from streameval.evaluation.tables.lists import Separator, holds_lists, lists_of, value_lists
from streameval.evaluation.tables.wording import COMMAND, Wording
from streameval.events.arrow import column_of, in_microseconds
from streameval.events.batch import IntArray
from streameval.events.errors import InvalidEventError, SourceError
from streameval.events.times import outside_error, outside_range

_IDS = ("recommendations", "interactions")
_NUMBERS = ("gains", "positions", "scores")
USERS: Final = "users"
"""Another usual name of the column of users."""

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
        event_ids: whether to read the id of each event.
        integers: whether to convert text ids to integers.
        wording: how messages name these options.
    """

    fields: EventFields
    gains: str = GAINS
    labels: Sequence[str] = ()
    separators: Mapping[str, str] = {}
    users: bool = False
    times: bool = False
    event_ids: bool = False
    integers: bool = False
    wording: Wording = COMMAND

    def column(self, name: str) -> str:
        """The name of the column for this field of `Columns`."""
        field: str | None = self.gains if name == GAINS else getattr(self.fields, name)
        return field or name

    def user_in(self, table: FileTable) -> str:
        """The column of users: the named one; a frame's may be called `users`, as in `Columns`."""
        user = self.fields.user
        plural = user == EventFields().user and user not in table.names and USERS in table.names
        return USERS if plural else user

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
        return {
            *lists,
            *labels,
            *values,
            fields.user,
            USERS,
            *(name for name in (fields.time, fields.event_id) if name is not None),
        }

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
    separators: dict[str, str] = {}
    for text in texts:
        name, _, separator = text.partition("=")
        separators |= {name: separator} if name and separator else {"": text}
    return separators


def event_rows(table: FileTable, options: TableOptions) -> Any:
    """Rows of a file as an Arrow table with the columns of `Columns` and of `options.by`."""
    for name in options.separators:
        if name and name not in table.names:
            remedy = f"--separator {name}=... names one of them; --separator '|' is for all"
            raise SourceError(table.path, f"no column {name!r}; {table.listing}", remedy)
    columns = {}
    for name in (*_IDS, *_NUMBERS):
        column_name = options.column(name)
        if name in _IDS or column_name != name or column_name in table.names:
            column = _column(table, column_name, name, options.wording)
            numeric = name not in _IDS
            separator = (
                options.separator(column_name)
                if numeric
                else _separator_of_ids(table, column_name, options)
            )
            columns[name] = lists_of(column, separator, numeric=numeric)
    if options.integers:
        columns |= {name: _integers(table.path, columns[name]) for name in _IDS}
    _refuse_floats(table.path, columns)
    if options.fields.per_item:
        columns["per_item"] = _item_values(table, options)
    columns |= _of_event(table, options)
    for label, name in zip(options.by, options.labels, strict=True):
        column = _column(table, options.fields.labels.get(name, name), name, options.wording)
        columns[label] = _label(column, options.fields.max_label_bytes)
    return arrow().table(columns)


def _of_event(table: FileTable, options: TableOptions) -> dict[str, Any]:
    """The columns with one value per event: its user, time and id, as far as they are read."""
    columns: dict[str, Any] = {}
    user, time, unit = options.user_in(table), options.fields.time, options.fields.time_unit
    if options.users and (user in table.names or user != EventFields().user):
        columns["users"] = users_of(_column(table, user, "user", options.wording))
    if options.times and time is not None and unit is not None:
        columns["times"] = arrow().array(
            times_of(_column(table, time, "time", options.wording), unit)
        )
    if options.event_ids and options.fields.event_id is not None:
        columns["event_ids"] = ids_of(
            _column(table, options.fields.event_id, "event_id", options.wording)
        )
    return columns


def _item_values(table: FileTable, options: TableOptions) -> Any:
    """The values of per_item as an Arrow array of structs of lists."""
    named = options.fields.per_item or {}
    lists = [
        value_lists(
            _column(table, column, f"per_item.{name}", options.wording), options.separator(column)
        )
        for name, column in named.items()
    ]
    return arrow().StructArray.from_arrays(lists, names=list(named))


def _separator_of_ids(table: FileTable, name: str, options: TableOptions) -> Separator:
    """Make "|" the separator of a column without it if the other column of ids has it."""
    given = options.separator(name)
    if given.text is not None or table.text is None:
        return given
    any_of, match = arrow("compute").any, arrow("compute").match_substring
    piped = {
        column_name: any_of(
            match(_column(table, column_name, role, options.wording).values, "|")
        ).as_py()
        for column_name, role in ((options.column(role), role) for role in _IDS)
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
        alike = (matches(sample, pattern) for sample in (ids[:1], ids))
        if all(arrow("compute").all(sample).as_py() for sample in alike):
            return form
    return None


def kind_of(files: Sequence[TableFile], options: TableOptions) -> Kind:
    """The kind of the ids of all files; "string" if any are text."""
    kinds: dict[bool, str] = {}
    for file in files:
        for name in _IDS:
            kind = _kind(file, options.column(name), name, options.wording)
            if not arrow().types.is_null(kind):
                kinds.setdefault(arrow().types.is_integer(kind), f"{name} of {file.path}")
    if len(kinds) > 1 and options.fields.ids != "integer":
        problem = f"ids are integers in {kinds[True]} and text in {kinds[False]}"
        remedy = 'write them alike, or set ids = "integer" under [event] in --config FILE'
        raise SourceError(files[0].path, problem, remedy)
    return "string" if False in kinds or not kinds else "integer"


def _kind(file: TableFile, column: str, name: str, wording: Wording) -> Any:
    """Arrow's type of the ids in a column."""
    if file.schema is None:
        return arrow().large_string()
    require(file.path, column, file.schema.names, _remedy(name, wording))
    kind = file.schema.field(column).type
    if not holds_lists(file.path, column, _plain(kind)):
        return arrow().large_string()
    types, plain = arrow().types, _plain(kind.value_type)
    plain_kinds = (types.is_integer, types.is_string, types.is_large_string, types.is_null)
    if not any(is_kind(plain) for is_kind in plain_kinds):
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


def _column(table: FileTable, name: str, role: str, wording: Wording) -> TableColumn:
    return table.column(name, _remedy(role, wording))


def _remedy(role: str, wording: Wording) -> str:
    option = wording.option("time", "NAME") if role == "time" else wording.column(role)
    name = f"name the one that holds the {role} with {option}"
    pair = f"{wording.option('recommendations')} and {wording.option('truth')}"
    rows = f"give rows of users and items to evaluate as {pair}"
    return f"{name}, or {rows}" if role in _IDS else name


def _label(column: TableColumn, most: int) -> Any:
    """A dictionary-encoded column of labels, whose values are checked."""
    nested = column.values.type.num_fields > 0
    encoded = column.values if nested else column.values.dictionary_encode()
    for place, value in enumerate((encoded if nested else encoded.dictionary).to_pylist()):
        try:
            label_texts([value], most)
        except Refusal as refusal:
            row = place if nested else encoded.indices.to_pylist().index(place)
            problem = f"{column.table.place(row)}: {refusal}"
            remedy = "split by a column of short text or of integers"
            raise SourceError(column.table.path, problem, remedy) from refusal
    return encoded


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
    if (outside := outside_range(times)).size:
        raise outside_error(times[outside[0]])
    is_valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return [span_starts(times, every) * is_valid, is_valid]
