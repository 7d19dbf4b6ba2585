"""Counts the events of files: JSON lines (as the daemon, or by spans) and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.doubts import Doubts
from streameval.config import Config
from streameval.config.pipeline import frontend_of, layout
from streameval.decoding.columns import Decoded
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.ingest import Ingest, StartOwner
from streameval.engine.partition import Tally
from streameval.engine.spans import Dumped, Spans
from streameval.errors import SourceError
from streameval.events.records import Owner, Partition
from streameval.join.frontend import CopartitionedOwner
from streameval.offline.parallel import TableCounting, TaskResult, map_in_processes, tasks_by_size
from streameval.offline.request import Request
from streameval.offline.surroundings import Surroundings, UsageError, as_usage_error
from streameval.offline.values import EventChunk
from streameval.partials import Cell, Partial, merged
from streameval.sources.files import FilesSource, first_record
from streameval.sources.opening import size
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions, Source
from streameval.tables.events import TableOptions, kind_of, separators_of
from streameval.tables.files import Kind, Piece, is_table, table_file
from streameval.windows.times import unit_warning

_POLL_SECONDS = 0.2


class Counts(NamedTuple):
    """The counts of files.

    Attributes:
        spans: counts by span; None if the ingest itself counts, as the daemon does.
    """

    ingest: Ingest
    spans: Spans | None = None


def count_records(
    config: Config,
    every: int | None,
    processes: int,
    around: Surroundings,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Counts:
    """Count all records of the files, and note the invalid ones.

    `every`: length of a span, microseconds; None to count as the daemon does. `processes`: the
    largest number used; standard input and joins are always counted by one. `given`: as in
    `Config.inputs`.
    """
    counts = _new_counts(config, every, given)
    tally = counts.ingest.tally
    source = FilesSource(cast("FilesOptions", config.source))
    with as_usage_error(SourceError):
        source.open(owner_from_start(config, counts.ingest))
    examples: list[DeadLetter] = []
    with around.progress(source.bytes_total) as shown:
        if processes > 1 and config.attribution is None and source.bytes_total is not None:
            sizes = [size(path) or 0 for path in source.paths]
            read, tasks = 0, tasks_by_size(source.paths, sizes, processes)
            source.close()
            with map_in_processes(FileCounting(config, every, given), tasks, processes) as parts:
                for part in parts:
                    part.add_to(counts)
                    examples = _first_of_each_reason([*examples, *part.examples], source.paths)
                    read += part.size
                    shown(read, tally.consumed)
        else:
            for letters in ingest_records(source, counts.ingest):
                examples = _first_of_each_reason([*examples, *letters], source.paths)
                shown(source.bytes_read, tally.consumed)
    for doubt in (*_unread(config, source.paths), *_invalid(tally, examples)):
        around.note(doubt)
    return counts


def record_chunks(
    config: Config, every: int | None, given: Mapping[str, Any]
) -> Iterator[EventChunk]:
    """The events of the files again, as they are counted; see `count_records`."""
    chunks: list[EventChunk] = []

    def keep(decoded: Decoded) -> None:
        columns: list[Any] = [repeat(()) if decoded.dimensions is None else decoded.dimensions]
        if every is None or decoded.times is None:
            columns.append(repeat(None))
        else:
            columns.append((np.floor_divide(decoded.times, every) * every).tolist())
        rows: defaultdict[Any, list[int]] = defaultdict(list)
        for row, key in enumerate(islice(zip(*columns, strict=False), len(decoded.batch))):
            rows[key].append(row)
        for (labels, start), places in rows.items():
            part = decoded.take(np.array(places)).batch
            chunks.append(EventChunk(part, labels[: len(config.labels)], start))

    ingest = Ingest(frontend_of(config, layout(config, given)), sink=keep)
    source = FilesSource(cast("FilesOptions", config.source))
    source.open(owner_from_start(config, ingest))
    for _ in ingest_records(source, ingest):
        yield from chunks
        chunks.clear()


def _unread(config: Config, paths: Sequence[str]) -> Iterator[str]:
    """Doubts about ranks and scores that the first record has, and that [event] does not name."""
    scored = bool(config.reads() & {"scores", "ranksums", "event"})
    wanted = ["positions", *(["scores"] if scored else [])]
    names = [name for name in wanted if getattr(config.event, name) is None]
    record = {} if config.attribution else first_record(paths)
    for name in names:
        if name in record:
            yield f"{name} of the records are not read; name them with --column {name}={name}."


def _new_counts(config: Config, every: int | None, given: Mapping[str, Any]) -> Counts:
    settings = layout(config, given)
    frontend = frontend_of(config, settings)
    if every is None:
        return Counts(Ingest(frontend))
    spans = Spans(settings.families, every, settings.intervals)
    return Counts(Ingest(frontend, sink=spans.update), spans)


def ingest_records(source: Source, ingest: Ingest) -> Iterator[Sequence[DeadLetter]]:
    """Apply all records of a source batch by batch; yields examples of invalid ones."""
    while not source.finished:
        for batch in source.poll(_POLL_SECONDS):
            ingest.apply(batch)
        ingest.end(source.ended)
        source.pause(ingest.backpressured)
        yield ingest.take_invalid()


def _invalid(tally: Tally, examples: Sequence[DeadLetter]) -> Iterator[str]:
    bad = sum(tally.invalid.values())
    if bad:
        yield f"{bad:,} of {tally.consumed:,} records are invalid and left out:"
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        yield f"{count:>9,} {record.reason}, first in {line}: {record.message}: {record.preview}"
    for record in examples:
        if remedy := _remedy_of_form(record):
            yield f"{record.partition.topic} does not look like JSON lines: {remedy}."


def _remedy_of_form(record: DeadLetter) -> str | None:
    """What to do with a file whose first line is not an object of JSON lines."""
    text = record.value.strip()
    if record.offset or (text.startswith(b"{") and text != b"{"):
        return None
    if text[:1] in (b"[", b"{"):
        return 'write one object per line, as pandas does with orient="records", lines=True'
    return "the name of a table ends with .csv, .tsv or .parquet"


class CountedFiles(NamedTuple):
    """The counts of some files.

    Attributes:
        partitions: file -> next offset and sections of its state; empty if counted by spans.
        spans: counts by span; empty if counted as the daemon does.
        doubts: about the events.
    """

    size: int
    tally: Tally
    examples: Sequence[DeadLetter]
    partitions: Mapping[Partition, tuple[int, Mapping[str, bytes]]]
    spans: Sequence[Dumped]
    doubts: Doubts

    def add_to(self, counts: Counts) -> None:
        """Add these counts to others."""
        counts.ingest.add(self.tally, self.doubts)
        if counts.spans is not None:
            counts.spans.add(self.spans)
        for partition, (offset, parts) in self.partitions.items():
            counts.ingest.restore(partition, {partition: offset}, parts)


class FileCounting:
    """Counts files of JSON lines independently of other files."""

    def __init__(self, config: Config, every: int | None, given: Mapping[str, Any]) -> None:
        # A view of a mapping cannot be sent to another process.
        self._config, self._every, self._given = config, every, dict(given)

    def __call__(self, paths: Sequence[str]) -> CountedFiles:
        """Count some files."""
        ingest, spans = _new_counts(self._config, self._every, self._given)
        source = FilesSource(FilesOptions(paths=list(paths)))
        source.open(owner_from_start(self._config, ingest))
        examples = [letter for letters in ingest_records(source, ingest) for letter in letters]
        totals = source.bytes_read, ingest.tally, _first_of_each_reason(examples, paths)
        if spans is not None:
            return CountedFiles(*totals, {}, spans.dump(), ingest.doubts)
        return CountedFiles(
            *totals,
            {
                partition: (
                    position,
                    {
                        section.name: b"".join(section.content()())
                        for section in ingest.sections(partition)
                    },
                )
                for partition, position in ingest.positions.items()
            },
            (),
            ingest.doubts,
        )


def _first_of_each_reason(letters: Iterable[DeadLetter], paths: Sequence[str]) -> list[DeadLetter]:
    """The first letter of each reason in the order of the files, not of reading."""
    order = {path: number for number, path in enumerate(paths)}
    first_letters: dict[str, DeadLetter] = {}
    for letter in letters:
        first = first_letters.setdefault(letter.reason, letter)
        first_letters[letter.reason] = min(
            first,
            letter,
            key=lambda candidate: (order[candidate.partition.topic], candidate.offset),
        )
    return list(first_letters.values())


def owner_from_start(config: Config, ingest: Ingest) -> Owner:
    """An owner that has each log read from where its source begins."""
    if config.attribution is None:
        return Positions()
    topics = [topic for stream in config.attribution.streams for topic in stream]
    return CopartitionedOwner(StartOwner(ingest), ingest.partition_of, topics)


def early_warning(config: Config, times: Sequence[int]) -> str | None:
    """A doubt about times of events, in microseconds, that seem to have another unit than given."""
    field, unit = config.event.time, config.event.time_unit
    return unit_warning(max(times), field, str(unit)) if field is not None and times else None


class CountedTables(NamedTuple):
    """The counts of tables."""

    empty: Accumulator
    found: Mapping[Cell, Accumulator]


class TableTask(NamedTuple):
    """Tables with one event per row, ready to be counted.

    Attributes:
        config: with ids of the kind that the tables have.
        inputs: arguments of an accumulator besides its metrics.
        counting: counts pieces.
    """

    config: Config
    pieces: Sequence[Piece]
    inputs: Mapping[str, Any]
    counting: TableCounting


def table_task(request: Request, config: Config) -> TableTask:
    """The tables of a request and how to count them.

    Raises:
        UsageError: a file cannot be read, or is no table.
    """
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
        users=config.by_user,
        times=by_user or request.every is not None,
        wording=request.wording,
    )
    with as_usage_error(SourceError):
        files = [table_file(path) for path in request.paths]
        kind = kind_of(files, options)
        if config.event.ids == "integer" and kind == "string":
            kind, options = "integer", msgspec.structs.replace(options, integers=True)
        config = of_kind(config, kind)
        inputs = config.inputs(request.inputs) | {"depth": config.depth}
        inputs["experiment"] = config.experiment is not None
        metrics = [metric.text for metric in config.accumulator(request.inputs).metrics]
        count = TableCounting(options, metrics, request.every, inputs)
        return TableTask(config, [piece for file in files for piece in file.pieces], inputs, count)


def count_tables(request: Request, config: Config, around: Surroundings) -> CountedTables:
    """Count tables with one event per row."""
    config, pieces, inputs, count = table_task(request, config)
    sizes = [piece.size for piece in pieces]
    tasks = tasks_by_size(pieces, sizes, request.processes)
    given_inputs = {name: inputs[name] for name in ("catalog", "popularity", "similarity")}
    doubts: dict[Cell, Doubts] = {}
    with (
        as_usage_error(SourceError),
        map_in_processes(count, tasks, request.processes) as parts,
        around.progress(sum(sizes)) as shown,
    ):
        cells = merged(_rows(parts, shown, doubts), **given_inputs)
    for cell, counted in cells.items():
        counted.doubts.add(doubts[cell])
    return CountedTables(config.accumulator(request.inputs), cells)


def _rows(
    parts: Iterable[TaskResult], shown: Callable[[int, int], None], doubts: dict[Cell, Doubts]
) -> Iterator[Partial]:
    """The rows of all tasks; adds up the doubts of their cells."""
    size = lists = 0
    for part in parts:
        size, lists = size + part.size, lists + part.lists
        shown(size, lists)
        for cell, doubt in part.doubts.items():
            doubts.setdefault(cell, Doubts()).add(doubt)
        yield from part.rows


def of_kind(config: Config, kind: Kind) -> Config:
    """The configuration with ids of the kind that the files have."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)
