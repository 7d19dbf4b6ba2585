"""Files and frames of impressions and interactions, read as tables that `attribution` joins.

Functions raise InputError for a column that is missing or cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from streameval.decoding.fields import EventFields, TimeUnit
from streameval.evaluation.arguments import InputError, Named, Options, column
from streameval.evaluation.event_rows import time_column, user_column, uses_of_time
from streameval.evaluation.files import (
    RowBlock,
    TableColumn,
    TableInput,
    arrow,
    blocks_of,
    finite_or_none,
    listing,
    parts_of,
)
from streameval.evaluation.list_columns import ListColumn
from streameval.events.arrow import in_microseconds
from streameval.events.errors import InvalidEventError
from streameval.events.times import END_TIME, FIRST_TIME
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.tables import Attribution, Stream, concatenate, join_streams, pieces

if TYPE_CHECKING:
    from streameval.config import Config

_MICROSECONDS: Final[Mapping[TimeUnit, int]] = {"us": 1, "ms": 1_000, "s": 1_000_000}

_USUAL: Final[Mapping[str, Sequence[str]]] = {
    "time": ("times", "time"),
    "user": ("users", "user"),
}
"""Columns of a field, where none is named; others have the name of the field."""

_OPTIONAL: Final = ("type", "gain", "event_id", "stream")

FIELDS_OF_JOINS: Final = ("recommendations", "time", "user", "request_id", "item", *_OPTIONAL)
"""What `columns` can name in the tables of a join."""


class StreamTables(NamedTuple):
    """The tables of a stream.

    Attributes:
        columns: field -> column, where it has no usual name; None where there is none.
        unit: of event times that are numbers; None for microseconds.
        rule: the rules of the join, with the types and gains of this stream.
        is_configured: whether a configuration names the columns, not `columns`.
        required: ids without which a row is invalid, besides the key: as in a record, those that a
            configuration names.
    """

    tables: Sequence[TableInput]
    columns: Mapping[str, str | None]
    unit: TimeUnit | None
    rule: Attribution
    is_configured: bool = False
    required: Sequence[str] = ()


class JoinInputs(NamedTuple):
    """The inputs of a join: impressions, and streams of interactions.

    Attributes:
        names: of the streams, impressions first.
        has_rule: whether the caller gave a rule.
        config: the configuration that says so; None without.
    """

    impressions: StreamTables
    interactions: Sequence[StreamTables]
    names: Sequence[str]
    has_rule: bool = False
    config: Config | None = None

    @property
    def tables(self) -> Sequence[TableInput]:
        """All files and frames."""
        streams = (self.impressions, *self.interactions)
        return [table for stream in streams for table in stream.tables]


class JoinBucket(NamedTuple):
    """Rows that may belong together, as Arrow streams; those of impressions first."""

    number: int
    sides: Sequence[bytes | None]

    @property
    def size(self) -> int:
        """Bytes of the rows."""
        return sum(len(side) for side in self.sides if side is not None)


def configured_join(
    options: AttributionOptions, event: EventFields, tables: Mapping[str, Sequence[TableInput]]
) -> JoinInputs:
    """The inputs of a join as a configuration says.

    Args:
        options: the table [attribution].
        event: the table [event].
        tables: those of each stream, by its name.
    """

    def rule(stream: InteractionOptions | None) -> Attribution:
        return Attribution(
            key=options.key,
            window=options.window,
            lateness=options.lateness,
            combine=options.combine,
            per=[event.labels.get(name, name) for name in options.per],
            types=dict(stream.types) if stream else {},
            ignore=list(stream.ignore) if stream else [],
        )

    impression_fields = options.fields(event)
    columns = {
        "recommendations": impression_fields.recommendations,
        "time": impression_fields.time,
        "user": impression_fields.user,
    }
    columns = {name: of for name, of in columns.items() if of != getattr(EventFields(), name)}
    first = StreamTables(
        tables[options.names[0]],
        columns | {"request_id": impression_fields.event_id},
        event.time_unit,
        rule(None),
        is_configured=True,
        required=[]
        if impression_fields.event_id is None or options.key == "request_id"
        else ["request_id"],
    )
    streams = []
    for name, stream in zip(options.names[1:], options.interactions, strict=True):
        named = {of: getattr(stream, of) for of in ("request_id", "item", "event_id", "gain")}
        user, time = stream.user or columns.get("user"), stream.time or columns.get("time")
        named |= {of: name for of, name in (("user", user), ("time", time)) if name is not None}
        # A type is read where there is one, as of a record.
        named |= {"type": stream.type} if stream.type != "type" else {}
        named["stream"] = None  # A configuration has a table for each stream.
        unit = stream.time_unit or event.time_unit
        required = [] if stream.event_id is None else ["event_id"]
        streams.append(
            StreamTables(
                tables[name], named, unit, rule(stream), is_configured=True, required=required
            )
        )
    return JoinInputs(first, streams, options.names)


def read_impressions(
    stream: StreamTables, options: Options, others: Sequence[str]
) -> tuple[Any, set[Named]]:
    """Impressions as `attribution.joined` takes them, and the settings that decided how.

    `others`: columns to keep, where there.
    """
    tables, used = [], set[Named]()
    for table in stream.tables:
        lists = _ids_column(stream, options)
        for block, columns in _blocks(table, stream, options, "impressions", others):
            used |= _uses(block, columns, stream)
            extra = {name: block.rows[name] for name in others if name in block.names}
            cells = block.column(columns["recommendations"])
            lists.has_bars = lists.note_bars(cells)
            extra |= _keys(block, columns)
            extra |= {"recommendations": lists.read(cells)}
            extra["times"] = _times_of(block, columns, stream)
            tables.append(arrow().table(extra))
        if lists.has_separator:
            name = stream.columns.get("recommendations") or "recommendations"
            used.add(("separator", name if name in options.separator else ""))
    return concatenate(*tables, side="impressions"), used


def read_interactions(stream: StreamTables, options: Options) -> tuple[Any, set[Named]]:
    """Interactions as `attribution.joined` takes them, and the settings that decided how."""
    tables, used = [], set[Named]()
    for table in stream.tables:
        for block, columns in _blocks(table, stream, options, "interactions", ()):
            used |= _uses(block, columns, stream)
            rows = _keys(block, columns)
            rows["times"] = _times_of(block, columns, stream)
            rows["item"] = user_column(block.column(columns["item"]))
            for role in set(columns) & {"type", "event_id", "stream"}:
                values = block.column(columns[role])
                is_id = role == "event_id"
                rows[role] = user_column(values) if is_id else _text(values.values)
            if "gain" in columns:
                rows["gain"] = _gains(block.column(columns["gain"]))
            tables.append(arrow().table(rows))
    return concatenate(*tables), used


def _uses(block: RowBlock, columns: Mapping[str, str], stream: StreamTables) -> set[Named]:
    """The settings that decide how a block is read."""
    absent = {field for field, name in stream.columns.items() if name is None}
    return {
        ("combine", None),  # Interactions have a gain each.
        *(("columns", field) for field in columns.keys() | absent),
        *((name, None) for name in block.used),
        *uses_of_time(block.column(columns["time"])),
    }


def divide(
    impressions: Any, streams: Sequence[Stream], rule: Attribution, buckets: int
) -> Sequence[JoinBucket]:
    """All rows by the key of the join, for several processes."""
    by_bucket: dict[int, list[bytes | None]] = {}
    tables = [impressions, *(stream.table for stream in streams)]
    for number, table in enumerate(tables):
        if table is None:
            continue
        side: Literal["impressions", "interactions"] = "interactions" if number else "impressions"
        for row in pieces(table, side, rule, buckets).to_pylist():
            of = by_bucket.setdefault(row["bucket"], [None] * len(tables))
            of[number] = row["rows"]
    return [JoinBucket(number, by_bucket[number]) for number in sorted(by_bucket)]


def rows_of_bucket(bucket: JoinBucket, streams: Sequence[Stream]) -> tuple[Any, Sequence[Stream]]:
    """The rows of a bucket: impressions, and the streams of interactions."""
    impressions, *reported = [
        None if side is None else arrow().ipc.open_stream(side).read_all() for side in bucket.sides
    ]
    pairs = zip(streams, reported, strict=True)
    return impressions, [stream._replace(table=table) for stream, table in pairs]


def empty_lists(impressions: Any, rule: Attribution) -> Any:
    """The columns of the lists that a join of these impressions makes, without rows."""
    return join_streams(impressions.slice(0, 0), [], rule).lists


def _blocks(
    table: TableInput, stream: StreamTables, options: Options, where: str, others: Sequence[str]
) -> Iterator[tuple[RowBlock, dict[str, str]]]:
    """The rows of a table, block by block, and the column of each field that it has."""
    columns: dict[str, str] = {}

    def select(path: str, names: Sequence[str]) -> dict[str, bool]:
        columns.update(_columns_of(path, names, stream, where))
        return dict.fromkeys((*columns.values(), *others), False)

    for part in parts_of(table, options):
        for block in blocks_of(part, select, options):
            yield block, columns


def _columns_of(
    path: str, names: Sequence[str], stream: StreamTables, where: str
) -> Iterator[tuple[str, str]]:
    key = "request_id" if stream.rule.key == "request_id" else "user"
    required = {"time", key, "recommendations" if where == "impressions" else "item"}
    optional = {"user", "request_id"} if where == "impressions" else {*_OPTIONAL}
    for field in FIELDS_OF_JOINS:
        if field not in required | optional:
            continue
        named = stream.columns.get(field)
        candidates = _USUAL.get(field, (field,)) if named is None else (named,)
        present = [name for name in candidates if name in names]
        is_off = field in stream.columns and named is None
        if present and not is_off:
            yield field, present[0]
        elif field in required or (named is not None and field != "user"):
            side = "" if path == where else f" ({where})"
            problem = f"{path}{side}: no column {candidates[-1]!r}; {listing(names)}"
            problem += f"; name the one that holds the {field}"
            if stream.is_configured:
                raise InputError(
                    "{problem} in {section}.", problem=problem, section=_section(field, where)
                )
            raise InputError("{problem} with {column}.", problem=problem, column=column(field))


def _section(field: str, where: str) -> str:
    """The table of a configuration that names the column of a field."""
    if where == "interactions":
        return "[[attribution.interactions]]"
    return "[attribution]" if field == "request_id" else "[event]"


def _ids_column(stream: StreamTables, options: Options) -> ListColumn:
    name = stream.columns.get("recommendations") or "recommendations"
    return ListColumn("ids", options.separator_of(name), explicit=name in options.separator)


def _keys(block: RowBlock, columns: Mapping[str, str]) -> dict[str, Any]:
    names = {"user": "users", "request_id": "request_id"}
    return {
        name: user_column(block.column(columns[role]))
        for role, name in names.items()
        if role in columns
    }


def _times_of(block: RowBlock, columns: Mapping[str, str], stream: StreamTables) -> Any:
    """The event times of rows; null also for rows without a required id, which are invalid."""
    times, compute = _times(block.column(columns["time"]), stream.unit), arrow("compute")
    for role in stream.required:
        present = compute.is_valid(user_column(block.column(columns[role])))
        times = compute.if_else(present, times, arrow().scalar(None, times.type))
    return times


def _times(values: TableColumn, unit: TimeUnit | None) -> Any:
    """Event times in microseconds; null where there is none, which is an invalid row."""
    array, types = values.values, arrow().types
    if types.is_null(array.type):
        return array.cast(arrow().int64())
    if types.is_timestamp(array.type) or types.is_date(array.type):
        try:
            return in_microseconds(array)
        except InvalidEventError as error:
            raise InputError("{problem}.", problem=f"{values.path}: {error.detail}") from error
    if types.is_integer(array.type) and unit != "iso8601":
        scale = _MICROSECONDS[unit or "us"]
        numbers = array.fill_null(0).to_numpy().astype(np.int64)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        valid &= (numbers >= FIRST_TIME // scale) & (numbers <= END_TIME // scale)
        return arrow().array(np.where(valid, numbers, 0) * scale, mask=~valid)
    absent = array.is_null()
    if types.is_large_string(array.type):
        absent = arrow("compute").if_else(absent, absent, arrow("compute").equal(array, ""))
    rows = np.flatnonzero(~absent.fill_null(fill_value=True).to_numpy(zero_copy_only=False))
    present = values._replace(
        values=array.take(rows), where=lambda row: values.where(int(rows[row]))
    )
    times = np.zeros(len(array), np.int64)
    times[rows] = time_column(present, unit or "iso8601")
    return arrow().array(times, mask=np.isin(np.arange(times.size), rows, invert=True))


def _text(array: Any) -> Any:
    return array.cast(arrow().large_string())


def _gains(values: TableColumn) -> Any:
    """Gains as numbers, null where there is none; anything else is NaN, an invalid row."""
    array = values.values
    if not arrow().types.is_large_string(array.type):
        return array
    numbers = [None if text in (None, "") else finite_or_none(text) for text in array.to_pylist()]
    wrong = [
        number is None and text not in (None, "")
        for number, text in zip(numbers, array.to_pylist(), strict=True)
    ]
    gains = [float("nan") if bad else number for number, bad in zip(numbers, wrong, strict=True)]
    return arrow().array(gains, arrow().float64())


def event_fields_of(base: EventFields) -> EventFields:
    """The fields of the lists that a join makes, of which other columns keep their names."""
    return msgspec.structs.replace(
        base,
        recommendations="recommendations",
        interactions="interactions",
        user=EventFields().user,
        time="times",
        time_unit="us",
        event_id=None,
        types=None,
    )
