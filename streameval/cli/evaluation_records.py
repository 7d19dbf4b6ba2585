"""`streameval evaluate` on JSON lines: files through the pipeline of the daemon, once."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, cast

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from typer import Exit

from streameval.cli.ending import FAILED, tell, wrong_call_where
from streameval.cli.evaluation import (
    Request,
    configured,
    snapshot_of,
    span_length,
    span_text,
    write,
)
from streameval.cli.readings import Taken
from streameval.cli.screen import progress_console
from streameval.config import Config
from streameval.config.pipeline import counting as new_counting
from streameval.config.pipeline import joint, layout
from streameval.errors import SourceError
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.grouping import Grouped
from streameval.join.state import JoinedState
from streameval.join.stats import JoinStats
from streameval.pipeline.clock import Clock
from streameval.pipeline.dead_letters import DeadLetter, Examples
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.joined import JoinHealth
from streameval.pipeline.labels import MISSING_LABEL
from streameval.pipeline.memory import Memory
from streameval.pipeline.snapshot import SeriesFamily, Snapshot
from streameval.pipeline.snapshots import of_ingest
from streameval.pipeline.spans import Spans
from streameval.pipeline.tally import Tally
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions
from streameval.sources.owning import Positions

_SECONDS = 0.2


class Begun(Protocol):
    """What starts with nothing counted, where a source says."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int], /) -> None:
        """Start with nothing counted."""


class Counting(Begun, Protocol):
    """What counts the records of files."""

    tally: Tally

    def apply(self, batch: RecordBatch) -> object:
        """Count the records of a batch."""

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""

    @property
    def backpressured(self) -> Collection[Partition]:
        """Files of which no more should be read now."""

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call."""


def evaluate_records(request: Request) -> None:
    """Evaluate the files and write the readings.

    Raises:
        WrongCallError: no metric is asked for, or a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        SourceError: a file is damaged.
    """
    config = configured(request)
    every = span_length(config, request)
    counting = new_counting(config) if every is None else SpanCounting(config, every)
    source = FilesSource(cast("FilesOptions", config.source))
    with wrong_call_where(SourceError):
        source.open(beginning(config, counting))
    read_all(source, counting)
    join = _join_health(counting, config)
    taken = (
        list(counting.taken())
        if isinstance(counting, SpanCounting)
        else _whole(counting, config, join)
    )
    _tell_of_absent_labels([each.snapshot for each in taken])
    suspicion = counting.tally.suspicion() or (join.suspicion() if join is not None else None)
    if suspicion is not None and isinstance(counting, SpanCounting):
        tell(suspicion)
    write(taken, request)
    if suspicion is not None and not request.allow_invalid:
        tell("the exit status is 1 for that; --allow-invalid takes the values as they are.")
        raise Exit(FAILED)
    if not counting.tally.valid:
        tell(f"no valid event in {', '.join(source.paths)}.")
        raise Exit(FAILED)


def _whole(ingest: Ingest, config: Config, join: JoinHealth | None) -> list[Taken]:
    return [Taken(None, of_ingest(ingest, labels=config.labels, now=time.time(), join=join))]


def _join_health(counting: Ingest | SpanCounting, config: Config) -> JoinHealth | None:
    options = config.attribution
    if options is None:
        return None
    stats = JoinStats(options.names, by_request=options.key == "request_id")
    return stats.health(counting.partitions)


def read_all(source: FilesSource, counting: Counting) -> None:
    """Count all records of the files, with a bar, and tell of those that are no event."""
    console = progress_console()
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    found: dict[str, DeadLetter] = {}
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=source.bytes_total)
        while not source.finished:
            for batch in source.poll(_SECONDS):
                counting.apply(batch)
            counting.end(source.ended)
            source.pause(counting.backpressured)
            for record in counting.take_invalid():
                found.setdefault(record.reason, record)
            progress.update(task, completed=source.bytes_read)
    _tell_of_invalid(counting.tally, list(found.values()))


def _tell_of_invalid(tally: Tally, examples: Sequence[DeadLetter]) -> None:
    bad = sum(tally.invalid.values())
    if bad:
        tell(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        tell(f"{count:>9,} {record.reason}, first in {line}: {record.message}: {record.preview}")


def _tell_of_absent_labels(snapshots: Sequence[Snapshot]) -> None:
    values: dict[str, set[str]] = {}
    for snapshot in snapshots:
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            for name, value in zip(names, entry.labels, strict=True):
                values.setdefault(name, set()).add(value)
    for name, found in values.items():
        if found == {MISSING_LABEL}:
            tell(f"no event has the label {name!r}; --by or [event.labels] names its field.")


class SpanCounting:
    """Counts the events of files by spans of event time.

    Args:
        config: what is counted, and how; its windows are not read.
        every: length of a span, microseconds.

    Raises:
        ConfigError: the fields of an event contradict each other.
        MetricError: a metric cannot be understood, or lacks its inputs.
        SourceError: a file that the configuration names cannot be read.
    """

    def __init__(self, config: Config, every: int) -> None:
        kept = layout(config)
        self.tally = Tally()
        self._families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        self._spans = Spans(kept.families, every)
        self._dedup, self._max_ahead = kept.dedup, kept.max_ahead
        self._decoder = Decoder(config.event, config.dimensions())
        self._joint = (
            None if config.attribution is None else joint(config, config.attribution, kept)
        )
        self._joined: JoinedState | None = None
        self._examples = Examples()
        self._seen: dict[Partition, tuple[Memory, Clock]] = {}

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a file is counted."""
        return partition if self._joint is None else self._joint.home(partition)

    def begin(self, _partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Join these files."""
        if self._joint is not None:
            self._joined = self._joint.state(offsets, self._spans.update)

    @property
    def partitions(self) -> Mapping[Partition, JoinedState]:
        """What is joined."""
        return {} if self._joined is None else {self._joined.logs.partitions[0]: self._joined}

    @property
    def backpressured(self) -> Collection[Partition]:
        """Files of which no more should be read now."""
        return () if self._joined is None else self._joined.backpressured

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""
        if self._joined is not None:
            self._joined.end(partitions)

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch; returns what became of them."""
        if self._joint is not None and self._joined is not None:
            applied = self._joined.apply(batch, self._joint.decode(batch))
            self.tally.add(applied.tally)
            self._examples.add(batch, applied.invalid)
            return applied.tally
        decoded = self._decoder.decode_many(batch.values)
        counted = self._novel(batch.partition, decoded)
        self._spans.update(counted)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        tally.valid = len(counted.places)
        tally.engaged = counted.engaged
        tally.duplicates = len(decoded.places) - tally.valid
        tally.refuse([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self._examples.add(batch, decoded.invalid)
        return tally

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def taken(self) -> Iterator[Taken]:
        """The readings of each span that has an event, in the order of time."""
        for start, slices in self._spans.items():
            yield Taken(span_text(start), snapshot_of(self._families, slices))

    def _novel(self, partition: Partition, decoded: Decoded) -> Decoded:
        """Without events that came before, where the configuration has `dedup`."""
        times, event_ids = decoded.times, decoded.event_ids
        if self._dedup is None or event_ids is None or times is None or not decoded.places:
            return decoded
        if partition not in self._seen:
            self._seen[partition] = Memory(self._dedup), Clock(self._max_ahead)
        memory, clock = self._seen[partition]
        return decoded.keep(memory.novel(event_ids, times, clock.advance(times)))


def beginning(config: Config, begun: Begun) -> Owner:
    """Who says where reading begins: each log where its source says."""
    if config.attribution is None:
        return Positions()
    topics = [each for stream in config.attribution.streams for each in stream]
    return Grouped(_Starts(begun), begun.home, topics)


class _Starts:
    """Begins what it is given, each log where the source says."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        found: dict[Partition, int] = {}
        for each in assignments:
            starts = {log.partition: log.start for log in each.logs}
            self._begun.begin(each.partition, starts)
            found |= starts
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""
