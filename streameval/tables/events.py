"""Tables with one event a row: lists in parquet, lists as text in CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import Refusal
from streameval.decoding.values import label_texts
from streameval.errors import SourceError
from streameval.events.ragged import IntArray
from streameval.tables.files import (
    Column,
    Kind,
    Table,
    TableFile,
    arrow,
    require,
    times_of,
    users_of,
)
from streameval.tables.lists import Separator, holds_lists, lists_of

_IDS = ("recommendations", "interactions")
_NUMBERS = ("gains", "positions", "scores")
GAINS: Final = "gains"
"""The only list of a table that is not a field of a JSON record."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How the columns of a table are to be read.

    Attributes:
        fields: names of the columns; positions and scores are read where there are any.
        gains: name of the column of gains, read likewise.
        labels: columns to split by.
        separators: between the entries of lists that are text, by column; "" is all columns.
        users: whether it is read who saw each list.
        times: whether it is read when each was shown.
        integers: whether ids that are text are made integers.
    """

    fields: EventFields
    gains: str = GAINS
    labels: Sequence[str] = ()
    separators: Mapping[str, str] = {}
    users: bool = False
    times: bool = False
    integers: bool = False

    def column(self, name: str) -> str:
        """The name of the column that holds what `Columns` calls so."""
        field: str | None = self.gains if name == GAINS else getattr(self.fields, name)
        return field or name

    @property
    def by(self) -> list[str]:
        """The columns of `event_rows` that hold the labels."""
        return [f"label {name}" for name in self.labels]

    def wanted(self) -> set[str]:
        """The names of all columns that are read, where they are there."""
        fields = self.fields
        labels = (fields.labels.get(name, name) for name in self.labels)
        lists = map(self.column, (*_IDS, *_NUMBERS))
        return {*lists, *labels, fields.user, *([fields.time] if fields.time else [])}

    def separator(self, column: str) -> Separator:
        """What stands between the entries of a column's lists."""
        named = self.separators.get(column)
        return Separator(named or self.separators.get(""), insisted=named is not None)


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


def event_rows(table: Table, form: Form) -> Any:
    """Rows of a file as events.

    Returns:
        An Arrow table with columns named like those of `Columns`, and those of `form.by`.
    """
    for name in form.separators:
        if name and name not in table.names:
            remedy = f"--separator {name}=... names one of them; --separator '|' is for all"
            raise SourceError(table.path, f"no column {name!r}; {table.listing}", remedy)
    columns = {}
    for name in (*_IDS, *_NUMBERS):
        known = form.column(name)
        if name in _IDS or known != name or known in table.names:
            column = _column(table, known, name)
            separator = form.separator(known)
            columns[name] = lists_of(column, separator, numeric=name not in _IDS)
    if form.integers:
        columns |= {name: _integers(table.path, columns[name]) for name in _IDS}
    user, time, unit = form.fields.user, form.fields.time, form.fields.time_unit
    if form.users and (user in table.names or user != EventFields().user):
        columns["users"] = users_of(_column(table, user, "user"))
    if form.times and time is not None and unit is not None:
        columns["times"] = arrow().array(times_of(_column(table, time, "time"), unit))
    for label, name in zip(form.by, form.labels, strict=True):
        column = _column(table, form.fields.labels.get(name, name), name)
        columns[label] = _label(column, form.fields.max_label_bytes)
    return arrow().table(columns)


def kind_of(files: Sequence[TableFile], form: Form) -> Kind:
    """The kind of the ids of all files."""
    kinds: dict[bool, str] = {}
    for file in files:
        for name in _IDS:
            kind = _kind(file, form.column(name), name)
            if not arrow().types.is_null(kind):
                kinds.setdefault(arrow().types.is_integer(kind), f"{name} of {file.path}")
    if len(kinds) > 1:
        problem = f"ids are integers in {kinds[True]} and text in {kinds[False]}"
        raise SourceError(files[0].path, problem, "write them in one way")
    return "integer" if True in kinds else "string"


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
    """A type without its dictionary."""
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def _integers(path: str, lists: Any) -> Any:
    try:
        return lists.cast(arrow().large_list(arrow().int64()))
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError(path, " ".join(str(error).split()), remedy) from error


def _column(table: Table, name: str, role: str) -> Column:
    return table.column(name, _remedy(role))


def _remedy(role: str) -> str:
    return f"name the one that holds the {role} with --column {role}=NAME"


def _label(column: Column, most: int) -> Any:
    """A column of labels, each value once and codes for them; all of its values can be labels."""
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
    """The start of the span that each time lies in; spans are aligned to the epoch."""
    return np.floor_divide(times, every) * every
