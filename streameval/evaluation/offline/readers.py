"""Reads what a request names as batches of records: JSON lines, tables, and pairs of files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Final, Protocol, Self, cast, overload

import msgspec
import numpy as np

from streameval.accumulator.intake import checked_batch
from streameval.config import Config
from streameval.config.pipeline import frontend_of, layout
from streameval.decoding.columns import Decoded
from streameval.decoding.values import label_texts
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.ingest import EventFrontend, Frontend, Ingest, StartOwner
from streameval.engine.partition import Layout
from streameval.engine.windows.family import widest_search
from streameval.evaluation.offline.pairs import PairEvents, pair_events
from streameval.evaluation.offline.request import Request
from streameval.evaluation.offline.surroundings import as_usage_error
from streameval.evaluation.tables.events import TableOptions, event_rows, kind_of, separators_of
from streameval.evaluation.tables.files import (
    FileTable,
    Kind,
    Piece,
    arrow,
    is_table,
    table_file,
    tables_of,
)
from streameval.events import Batch
from streameval.events.columns import Columns
from streameval.events.errors import (
    InvalidEventError,
    SourceError,
    SuspiciousEventsWarning,
    UsageError,
)
from streameval.events.ids import IdKind
from streameval.events.records import Owner, Partition, RecordBatch
from streameval.join.frontend import CopartitionedOwner
from streameval.sources.files import FilesSource
from streameval.sources.opening import size
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions, Source
from streameval.statistics.matching import Search

_POLL_SECONDS = 0.2

_ROWS: Final = 1 << 16
"""Rows of tables that are counted together."""

_ANY: Final = Search(depth=1)
"""A search for the kind of ids, whose hits are not used."""


class EventReader(Protocol):
    """Events of one or several logs; a part of them is a file, or some rows of one.

    Attributes:
        config: with the kind of ids that the events have.
    """

    config: Config

    @property
    def parts(self) -> Sequence[Any]:
        """What several processes may count apart from each other."""

    @property
    def sizes(self) -> Sequence[int] | None:
        """The size of each part in bytes; None if one process must count them all."""

    def frontend(self) -> Frontend:
        """The frontend that decodes the records."""

    def apply(
        self, parts: Sequence[Any], ingest: Ingest
    ) -> Iterator[tuple[int, Sequence[DeadLetter]]]:
        """Count parts batch by batch; yields the bytes read so far, and some invalid records."""


class LinesReader:
    """Reads JSON lines; one file is one log."""

    def __init__(self, config: Config, request: Request) -> None:
        # A view of a mapping cannot be sent to another process.
        self.config, self._given = config, dict(request.inputs)

    @property
    def parts(self) -> Sequence[str]:
        """The paths."""
        return self.config.source.logs

    @property
    def sizes(self) -> Sequence[int] | None:
        """The size of each file; None for joined streams, and for a pipe."""
        if self.config.attribution is not None:
            return None
        with as_usage_error(SourceError):
            sizes = [size(path) for path in self.parts]
        whole = [of_path for of_path in sizes if of_path is not None]
        return whole if len(whole) == len(sizes) else None

    def frontend(self) -> Frontend:
        """The frontend of the configuration, as in a daemon."""
        return frontend_of(self.config, layout(self.config, self._given))

    def apply(
        self, parts: Sequence[str], ingest: Ingest
    ) -> Iterator[tuple[int, Sequence[DeadLetter]]]:
        """See `EventReader.apply`."""
        source = FilesSource(FilesOptions(paths=list(parts)))
        with as_usage_error(SourceError):
            source.open(owner_from_start(self.config, ingest))
        for letters in ingest_records(source, ingest):
            yield source.bytes_read, letters


def owner_from_start(config: Config, ingest: Ingest) -> Owner:
    """An owner that has each log read from where its source begins."""
    if config.attribution is None:
        return Positions()
    topics = [topic for stream in config.attribution.streams for topic in stream]
    return CopartitionedOwner(StartOwner(ingest), ingest.partition_of, topics)


def ingest_records(source: Source, ingest: Ingest) -> Iterator[Sequence[DeadLetter]]:
    """Apply all records of a source batch by batch; yields examples of invalid ones."""
    while not source.status.finished:
        for batch in source.poll(_POLL_SECONDS):
            ingest.apply(batch)
        ingest.end(source.status.ended)
        source.pause(ingest.backpressured)
        yield ingest.take_invalid()


class DecodedRows(Sequence[bytes]):
    """Events that a batch of records holds instead of bytes; as bytes they are JSON."""

    def __init__(self, decoded: Decoded) -> None:
        self.decoded = decoded

    @classmethod
    def of(
        cls,
        batch: Batch,
        dimensions: Sequence[tuple[str, ...]] | None = None,
    ) -> Self:
        """The events of a checked batch; `dimensions`: values of labels and segments of each."""
        if batch.times is not None:
            batch = msgspec.structs.replace(batch, times=np.array(batch.times, np.int64))
        places = np.arange(len(batch))
        return cls(Decoded(batch=batch, dimensions=dimensions, places=places))

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> DecodedRows: ...

    def __getitem__(self, place: int | slice) -> bytes | DecodedRows:
        if isinstance(place, slice):
            start, stop, _ = place.indices(len(self))
            part = self.decoded.rows(start, stop)
            return DecodedRows(msgspec.structs.replace(part, places=np.arange(stop - start)))
        (event,) = self.decoded.batch.rows(place, place + 1).events()
        return msgspec.json.encode(event, enc_hook=list)

    def __len__(self) -> int:
        return len(self.decoded.batch)


class _RowsDecoder:
    """Decodes nothing: the values of a batch are `DecodedRows`."""

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """The events of a batch."""
        return cast("DecodedRows", values).decoded


class TablesReader:
    """Reads tables with one event per row; every row counts in the order of its file.

    Row groups of a file are logs of their own, unless what counts depends on the order of rows.

    Raises:
        UsageError: a file cannot be read, or is no table.
    """

    def __init__(self, request: Request, config: Config) -> None:
        others = [path for path in request.paths if not is_table(path)]
        if others:
            raise UsageError(
                f"{others[0]} is not a table, and other files are; evaluate them separately."
            )
        if config.event.rankers:
            raise UsageError("lists of rankers are read from JSON lines, not from tables.")
        ordered = config.dedup is not None or bool(config.windowing().spans)
        options = TableOptions(
            fields=config.event,
            gains=request.gains,
            labels=config.dimensions(),
            separators=separators_of(request.separators),
            users=config.by_user,
            times=config.by_user or request.every is not None or ordered,
            event_ids=config.dedup is not None,
            wording=request.wording,
        )
        with as_usage_error(SourceError):
            files = [table_file(path) for path in request.paths]
            kind = kind_of(files, options)
        if config.event.ids == "integer" and kind == "string":
            kind, options = "integer", msgspec.structs.replace(options, integers=True)
        self.config, self._given, self._options = of_kind(config, kind), request.inputs, options
        self._files = [[_whole(file.pieces)] if ordered else file.pieces for file in files]

    @property
    def parts(self) -> Sequence[Piece]:
        """Row groups, or whole files."""
        return [piece for pieces in self._files for piece in pieces]

    @property
    def sizes(self) -> Sequence[int] | None:
        """The size of each part."""
        return [piece.size for piece in self.parts]

    def frontend(self) -> Frontend:
        """A frontend of rows."""
        return EventFrontend(_RowsDecoder(), self._layout)

    def apply(
        self, parts: Sequence[Piece], ingest: Ingest
    ) -> Iterator[tuple[int, Sequence[DeadLetter]]]:
        """See `EventReader.apply`."""
        read = 0
        with as_usage_error(SourceError):
            for path, pieces in groupby(parts, lambda piece: piece.path):
                whole = _whole([*pieces])
                partition = Partition(path, min(whole.groups, default=0))
                for table in tables_of(whole, self._options.wanted()):
                    ingest.apply(_batch(partition, self._rows(table), table.first), _ROWS)
                    yield read, ingest.take_invalid()
                read += whole.size
                yield read, ()

    @cached_property
    def _layout(self) -> Layout:
        return layout(self.config, self._given)

    @cached_property
    def _search(self) -> Search:
        return widest_search(self._layout.families)

    def _rows(self, table: FileTable) -> DecodedRows:
        events = event_rows(table, self._options)
        columns = events.select([name for name in events.column_names if name in _COLUMNS])
        try:
            batch = self._checked(columns)
        except InvalidEventError as error:
            raise self._refused(table, columns, error) from error
        if self._options.event_ids:
            ids = list(map(str, events["event_ids"].to_pylist()))
            batch = msgspec.structs.replace(batch, event_ids=ids)
        if not self._options.by:
            return DecodedRows.of(batch)
        labels = [self._labels(events[name].combine_chunks()) for name in self._options.by]
        return DecodedRows.of(batch, list(zip(*labels, strict=True)))

    def _labels(self, column: Any) -> list[str]:
        """The text of each value of a column; those of a dictionary are made once."""
        most = self._options.fields.max_label_bytes
        if not arrow().types.is_dictionary(column.type):
            return list(label_texts(column.to_pylist(), most))
        names = label_texts([*column.dictionary.to_pylist(), None], most)
        codes: list[int] = column.indices.fill_null(len(names) - 1).to_numpy().tolist()
        return [names[code] for code in codes]

    def _checked(self, columns: Any) -> Batch:
        kind: IdKind = "integer" if self.config.event.ids == "integer" else "text"
        with warnings.catch_warnings():
            # Times that are too early are reported once for all files.
            warnings.simplefilter("ignore", SuspiciousEventsWarning)
            return checked_batch(kind, columns, self._search)[1]

    def _refused(self, table: FileTable, columns: Any, error: InvalidEventError) -> SourceError:
        """Find by bisection the first row that is not an event."""
        checked, failing = 0, columns.num_rows
        while failing - checked > 1:
            middle = (checked + failing) // 2
            if self._refusal(columns[checked:middle]) is None:
                checked = middle
            else:
                failing = middle
        # The error of the row alone names no number of a row in some part of the file.
        alone = self._refusal(columns[checked:failing]) or error
        problem = f"{table.place(checked)}: {alone.detail}"
        return SourceError(table.path, problem, "correct the file")

    def _refusal(self, columns: Any) -> InvalidEventError | None:
        """Why these rows are not events, or None."""
        try:
            self._checked(columns)
        except InvalidEventError as error:
            return error
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Each process reads the inputs itself; a view of a mapping cannot be sent to it.
        state = {**vars(self), "_given": dict(self._given), "_files": []}
        return {name: state[name] for name in state if name not in ("_layout", "_search")}


_COLUMNS: Final = frozenset(Columns.__struct_fields__)


def _whole(pieces: Sequence[Piece]) -> Piece:
    """The pieces of a file as one."""
    groups = tuple(group for piece in pieces for group in piece.groups)
    return pieces[0]._replace(groups=groups, size=sum(piece.size for piece in pieces))


def _batch(partition: Partition, rows: DecodedRows, first: int) -> RecordBatch:
    end = first + len(rows)
    return RecordBatch(partition=partition, values=rows, offsets=range(first, end), next_offset=end)


class PairReader:
    """Reads a pair of files with one item per row, or a caller's lists, as one log.

    `every`: length of a span, microseconds, in which a user has one list; None for one span.
    """

    def __init__(
        self, request: Request, config: Config, every: int | None, note: Callable[[str], None]
    ) -> None:
        config = msgspec.structs.replace(config, labels=[], segments=[], windows=None, dedup=None)
        event = msgspec.structs.replace(config.event, rankers=None)
        config = msgspec.structs.replace(config, event=event)
        with as_usage_error(SourceError, InvalidEventError):
            self._events = list(pair_events(request, config, every, note))
            self.config = of_kind(config, _kind_of_pairs(self._events))
        self._given = request.inputs

    @property
    def parts(self) -> Sequence[PairEvents]:
        """The events of each span."""
        return self._events

    @property
    def sizes(self) -> Sequence[int] | None:
        """None: one process counts all."""
        return None

    def frontend(self) -> Frontend:
        """A frontend of rows."""
        return EventFrontend(_RowsDecoder(), layout(self.config, self._given))

    def apply(
        self, parts: Sequence[PairEvents], ingest: Ingest
    ) -> Iterator[tuple[int, Sequence[DeadLetter]]]:
        """See `EventReader.apply`."""
        partition, first = Partition("recommendations", 0), 0
        search = widest_search(ingest.layout.families)
        kind: IdKind = "integer" if self.config.event.ids == "integer" else "text"
        for events in parts:
            with as_usage_error(InvalidEventError):
                _, batch = checked_batch(kind, events.columns, search)
            if events.start is not None:
                batch = msgspec.structs.replace(batch, times=[events.start] * len(batch))
            ingest.apply(_batch(partition, DecodedRows.of(batch), first), _ROWS)
            first += len(batch)
            yield 0, ingest.take_invalid()


def _kind_of_pairs(pairs: Sequence[PairEvents]) -> Kind:
    """The kind of the ids: integer if both files have integers; else that of the first id."""
    kinds = {events.kind for events in pairs} - {None}
    if kinds:
        return "integer" if "integer" in kinds else "string"
    for events in pairs:
        kind, _ = checked_batch(None, events.columns, _ANY)
        if kind is not None:
            return "integer" if kind == "integer" else "string"
    return "string"


def of_kind(config: Config, kind: Kind) -> Config:
    """The configuration with ids of the kind that the files have."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)


def reader_of(
    request: Request, config: Config, every: int | None, note: Callable[[str], None]
) -> EventReader:
    """The reader of what a request names; `note` takes each doubt about the rows of a pair."""
    if request.is_pair:
        return PairReader(request, config, every, note)
    return TablesReader(request, config) if request.is_tables else LinesReader(config, request)
