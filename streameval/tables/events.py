"""Tables in which a row is one event: lists in parquet, separated ids in CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streameval.columns import Columns
from streameval.errors import SourceError
from streameval.pipeline.fields import EventFields
from streameval.pipeline.invalid import Refusal
from streameval.pipeline.labels import label_texts
from streameval.tables.arrow import arrow
from streameval.tables.reading import table_of
from streameval.tables.separated import separated
from streameval.tables.values import Kind

_IDS = ("recommendations", "interactions")
_NUMBERS = ("gains", "positions", "scores")


class EventTable(NamedTuple):
    """One file, one event a row.

    Attributes:
        path: the file.
        columns: Arrow arrays of lists, by the names of `Columns`.
        slices: rows by the values of the labels, ascending; None stands for all rows.
    """

    path: str
    columns: Mapping[str, Any]
    slices: Mapping[tuple[str, ...], list[int] | None]

    def parts(self) -> Iterator[tuple[tuple[str, ...], Columns]]:
        """Label values, and the events that have them."""
        for labels, rows in self.slices.items():
            whole = self.columns.items()
            yield (
                labels,
                Columns(
                    **{
                        name: each if rows is None else each.take(arrow().array(rows))
                        for name, each in whole
                    }
                ),
            )


def event_table(
    path: str, fields: EventFields, labels: Sequence[str], separator: str | None = None
) -> EventTable:
    """A file of events.

    Args:
        path: parquet or CSV, as `table_of` reads it.
        fields: names of the columns; scores, positions and gains are read where there are any.
        labels: columns to split by.
        separator: between the ids of a list that is text; None means "|" in a column that holds
            one, and white space otherwise.

    Raises:
        SourceError: it cannot be read, or lacks a column.
        MissingExtraError: pyarrow is not installed.
    """
    table = table_of(path)
    columns = {}
    for name in (*_IDS, *_NUMBERS):
        column = getattr(fields, name, None) or name
        if name in _IDS or column in table.column_names:
            numeric = None if name in _IDS else name
            found = _column(path, table, column)
            columns[name] = separated(path, column, found, separator, numeric=numeric is not None)
    return EventTable(path, columns, _slices(path, table, fields, labels))


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


def _column(path: str, table: Any, name: str) -> Any:
    if table.column_names.count(name) != 1:
        known = ", ".join(table.column_names[:20])
        remedy = "rename it, or say which it is in [event] of a --config"
        raise SourceError(path, f"no column {name!r}; its columns: {known}", remedy)
    return table[name].combine_chunks()


def _slices(
    path: str, table: Any, fields: EventFields, labels: Sequence[str]
) -> dict[tuple[str, ...], list[int] | None]:
    if not labels:
        return {(): None}
    columns = [_column(path, table, fields.labels.get(name, name)).to_pylist() for name in labels]
    found: dict[tuple[str, ...], list[int]] = {}
    for row, values in enumerate(zip(*columns, strict=True)):
        try:
            found.setdefault(label_texts(values), []).append(row)
        except Refusal as refusal:
            problem = f"row {row + 1}: {refusal}"
            raise SourceError(path, problem, "split by a column of text or integers") from refusal
    return dict(sorted(found.items()))
