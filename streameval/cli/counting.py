"""Counts the events of files: JSON lines (as the daemon, or by spans) and tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import msgspec

from streameval.accumulator import Accumulator
from streameval.cli.errors import UsageError, as_usage_error, report
from streameval.cli.parallel import TableCounting, TaskResult, map_in_processes, tasks_by_size
from streameval.cli.readings import SpanReadings, snapshot_of
from streameval.cli.request import Request
from streameval.cli.terminal import progress
from streameval.config import Config
from streameval.config.pipeline import join_frontend, layout, new_ingest
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.engine.clock import Clock
from streameval.engine.dead_letters import DeadLetter, Examples
from streameval.engine.dedup import SeenIds
from streameval.engine.ingest import Ingest
from streameval.engine.partition import Tally
from streameval.engine.snapshot import SeriesFamily
from streameval.engine.spans import Dumped, Spans
from streameval.errors import SourceError
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.frontend import CopartitionedOwner
from streameval.join.state import JoinedState
from streameval.partials import Cell, Partial, merged
from streameval.sources.files import FilesSource
from streameval.sources.opening import size
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions
from streameval.tables.events import TableOptions, kind_of, separators_of
from streameval.tables.files import Kind, is_table, table_file
from streameval.windows.times import moment_text

_POLL_SECONDS = 0.2


class Startable(Protocol):
    """Counts or joins that start empty at the beginning of each log."""

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts the records of this log."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int], /) -> None:
        """Start with nothing counted."""


def count_records(config: Config, every: int | None, processes: int) -> Ingest | SpanCounting:
    """Count all records of the files with a progress bar, and report the invalid ones.

    `every`: length of a span, microseconds; None to count as the daemon does. `processes`: the
    largest number used; standard input and joins are always counted by one.
    """
    counting = _new_counting(config, every)
    source = FilesSource(cast("FilesOptions", config.source))
    with as_usage_error(SourceError):
        source.open(owner_from_start(config, counting))
    examples: list[DeadLetter] = []
    with progress(source.bytes_total) as shown:
        if processes > 1 and config.attribution is None and source.bytes_total is not None:
            sizes = [size(path) or 0 for path in source.paths]
            read, tasks = 0, tasks_by_size(source.paths, sizes, processes)
            source.close()
            with map_in_processes(FileCounting(config, every), tasks, processes) as parts:
                for part in parts:
                    part.add_to(counting)
                    examples = _first_of_each_reason([*examples, *part.examples], source.paths)
                    read += part.size
                    shown(read, counting.tally.consumed)
        else:
            for letters in _count(source, counting):
                examples = _first_of_each_reason([*examples, *letters], source.paths)
                shown(source.bytes_read, counting.tally.consumed)
    _report_invalid(counting.tally, examples)
    return counting


def _new_counting(config: Config, every: int | None) -> Ingest | SpanCounting:
    return new_ingest(config) if every is None else SpanCounting(config, every)


def _count(source: FilesSource, counting: Ingest | SpanCounting) -> Iterator[Sequence[DeadLetter]]:
    """Count the records of files batch by batch; yields examples of invalid ones."""
    while not source.finished:
        for batch in source.poll(_POLL_SECONDS):
            counting.apply(batch)
        counting.end(source.ended)
        source.pause(counting.backpressured)
        yield counting.take_invalid()


def _report_invalid(tally: Tally, examples: Sequence[DeadLetter]) -> None:
    bad = sum(tally.invalid.values())
    if bad:
        report(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        report(f"{count:>9,} {record.reason}, first in {line}: {record.message}: {record.preview}")


class CountedFiles(NamedTuple):
    """The counts of some files.

    Attributes:
        partitions: file -> next offset and sections of its state; empty if counted by spans.
        spans: counts by span; empty if counted as the daemon does.
    """

    size: int
    tally: Tally
    examples: Sequence[DeadLetter]
    partitions: Mapping[Partition, tuple[int, Mapping[str, bytes]]]
    spans: Sequence[Dumped]

    def add_to(self, counting: Ingest | SpanCounting) -> None:
        """Add these counts to others."""
        counting.tally.add(self.tally)
        if isinstance(counting, SpanCounting):
            counting.spans.add(self.spans)
            return
        for partition, (offset, parts) in self.partitions.items():
            counting.restore(partition, {partition: offset}, parts)


class FileCounting:
    """Counts files of JSON lines independently of other files."""

    def __init__(self, config: Config, every: int | None) -> None:
        self._config, self._every = config, every

    def __call__(self, paths: Sequence[str]) -> CountedFiles:
        """Count some files."""
        counting = _new_counting(self._config, self._every)
        source = FilesSource(FilesOptions(paths=list(paths)))
        source.open(owner_from_start(self._config, counting))
        examples = [letter for letters in _count(source, counting) for letter in letters]
        totals = source.bytes_read, counting.tally, _first_of_each_reason(examples, paths)
        if isinstance(counting, SpanCounting):
            return CountedFiles(*totals, {}, counting.spans.dump())
        return CountedFiles(
            *totals,
            {
                partition: (
                    position,
                    {
                        section.name: b"".join(section.content()())
                        for section in counting.sections(partition)
                    },
                )
                for partition, position in counting.positions.items()
            },
            (),
        )


def _first_of_each_reason(letters: Iterable[DeadLetter], paths: Sequence[str]) -> list[DeadLetter]:
    """The first letter of each reason in the order of the files, not of reading."""
    order = {path: number for number, path in enumerate(paths)}
    found: dict[str, DeadLetter] = {}
    for each in letters:
        first = found.setdefault(each.reason, each)
        found[each.reason] = min(
            first, each, key=lambda one: (order[one.partition.topic], one.offset)
        )
    return list(found.values())


class SpanCounting:
    """Counts the events of files by spans of event time.

    Args:
        config: its windows are ignored.
        every: length of a span, microseconds.
    """

    def __init__(self, config: Config, every: int) -> None:
        settings = layout(config)
        self.tally = Tally()
        self._families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        self.spans = Spans(settings.families, every, settings.intervals)
        self._dedup, self._max_ahead = settings.dedup, settings.max_ahead
        self._decoder = Decoder(config.event, config.dimensions())
        self._join = (
            None
            if config.attribution is None
            else join_frontend(config, config.attribution, settings)
        )
        self._joined: JoinedState | None = None
        self._examples = Examples()
        self._seen: dict[Partition, tuple[SeenIds, Clock]] = {}

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts the records of this file."""
        return log if self._join is None else self._join.partition_of(log)

    def begin(self, _partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Join these files."""
        if self._join is not None:
            self._joined = self._join.state(offsets, self.spans.update)

    @property
    def partitions(self) -> Mapping[Partition, JoinedState]:
        """The join, if the configuration has [attribution]."""
        return {} if self._joined is None else {self._joined.logs.partitions[0]: self._joined}

    @property
    def backpressured(self) -> Collection[Partition]:
        """Files that should be paused now."""
        return () if self._joined is None else self._joined.backpressured

    def end(self, partitions: Collection[Partition]) -> None:
        """These files have ended."""
        if self._joined is not None:
            self._joined.end(partitions)
            self._joined.finish()

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch; returns their outcomes."""
        if self._join is not None and self._joined is not None:
            applied = self._joined.apply(batch, self._join.decode(batch))
            self._joined.finish()
            self.tally.add(applied.tally)
            self._examples.add(batch, applied.invalid)
            return applied.tally
        decoded = self._decoder.decode_many(batch.values)
        counted = self._without_duplicates(batch.partition, decoded)
        self.spans.update(counted)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        tally.valid = len(counted.places)
        tally.engaged = counted.engaged
        tally.duplicates = len(decoded.places) - tally.valid
        tally.add_invalid([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self._examples.add(batch, decoded.invalid)
        return tally

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def readings(self) -> Iterator[SpanReadings]:
        """The readings of each span that has an event, in time order."""
        for start, slices in self.spans.items():
            yield SpanReadings(moment_text(start), snapshot_of(self._families, slices))

    def _without_duplicates(self, partition: Partition, decoded: Decoded) -> Decoded:
        """The events without duplicates, if the configuration has `dedup`."""
        times, event_ids = decoded.times, decoded.event_ids
        if self._dedup is None or event_ids is None or times is None or not decoded.places:
            return decoded
        if partition not in self._seen:
            self._seen[partition] = SeenIds(self._dedup), Clock(self._max_ahead)
        memory, clock = self._seen[partition]
        return decoded.keep(memory.unseen(event_ids, times, clock.advance(times)))


def owner_from_start(config: Config, counts: Startable) -> Owner:
    """An owner that has each log read from where its source begins."""
    if config.attribution is None:
        return Positions()
    topics = [each for stream in config.attribution.streams for each in stream]
    return CopartitionedOwner(_Starts(counts), counts.partition_of, topics)


class _Starts:
    """Begins counting each assigned log where the source begins."""

    def __init__(self, counts: Startable) -> None:
        self._counts = counts

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        found: dict[Partition, int] = {}
        for each in assignments:
            starts = {log.partition: log.start for log in each.logs}
            self._counts.begin(each.partition, starts)
            found |= starts
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""


class CountedTables(NamedTuple):
    """The counts of tables."""

    empty: Accumulator
    found: Mapping[Cell, Accumulator]


def count_tables(request: Request, config: Config) -> CountedTables:
    """Count tables with one event per row, with a progress bar."""
    others = [path for path in request.paths if not is_table(path)]
    if others:
        raise UsageError(
            f"{others[0]} is not a table, and other files are; evaluate them separately."
        )
    by_user = config.intervals is not None
    options = TableOptions(
        fields=config.event,
        gains=request.gains,
        labels=config.labels,
        separators=separators_of(request.separators),
        users=by_user or "users" in config.reads(),
        times=by_user or request.every is not None,
    )
    with as_usage_error(SourceError):
        files = [table_file(path) for path in request.paths]
        kind = kind_of(files, options)
        if config.event.ids == "integer" and kind == "string":
            kind, options = "integer", msgspec.structs.replace(options, integers=True)
        config = of_kind(config, kind)
        empty, inputs = config.accumulator(), config.inputs() | {"depth": config.depth}
        pieces = [piece for file in files for piece in file.pieces]
        tasks = tasks_by_size(pieces, [piece.size for piece in pieces], request.processes)
        count = TableCounting(options, [each.text for each in empty.metrics], request.every, inputs)
        with (
            map_in_processes(count, tasks, request.processes) as parts,
            progress(sum(piece.size for piece in pieces)) as shown,
        ):
            known = {name: inputs[name] for name in ("catalog", "popularity", "similarity")}
            return CountedTables(empty, merged(_rows(parts, shown), **known))


def _rows(parts: Iterable[TaskResult], shown: Callable[[int, int], None]) -> Iterator[Partial]:
    size = lists = 0
    for part in parts:
        size, lists = size + part.size, lists + part.lists
        shown(size, lists)
        yield from part.rows


def of_kind(config: Config, kind: Kind) -> Config:
    """The configuration with ids of the kind that the files have."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)
