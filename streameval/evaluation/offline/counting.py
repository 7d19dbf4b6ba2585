"""Counts the events that a request names: JSON lines, tables and pairs, all by one engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.doubts import Doubts
from streameval.config import Config
from streameval.decoding.columns import Decoded
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.ingest import Ingest
from streameval.engine.partition import Tally
from streameval.engine.spans import Dumped, Spans
from streameval.engine.windows.times import unit_warning
from streameval.engine.windows.views import FamilyView
from streameval.evaluation.offline.parallel import map_in_processes, tasks_by_size
from streameval.evaluation.offline.readers import EventReader, reader_of
from streameval.evaluation.offline.request import Request, source_name
from streameval.evaluation.offline.surroundings import Surroundings, as_usage_error
from streameval.evaluation.offline.values import EventChunk
from streameval.evaluation.tables.files import is_table
from streameval.events.errors import SourceError
from streameval.events.records import Partition
from streameval.sources.files import first_record


class Counts(NamedTuple):
    """The counts of files.

    Attributes:
        config: what was counted, with the kind of ids that the events have.
        spans: counts by span; None if the ingest itself counts, as the daemon does.
    """

    ingest: Ingest
    config: Config
    spans: Spans | None = None


def count_events(
    request: Request, config: Config, around: Surroundings, every: int | None = None
) -> Counts:
    """Count all events that a request names, and note the doubts about them.

    JSON lines and tables are counted by the same engine, as by the daemon.

    Args:
        request: names the files.
        config: what to count.
        around: takes the doubts.
        every: length of a span, microseconds; None to count as the daemon does.
    """
    reader = reader_of(request, config, every, around.note)
    counts = _new_counts(reader, every)
    tally, paths = counts.ingest.tally, [*map(source_name, request.paths)] or config.source.logs
    examples: list[DeadLetter] = []
    parts, sizes = reader.parts, reader.sizes
    with around.progress(sum(sizes) if sizes else None) as shown:
        if request.processes > 1 and sizes is not None:
            read, tasks = 0, tasks_by_size(parts, sizes, request.processes)
            count = PartCounting(reader, every)
            with map_in_processes(count, tasks, request.processes) as results:
                for part in results:
                    part.add_to(counts)
                    examples = _first_of_each_reason([*examples, *part.examples], paths)
                    read += part.size
                    shown(read, tally.consumed)
        else:
            for read, letters in reader.apply(parts, counts.ingest):
                examples = _first_of_each_reason([*examples, *letters], paths)
                shown(read, tally.consumed)
    unread = [] if request.is_tables else _unread(config, paths)
    for doubt in (*unread, *_invalid(tally, examples)):
        around.note(doubt)
    return counts


def event_chunks(request: Request, config: Config, every: int | None) -> Iterator[EventChunk]:
    """The events again, as `count_events` counts them; doubts are not noted again."""
    chunks: list[EventChunk] = []
    named = [*map(config.series_dimensions().index, config.series_labels())]

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
            chunks.append(EventChunk(part, tuple([labels[at] for at in named]), start))

    reader = reader_of(request, config, every, lambda _: None)
    for _ in reader.apply(reader.parts, Ingest(reader.frontend(), sink=keep)):
        yield from chunks
        chunks.clear()
    yield from chunks


def _unread(config: Config, paths: Sequence[str]) -> Iterator[str]:
    """Doubts about ranks and scores that the first record has, and that [event] does not name."""
    scored = bool(config.reads() & {"scores", "ranksums", "event"})
    wanted = ["positions", *(["scores"] if scored else [])]
    names = [name for name in wanted if getattr(config.event, name) is None]
    record = {} if config.attribution else first_record(paths)
    for name in names:
        if name in record:
            yield f"{name} of the records are not read; name them with --column {name}={name}."


def _new_counts(reader: EventReader, every: int | None) -> Counts:
    with as_usage_error(SourceError):
        frontend = reader.frontend()
    if every is None:
        return Counts(Ingest(frontend), reader.config)
    spans = Spans(frontend.layout.families, every, frontend.layout.intervals)
    return Counts(Ingest(frontend, sink=spans.update), reader.config, spans)


def _invalid(tally: Tally, examples: Sequence[DeadLetter]) -> Iterator[str]:
    bad = sum(tally.invalid.values())
    if bad:
        yield f"{bad:,} of {tally.consumed:,} records are invalid and left out:"
    for record in examples:
        unit = "row" if is_table(record.partition.topic) else "line"
        line = f"{record.partition.topic}, {unit} {record.offset + 1}"
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


class PartCounting:
    """Counts parts of what a reader reads, independently of the others."""

    def __init__(self, reader: EventReader, every: int | None) -> None:
        self._reader, self._every = reader, every

    def __call__(self, parts: Sequence[Any]) -> CountedFiles:
        """Count some parts."""
        ingest, _, spans = _new_counts(self._reader, self._every)
        letters, read = list[DeadLetter](), 0
        for size_read, new in self._reader.apply(parts, ingest):
            letters += new
            read = size_read
        paths = dict.fromkeys(letter.partition.topic for letter in letters)
        totals = read, ingest.tally, _first_of_each_reason(letters, [*paths])
        if spans is not None:
            return CountedFiles(*totals, {}, spans.dump(), ingest.doubts)
        partitions = {
            partition: (
                position,
                {
                    section.name: b"".join(section.content()())
                    for section in ingest.sections(partition)
                },
            )
            for partition, position in ingest.positions.items()
        }
        return CountedFiles(*totals, partitions, (), ingest.doubts)


def _first_of_each_reason(letters: Iterable[DeadLetter], paths: Sequence[str]) -> list[DeadLetter]:
    """The first letter of each reason in the order of the files, not of reading."""
    order = {path: number for number, path in enumerate(paths)}
    first_letters: dict[str, DeadLetter] = {}
    for letter in letters:
        first = first_letters.setdefault(letter.reason, letter)
        first_letters[letter.reason] = min(
            first,
            letter,
            key=lambda candidate: (order.get(candidate.partition.topic, 0), candidate.offset),
        )
    return list(first_letters.values())


def early_warning(config: Config, times: Sequence[int]) -> str | None:
    """A doubt about times of events, in microseconds, that seem to have another unit than given."""
    field, unit = config.event.time, config.event.time_unit
    return unit_warning(max(times), field, str(unit)) if field is not None and times else None


def accumulator_of(
    counts: Counts, labels: Sequence[str], inputs: Mapping[str, Any]
) -> Accumulator | None:
    """The lifetime counts of a slice; None if there is no such slice, or counted by spans.

    `labels`: a value of each label. `inputs`: as in `Config.inputs`.
    """
    config, layout = counts.config, counts.ingest.layout
    for spec in layout.families if counts.spans is None else ():
        if spec.dimensions != tuple(config.series_labels()):
            continue
        view = FamilyView(spec, layout.windowing.pane)
        view.refresh(counts.ingest.copied().families[spec.name])
        table = view.lifetime()
        for number in view.slices(table).tolist():
            if view.labels(number) == tuple(labels):
                counted = config.accumulator(inputs)
                counted.adopt(b"".join(table.dump([number])))
                return counted
    return None
