"""Partial results of a distributed evaluation, which merge to the bits of one process.

An engine that distributes work (Spark, Ray, Beam, a pool of processes) runs `partials` on each part
of the data and collects the rows; `merged` adds them. The state in a row depends only on the
events, so it does not matter how they were divided.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, Unpack
from zlib import crc32

import msgspec
import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.codec import STATE_VERSION
from streameval.accumulator.inputs import check_same_inputs, check_same_zone
from streameval.accumulator.kinds.experiment import PrePeriod
from streameval.catalogue.context import TIME_ZONE, USER_KEY, AttributeInputs
from streameval.catalogue.items import Popularity, Similarity
from streameval.catalogue.lookup import absent_module
from streameval.decoding.invalid import Refusal
from streameval.decoding.values import label_texts
from streameval.engine.backfill import Backfill, BackfillRow
from streameval.engine.windows.family import unfit
from streameval.engine.windows.times import DurationError, Spans, parse_spans
from streameval.evaluation.fields import reads_types
from streameval.evaluation.files import arrow
from streameval.evaluation.slice_counts import Cell
from streameval.events import Id
from streameval.events.arrow import (
    ArrowTable,
    as_table,
    column_of,
    in_microseconds,
    refuse_bombs,
    with_user_column,
)
from streameval.events.batch import IntArray
from streameval.events.columns import Columns
from streameval.events.errors import (
    DamagedStateError,
    InvalidEventError,
    MetricTextError,
    SourceError,
    SuspiciousEventsWarning,
)
from streameval.events.ids import IdKind
from streameval.events.saved_states import damage_as_error, damaged, unknown_version, unlike
from streameval.events.spelling import refuse_unknown
from streameval.events.times import outside_error, outside_range
from streameval.sources.partial_files import PartialFile, partial_files
from streameval.sources.remote import is_remote, object_reader
from streameval.statistics.intervals import Intervals
from streameval.statistics.limits import MAX_ITEMS
from streameval.statistics.user_key import UserHashKey, saved_key

_SPLIT_BY: Final = "split by short text, integers or booleans"
_RENAME: Final = "rename the columns of the tables to those of streameval.Columns."
_LONGEST_SPAN: Final = 2**62
"""Microseconds: more than any event time has."""
_LONGEST_STATE: Final = 1 << 30
"""Most bytes of the state of a row: more than a table of all items and users takes."""


class Partial(NamedTuple):
    """The counts of lists of one cell.

    Attributes:
        state: the counts as bytes; equal counts give equal bytes.

    Example:
        >>> import pyarrow
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> (row,) = partials([table], "mrr")
        >>> row.labels, row.start, row.lists, type(row.state)
        ((), None, 1, <class 'bytes'>)
    """

    labels: tuple[str, ...]
    start: int | None
    lists: int
    state: bytes


PartialRow: TypeAlias = Partial | Sequence[Any] | Mapping[str, Any]
"""A partial, or the sequence or mapping that an engine returns for it."""

PartialRows: TypeAlias = Iterable[PartialRow] | ArrowTable


class ItemInputs(TypedDict, total=False):
    """Inputs of metrics about items, as for an Accumulator."""

    catalog: int | Collection[Id] | None
    popularity: Popularity | None
    similarity: Similarity | None
    attributes: AttributeInputs | None
    examination: Sequence[float] | None
    user_key: UserHashKey | str | None


class Inputs(ItemInputs, total=False):
    """Other arguments of an Accumulator."""

    depth: int | None
    max_items: int
    ids: IdKind | None
    experiment: bool | PrePeriod
    time_zone: str | None


class _State(msgspec.Struct, frozen=True, array_like=True):
    """The settings and counts of a row.

    Attributes:
        every: length of a span, microseconds; text, such as "1d", for days of a time zone.
    """

    version: int
    metrics: list[str]
    by: tuple[str, ...]
    every: int | str | None
    depth: int | None
    max_items: int
    ids: IdKind | None
    intervals: Intervals | None
    experiment: bool | PrePeriod
    inputs: dict[str, Any]
    content: bytes = b""
    crc: int | None = None

    def with_counts(self, content: bytes) -> _State:
        """The settings with counts, and a CRC-32 of everything else."""
        bare = msgspec.structs.replace(self, content=content, crc=None)
        return msgspec.structs.replace(bare, crc=crc32(msgspec.msgpack.encode(bare)))

    @property
    def time_zone(self) -> str | None:
        """The zone of the days."""
        return self.inputs.get(TIME_ZONE)

    @property
    def spans(self) -> Spans | None:
        """The spans; None for all time."""
        every = self.every
        if every is None:
            return None
        with damage_as_error("partial"):
            spans = parse_spans(every, self.time_zone) if isinstance(every, str) else Spans(every)
        if not 0 < spans.length <= _LONGEST_SPAN:
            raise damaged("partial", f"every={self.every!r}")
        return spans

    def settings(self) -> dict[str, Any]:
        """All but version, counts and CRC, by name."""
        named = msgspec.structs.asdict(self)
        inputs = named.pop("inputs")
        for name in ("version", "content", "crc"):
            del named[name]
        return named | {f"inputs.{name}": value for name, value in inputs.items()}


def partials(
    batches: Iterable[Any],
    *metrics: str,
    by: Sequence[str] = (),
    every: str | None = None,
    intervals: Intervals | None = None,
    **inputs: Unpack[Inputs],
) -> list[Partial]:
    """Count tables of events, split by columns and by spans of event time.

    Args:
        batches: Arrow tables or record batches, or frames of Polars, pandas or DuckDB, with one row
            per event and columns named as in `Columns`: recommendations, interactions, and
            optionally gains, typed, positions, scores, users and times.
        metrics: as for an Accumulator; your own as "package.module:name@k".
        by: columns whose values define the slices (text, integers, booleans); a string is one.
        every: length of spans, like "1h", aligned to the epoch; "1d" are days of `time_zone`;
            None for all time.
        intervals: settings of confidence intervals; None for no intervals.
        inputs: catalog, popularity, similarity, attributes, examination, user_key, depth,
            max_items, ids, experiment and time_zone, as for an Accumulator.

    Returns:
        One row for each cell with lists, by start and labels.

    Raises:
        InvalidEventError: a table lacks a column, or a row is not a valid event.
        MetricError: a metric is unknown, or lacks an input.
        MissingExtraError: pyarrow is not installed.
        ValueError: `every` is not a duration.

    Example:
        >>> import pyarrow
        >>> lists, clicks, variants = [["a", "b"]] * 3, [["b"], [], ["a"]], ["x", "x", "y"]
        >>> table = pyarrow.table(
        ...     {"recommendations": lists, "interactions": clicks, "variant": variants}
        ... )
        >>> rows = [
        ...     row
        ...     for piece in (table[:1], table[1:])
        ...     for row in partials([piece], "hit_rate@2", by=["variant"])
        ... ]
        >>> [(row.labels, row.lists) for row in rows]
        [(('x',), 1), (('x',), 1), (('y',), 1)]
        >>> {cell.labels: each.read("hit_rate@2").value for cell, each in merged(rows).items()}
        {('x',): 0.5, ('y',): 1.0}
    """
    return Counter(*metrics, by=by, every=every, intervals=intervals, **inputs).rows(batches)


class Counter:
    """`partials` for repeated calls; the inputs are prepared once.

    Raises:
        MetricError: a metric is unknown, or lacks an input.
        ValueError: `every` is not a duration.

    Example:
        >>> import pyarrow
        >>> counter = Counter("mrr")
        >>> tables = [
        ...     pyarrow.table({"recommendations": [["a", "b"]], "interactions": [[item]]})
        ...     for item in "ab"
        ... ]
        >>> rows = [row for table in tables for row in counter.rows([table])]
        >>> merged(rows)[Cell((), None)].read("mrr").value
        0.75
    """

    def __init__(
        self,
        *metrics: str,
        by: Sequence[str] = (),
        every: str | None = None,
        intervals: Intervals | None = None,
        **inputs: Unpack[Inputs],
    ) -> None:
        allowed = Inputs.__optional_keys__ | {"by", "every", "intervals"}
        refuse_unknown(inputs, allowed, {"columns": _RENAME})
        names: Any = (by,) if isinstance(by, str) else by
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            detail = f"by={by!r:.80}; give the names of columns in a list, or one name"
            raise InvalidEventError("wrong_type", detail)
        self._by = tuple(names)
        self._every = None if every is None else _spans(every, inputs.get(TIME_ZONE))
        self._empty = Accumulator(*metrics, intervals=intervals, **inputs)
        # Only intervals need the time of a list, and only metrics with type= the types.
        unread = {"times"} if intervals is None else set()
        if not any(map(reads_types, self._empty.metrics)):
            unread.add("typed")
        self._columns = [name for name in Columns.__struct_fields__ if name not in unread]
        self._settings = _State(
            version=STATE_VERSION,
            metrics=[metric.text for metric in self._empty.metrics],
            by=self._by,
            every=None if self._every is None else _saved_every(self._every),
            depth=inputs.get("depth"),
            max_items=inputs.get("max_items", MAX_ITEMS),
            ids=inputs.get("ids"),
            intervals=intervals,
            experiment=inputs.get("experiment", False),
            inputs=self._empty.context.identity,
        )

    def rows(self, batches: Iterable[Any]) -> list[Partial]:
        """One row for each cell with lists in these tables, by start and labels.

        Warns of events that look wrong; the rows do not tell.

        Raises:
            InvalidEventError: a table lacks a column, or a row is not a valid event.
            MissingExtraError: pyarrow is not installed.
        """
        cells = self.accumulators(batches)
        for counted in cells.values():
            if warning := counted.event_checks.warning(counted.metrics):
                warnings.warn(f"{warning}.", SuspiciousEventsWarning, stacklevel=3)
        return _rows_of(cells, self._settings)

    def accumulators(self, batches: Iterable[Any]) -> dict[Cell, Accumulator]:
        """The accumulator of each cell with lists, by start and labels; raises as `rows`."""
        if hasattr(batches, "columns") or not isinstance(batches, Iterable):
            detail = f"give tables in a list or an iterator, found {type(batches).__name__}"
            raise InvalidEventError("wrong_type", detail)
        cells: dict[Cell, Accumulator] = {}
        for batch in batches:
            for cell, rows in self.split(batch):
                if cell not in cells:
                    cells[cell] = self._empty.copy()
                cells[cell].update_many(rows)
        return _in_order(cells)

    def split(self, batch: Any) -> Iterator[tuple[Cell, Any]]:
        """The rows of each cell, as `Accumulator.update_many` takes them; raises as `rows`."""
        table = as_table(batch)
        for name in ("recommendations", "interactions"):
            column_of(table, name)
        named = with_user_column(table)
        events = named.select([name for name in named.column_names if name in self._columns])
        if not table.num_rows:
            return
        labels = [_label_codes(table, name) for name in self._by]
        starts = [] if self._every is None else _starts_of(table, self._every)
        keys = [*(codes for codes, _ in labels), *starts]
        if not keys:
            yield Cell((), None), events
            return
        order = np.lexsort(keys)
        edges = np.flatnonzero(sum(np.diff(key[order]) != 0 for key in keys)) + 1
        for rows in np.split(order, edges):
            codes = [int(key[rows[0]]) for key in keys]
            try:
                texts = label_texts(
                    [values[code] for (_, values), code in zip(labels, codes, strict=False)]
                )
            except Refusal as refusal:
                detail = f"{' and '.join(self._by)}: {refusal}; {_SPLIT_BY}"
                raise InvalidEventError("invalid_label", detail) from refusal
            yield Cell(texts, codes[-2] if starts and codes[-1] else None), events.take(rows)


def merged(rows: PartialRows, **inputs: Unpack[ItemInputs]) -> dict[Cell, Accumulator]:
    """Merge rows of `partials`, in any order.

    Args:
        rows: the rows of `partials`, or the sequences, mappings or table (Arrow, Polars, pandas)
            that an engine returns for them.
        **inputs: the same catalog, popularity, similarity, attributes and examination as for
            `partials`; without a user_key, that of the rows is known by its fingerprint.

    Returns:
        An Accumulator for each cell, by start and labels, with the bits of one process.

    Raises:
        UnlikeStateError: the rows were made with different metrics, columns, spans or inputs.
        StateVersionError: another release wrote them.
        DamagedStateError: a state is not the output of `partials`.
        MetricError: a metric lacks its inputs, or is one of your own whose module you have not
            imported: rows from elsewhere do not decide which code runs.

    Example:
        >>> import pyarrow
        >>> table = pyarrow.table({"recommendations": [["a"], ["b"]], "interactions": [["a"], []]})
        >>> rows = [*partials([table[:1]], "hit_rate@1"), *partials([table[1:]], "hit_rate@1")]
        >>> merged(rows)[Cell((), None)].read("hit_rate@1").value
        0.5
    """
    refuse_unknown(inputs, ItemInputs.__optional_keys__)
    cells: dict[Cell, Accumulator] = {}
    empty: Accumulator | None = None
    for row, state in _with_states(rows):
        if empty is None:
            for text in state.metrics:
                if (module := absent_module(text)) is not None:
                    raise MetricTextError(
                        f"metric {text!r} is of module {module!r}, which this program has not "
                        "loaded, and saved data loads none. Import the module first.",
                        metric=text,
                    )
            names = ("depth", "max_items", "ids", "intervals", "experiment")
            options = {name: getattr(state, name) for name in names}
            if inputs.get(USER_KEY) is None and USER_KEY in state.inputs:
                with damage_as_error("partial"):
                    inputs[USER_KEY] = saved_key(state.inputs[USER_KEY])
            empty = Accumulator(*state.metrics, **options, **inputs, time_zone=state.time_zone)
            check_same_inputs(empty.context.identity, state.inputs, ("this call", "the row"))
        part = empty.copy()
        part.adopt(state.content)
        cell = Cell(row.labels, row.start)
        if cell in cells:
            cells[cell].merge(part)
        else:
            cells[cell] = part
    return _in_order(cells)


def repacked(rows: PartialRows, **inputs: Unpack[ItemInputs]) -> list[Partial]:
    """Merge rows to one row per cell, as a step of a distributed reduction; see `merged`.

    Example:
        >>> import pyarrow
        >>> table = pyarrow.table({"recommendations": [["a"], ["b"]], "interactions": [["a"], []]})
        >>> rows = [*partials([table[:1]], "hit_rate@1"), *partials([table[1:]], "hit_rate@1")]
        >>> [row.lists for row in rows], [row.lists for row in repacked(rows)]
        ([1, 1], [2])
    """
    parts = [*_parse_rows(rows)]
    cells = merged(parts, **inputs)
    return _rows_of(cells, _state(parts[0].state)) if parts else []


def backfill(rows: PartialRows, dimensions: Sequence[str]) -> Backfill:
    """Convert rows to a backfill for the state of a daemon.

    `dimensions`: labels and segments of the daemon; the rows must be split by all of them.

    Raises the errors of `merged`, and UsageError without rows or without one of the dimensions.
    """
    with_states = [*_with_states(rows)]
    if not with_states:
        raise unfit("it has no rows", "give the rows of `partials` or of Spark")
    settings = with_states[0][1]
    if not {*dimensions} <= {*settings.by}:
        split = f"by={list(settings.by)}" if settings.by else "without by="
        problem = f"it was counted {split}, but the state is split by {', '.join(dimensions)}"
        raise unfit(problem, f"count it again with by={list(dimensions)}")
    indices = [settings.by.index(name) for name in dimensions]
    backfilled = [
        BackfillRow(tuple(row.labels[index] for index in indices), row.start, row.lists, of.content)
        for row, of in with_states
    ]
    backfilled.sort(key=lambda row: (_sort_key(Cell(row.labels, row.start)), row.content))
    return Backfill(rows=backfilled, every=settings.spans)


def every_of(rows: Sequence[Partial]) -> Spans | None:
    """The spans of rows of one kind; None without rows, and for all time."""
    return _state(rows[0].state).spans if rows else None


def labels_of(rows: Sequence[Partial]) -> tuple[str, ...]:
    """The names of the labels that rows of one kind are split by; none without rows."""
    return _state(rows[0].state).by if rows else ()


def _with_states(rows: PartialRows) -> Iterator[tuple[Partial, _State]]:
    """Rows with their decoded states, which must have the same settings."""
    first: dict[str, Any] = {}
    time_zone = None
    for row in _parse_rows(rows):
        state = _state(row.state)
        settings = state.settings()
        if first:
            check_same_zone(time_zone, state.time_zone)
        first, time_zone = first or settings, state.time_zone
        if settings != first:
            raise unlike("partials", first, settings, sides=("the first row", "another"))
        if len(row.labels) != len(state.by):
            problem = f"labels={row.labels!r} for by={state.by!r}"
            raise damaged("partial", problem)
        if not _is_start(row.start, state.spans):
            raise damaged("partial", f"start={row.start!r} for every={state.every!r}")
        yield row, state


def _rows_of(cells: Mapping[Cell, Accumulator], settings: _State) -> list[Partial]:
    # One by one: a state that is encoded need not stay beside the row.
    rows = []
    for cell, counted in cells.items():
        state = settings.with_counts(b"".join(counted.dump()))
        rows.append(Partial(*cell, counted.lists, msgspec.msgpack.encode(state)))
    return rows


def _saved_every(every: Spans) -> int | str:
    return every.length if every.days is None else f"{every.days}d"


def _spans(every: str, time_zone: str | None) -> Spans:
    problem = f"found {every!r}; give at least 1s, like 15m, 1h or 1d"
    try:
        spans = parse_spans(str(every), time_zone)
    except DurationError as error:
        spans, problem = Spans(0), str(error)
    if spans.length <= 0:
        message = f"every: {problem}"
        raise ValueError(message)
    return spans


def _label_codes(table: Any, name: str) -> tuple[IntArray, list[Any]]:
    """A column as codes, and the value of each code; the last value is None, for null."""
    column = column_of(table, name).combine_chunks()
    if not arrow().types.is_dictionary(column.type):
        if column.type.num_fields:
            raise InvalidEventError("invalid_label", f"{name}: {column.type}; {_SPLIT_BY}")
        column = column.dictionary_encode()
    values = column.dictionary.to_pylist()
    indices = column.indices.fill_null(len(values))
    return indices.to_numpy().astype(np.int64), [*values, None]


def _state(data: object) -> _State:
    with damage_as_error("partial"):
        # bytes(10**12) would be as many zeros.
        state = msgspec.msgpack.decode(memoryview(data), type=_State)  # type: ignore[arg-type]  # checked: TypeError
    if state.version != STATE_VERSION:
        raise unknown_version("partial", state.version, STATE_VERSION)
    # Rows from before the checksum are read too; nothing else tells them from damaged ones.
    if state.crc is not None and state != state.with_counts(state.content):
        raise damaged("partial", "its CRC-32 differs")
    decoded: _State = state
    return decoded


def _is_start(start: int | None, every: Spans | None) -> bool:
    """True if a span begins at a time; lists without a time have None."""
    if start is None or every is None:
        return start is None
    return abs(start) <= _LONGEST_SPAN and every.starts(np.array([start])).tolist() == [start]


def _sort_key(cell: Cell) -> tuple[bool, int, tuple[str, ...]]:
    """Order by start, with lists without a time last, then by labels."""
    return cell.start is None, cell.start or 0, cell.labels


def _in_order(cells: Mapping[Cell, Accumulator]) -> dict[Cell, Accumulator]:
    return {cell: cells[cell] for cell in sorted(cells, key=_sort_key)}


def _starts_of(table: Any, every: Spans) -> list[IntArray]:
    """The start of each row's span, and whether the row has a time (0 or 1)."""
    column = in_microseconds(column_of(table, "times").combine_chunks())
    if not arrow().types.is_integer(column.type):
        detail = f"times: {column.type}; give timestamps, or microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    times = column.fill_null(0).to_numpy().astype(np.int64)
    if (outside := outside_range(times)).size:
        raise outside_error(times[outside[0]])
    is_valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return [every.starts(times) * is_valid, is_valid]


def arrow_table(rows: PartialRows) -> Any:
    """The rows as an Arrow table, for engines and parquet.

    Raises:
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import pyarrow
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> arrow_table(partials([table], "mrr")).column_names
        ['labels', 'start', 'lists', 'state']
    """
    labels, number = arrow().list_(arrow().string()), arrow().int64()
    schema = arrow().schema(
        {"labels": labels, "start": number, "lists": number, "state": arrow().binary()}
    )
    return arrow().Table.from_pylist([row._asdict() for row in _parse_rows(rows)], schema)


def stored(path: str | PathLike[str]) -> Iterator[Partial]:
    """Read rows from a parquet file, or from those of a folder, also in a bucket ("s3://...").

    Hidden files are left out. Of the folders `run=ID` beside each other only the last by name with
    a file `_SUCCESS` counts.

    Raises:
        SourceError: it cannot be read, or lacks a column.
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import pathlib, pyarrow, tempfile
        >>> from pyarrow import parquet
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "monday.parquet"
        ...     parquet.write_table(arrow_table(partials([table], "mrr")), path)
        ...     [row.lists for row in stored(path)]
        [1]
    """
    try:
        top = fspath(path)
    except TypeError as error:
        raise SourceError(
            f"{path}", f"no rows of streameval.partials: {error}", "give a path"
        ) from error
    paths = [top]
    if is_remote(top) or Path(top).is_dir():
        files = partial_files(top)
        if not files and is_remote(top):
            files = {top: PartialFile(top, 0.0, "")}
        paths = [file.path for file in files.values()]
    for file in paths:
        yield from rows_of_file(file)


def rows_of_file(path: str) -> Iterator[Partial]:
    """The rows of one parquet file or object; raises as `stored`."""
    try:
        source = object_reader(path) if is_remote(path) else path
        with arrow("parquet").ParquetFile(source) as file:
            refuse_bombs(path, file.metadata, _LONGEST_STATE)
            for name in Partial._fields:
                file.schema_arrow.field(name)  # raises for a missing one
            for batch in file.iter_batches(columns=list(Partial._fields), use_threads=False):
                yield from _parse_rows(batch.to_pylist())
    except (OSError, KeyError, TypeError, ValueError, arrow().ArrowException) as error:
        problem = f"no rows of streameval.partials in parquet: {' '.join(str(error).split())}"
        remedy = "write them with arrow_table, or with result.partials.write.parquet on Spark"
        raise SourceError(path, problem, remedy) from error


def _parse_rows(rows: Any) -> Iterator[Partial]:
    """The partials that an engine returned; raises DamagedStateError for anything else."""
    if isinstance(rows, ArrowTable):
        rows = as_table(rows).to_pylist()
    if not isinstance(rows, Iterable):
        problem = f"{rows!r:.80} is not a list or an iterator of rows"
        raise damaged("partials", problem)
    for row in rows:
        try:
            with damage_as_error("partial"):
                named = [row[name] for name in Partial._fields] if isinstance(row, Mapping) else row
                partial = Partial(*named)
                labels, start = tuple(map(str.__str__, partial.labels)), partial.start
                # pandas turns integers with a missing value into floats.
                if start is not None and start != start:  # noqa: PLR0124  only NaN differs from itself
                    start = None
                if start is not None and int(start) != start:
                    problem = f"start={start!r} is not whole microseconds"
                    raise ValueError(problem)
                start = None if start is None else int(start)
                partial = partial._replace(labels=labels, start=start)
        except DamagedStateError as error:
            problem = f"{row!r:.80} is not a row of partials: {error.problem}"
            raise damaged("partial", problem) from error
        yield partial
