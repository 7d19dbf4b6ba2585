"""Tables in which a row is one event: lists in parquet, lists as text in CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import Refusal
from streameval.decoding.values import label_texts
from streameval.errors import SourceError
from streameval.events.columns import Columns
from streameval.events.ragged import IntArray
from streameval.tables.files import (
    Column,
    Kind,
    Separator,
    Table,
    arrow,
    lists_of,
    table_of,
    times_of,
    users_of,
)

_IDS = ("recommendations", "interactions")
_NUMBERS = ("gains", "positions", "scores")
GAINS: Final = "gains"
"""The one list of a table that is no field of a JSON record."""

Place: TypeAlias = tuple[int | None, tuple[str, ...]]
"""Start of a span of event time, microseconds since the epoch, None for all time; label values."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How the columns of a table are to be read.

    Attributes:
        fields: names of the columns; positions and scores are read where there are any.
        gains: name of the column of gains, read likewise.
        labels: columns to split by.
        separators: between the entries of lists that are text, by column; "" stands for all.
        every: length of the spans of event time to split by, microseconds; None for all time.
        seen: whether it is read who saw each list, and when.
    """

    fields: EventFields
    gains: str = GAINS
    labels: Sequence[str] = ()
    separators: Mapping[str, str] = {}
    every: int | None = None
    seen: bool = False

    def column(self, name: str) -> str:
        """The name of the column that holds what `Columns` calls so."""
        field: str | None = self.gains if name == GAINS else getattr(self.fields, name)
        return field or name

    def separator(self, column: str) -> Separator:
        """What stands between the entries of a column's lists."""
        named = self.separators.get(column)
        return Separator(named or self.separators.get(""), insisted=named is not None)


class EventTable(NamedTuple):
    """One file, one event a row.

    Attributes:
        path: the file.
        columns: Arrow arrays of lists, by the names of `Columns`.
        slices: rows by time and labels; None stands for all rows.
    """

    path: str
    columns: Mapping[str, Any]
    slices: Mapping[Place, list[int] | None]

    def parts(self) -> Iterator[tuple[Place, Columns]]:
        """Time and label values, and the events that have them."""
        for place, rows in self.slices.items():
            taken = self.columns
            if rows is not None:
                chosen = arrow().array(rows)
                taken = {name: each.take(chosen) for name, each in self.columns.items()}
            yield place, Columns(**taken)


def separators_of(texts: Iterable[str]) -> dict[str, str]:
    """Separators by column from "|" (of every column, under "") and "column=|".

    Example:
        >>> separators_of(["|", "clicks=;", "="])
        {'': '=', 'clicks': ';'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, separator = text.partition("=")
        found |= {name: separator} if name and separator else {"": text}
    return found


def event_table(path: str, form: Form) -> EventTable:
    """A file of events.

    Args:
        path: parquet or CSV, as `table_of` reads it.
        form: how its columns are to be read.

    Raises:
        SourceError: it cannot be read, lacks a column, or a column does not hold what it should.
        MissingExtraError: pyarrow is not installed.
    """
    table = table_of(path)
    for name in form.separators:
        if name and name not in table.names:
            remedy = f"--separator {name}=... names one of them; --separator '|' is for all"
            raise SourceError(path, f"no column {name!r}; {table.listing}", remedy)
    columns = {}
    for name in (*_IDS, *_NUMBERS):
        known = form.column(name)
        if name in _IDS or known != name or known in table.names:
            column = _column(table, known, name)
            separator = form.separator(known)
            columns[name] = lists_of(column, separator, numeric=name not in _IDS)
    if form.seen:
        columns |= _seen(table, form)
    return EventTable(path, columns, _slices(table, form))


def kind_of(tables: Sequence[EventTable]) -> Kind:
    """The kind of the ids of all tables.

    Raises:
        SourceError: some are integers and others are text, or some are neither.
    """
    kinds: dict[bool, str] = {}
    for table in tables:
        for name in _IDS:
            kind = table.columns[name].type.value_type
            if not arrow().types.is_null(kind):
                _refuse_strange(table.path, name, kind)
                kinds.setdefault(arrow().types.is_integer(kind), f"{name} of {table.path}")
    if len(kinds) > 1:
        problem = f"ids are integers in {kinds[True]} and text in {kinds[False]}"
        raise SourceError(tables[0].path, problem, "write them in one way")
    return "integer" if True in kinds else "string"


def with_integers(table: EventTable) -> EventTable:
    """The same with ids that are text as integers.

    Raises:
        SourceError: one is none.
    """
    lists = arrow().large_list(arrow().int64())
    try:
        found = {name: table.columns[name].cast(lists) for name in _IDS}
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError(table.path, " ".join(str(error).split()), remedy) from error
    return table._replace(columns={**table.columns, **found})


def _refuse_strange(path: str, name: str, kind: Any) -> None:
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
        raise SourceError(path, f"{name} are lists of {kind}", "give ids as integers or as text")


def _seen(table: Table, form: Form) -> dict[str, Any]:
    """Who saw each list, and when, where there are columns of that."""
    found: dict[str, Any] = {}
    user, time, unit = form.fields.user, form.fields.time, form.fields.time_unit
    if user in table.names or user != EventFields().user:
        found["users"] = users_of(_column(table, user, "user"))
    if time is not None and unit is not None:
        found["times"] = arrow().array(times_of(_column(table, time, "time"), unit))
    return found


def _column(table: Table, name: str, role: str) -> Column:
    return table.column(name, f"name the one that holds the {role} with --column {role}=NAME")


def _slices(table: Table, form: Form) -> dict[Place, list[int] | None]:
    if not form.labels and form.every is None:
        return {(None, ()): None}
    found: dict[Place, list[int]] = {}
    labels, starts = _labels(table, form), _starts(table, form)
    for row in range(table.content.num_rows):
        found.setdefault((starts[row] if starts else None, labels[row]), []).append(row)
    return dict(found)


def _starts(table: Table, form: Form) -> list[int] | None:
    """The start of each row's span."""
    name, unit = form.fields.time, form.fields.time_unit
    if form.every is None or name is None or unit is None:
        return None
    times = times_of(_column(table, name, "time"), unit)
    starts: list[int] = span_starts(times, form.every).tolist()
    return starts


def span_starts(times: IntArray, every: int) -> IntArray:
    """The start of the span that each time lies in; spans are aligned to the epoch."""
    return np.floor_divide(times, every) * every


def _labels(table: Table, form: Form) -> Sequence[tuple[str, ...]]:
    """The label values of each row."""
    if not form.labels:
        return [()] * table.content.num_rows
    fields = form.fields.labels
    columns = [_column(table, fields.get(name, name), name) for name in form.labels]
    found = []
    for row, values in enumerate(zip(*(each.values.to_pylist() for each in columns), strict=True)):
        try:
            found.append(label_texts(values, form.fields.max_label_bytes))
        except Refusal as refusal:
            problem = f"{table.place(row)}: {refusal}"
            remedy = "split by a column of short text or of integers"
            raise SourceError(table.path, problem, remedy) from refusal
    return found
