"""Counts files as a daemon does: joins, windows, and each event id once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from streameval.accumulator.event_checks import EventChecks
from streameval.config import Config
from streameval.config.field_check import streams_of
from streameval.config.pipeline import frontend_of, layout
from streameval.decoding.repeated_keys import RepeatedKeys
from streameval.engine.capture import ingest_snapshot, lifetimes_of
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.first_records import FirstRecords
from streameval.engine.ingest import Ingest, StartOwner
from streameval.engine.partition import Sink, Tally
from streameval.engine.snapshot import JoinHealth, Snapshot
from streameval.engine.windows.family import widest_search
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.configuration import with_ids
from streameval.evaluation.setup import Setup
from streameval.evaluation.slice_counts import Dumped, SliceCounts, events_of, first_dead_letters
from streameval.evaluation.sources import EventSource, add_outcomes
from streameval.evaluation.span_readings import SpanReadings
from streameval.events.errors import UsageError
from streameval.events.ids import IdKind
from streameval.events.records import Partition, PartitionOwner
from streameval.join.attribution import OutcomeCounts
from streameval.join.frontend import CopartitionedOwner, JoinStats
from streameval.join.state import JoinedState
from streameval.sources.files import FilesSource
from streameval.sources.settings import FilesOptions
from streameval.sources.source import Positions
from streameval.sources.source import Source as RecordSource

_POLL_SECONDS: Final = 0.2


class DumpedEngine(NamedTuple):
    """The counts of some logs: of each its next offset and state, or those of spans."""

    partitions: Mapping[Partition, tuple[int, Mapping[str, bytes]]]
    tally: Tally
    dead_letters: Sequence[DeadLetter]
    event_checks: EventChecks
    repeated_keys: Sequence[str]
    spans: Dumped | None


class EngineCounts:
    """Counts of the engine for a setup with a configuration; the methods of `SliceCounts`.

    `sink`: takes the lists that count, instead; None to count them.
    """

    def __init__(self, setup: Setup, ids: IdKind, sink: Sink | None = None) -> None:
        if setup.config is None:
            raise UsageError("the engine counts with a configuration; give config=.")
        config, every = with_ids(setup.config, ids), setup.every
        self._config, settings = config, layout(config, setup.inputs)
        self._labels = config.series_labels()
        self.search = widest_search(settings.families)
        self._spans: SliceCounts | None = None
        if every is not None and sink is None:
            self._spans = SliceCounts(
                settings.families, self._labels, config.intervals, every=every
            )
            sink = self._spans.count
        self.ingest = Ingest(frontend_of(config, settings), sink=sink)
        self.dead_letters: list[DeadLetter] = []
        self.repeated_keys = RepeatedKeys()

    @property
    def tally(self) -> Tally:
        """See `SliceCounts`."""
        return self.ingest.tally

    def count_parts(self, source: EventSource, parts: Iterable[Any]) -> Iterator[int]:
        """Streams that are joined are read side by side."""
        if self._config.attribution is None:
            for size, events in events_of(source, parts, self.search, self.repeated_keys):
                self.ingest.count(events.records, events.decoded.voting(None))
                self.dead_letters = first_dead_letters(
                    [*self.dead_letters, *self.ingest.take_invalid()]
                )
                yield size
            return
        records = FilesSource(FilesOptions(paths=list(source.names)))
        records.open(owner_from_start(self._config, self.ingest))
        first = self.ingest.first = FirstRecords(streams_of(self._config))
        for _ in ingest_records(records, self.ingest):
            self.dead_letters = first_dead_letters(
                [*self.dead_letters, *self.ingest.take_invalid()]
            )
            for stream, taken in enumerate(first.take()):
                self.repeated_keys.search(stream, (*taken.valid, *taken.refused))
            yield records.bytes_read

    @property
    def outcomes(self) -> Mapping[str, OutcomeCounts]:
        """See `SliceCounts`."""
        options = self._config.attribution
        if options is None:
            return {}
        total = [OutcomeCounts() for _ in options.names]
        for state in self.ingest.partitions.values():
            if isinstance(state, JoinedState):
                total = add_outcomes(total, state.outcomes)
        return dict(zip(options.names, total, strict=True))

    def dump(self) -> DumpedEngine:
        """See `SliceCounts.dump`."""
        ingest, spans = self.ingest, None if self._spans is None else self._spans.dump()
        partitions = {
            partition: (
                offset,
                {x.name: b"".join(x.content()()) for x in ingest.sections(partition)},
            )
            for partition, offset in ingest.positions.items()
            if spans is None
        }
        return DumpedEngine(
            partitions,
            ingest.tally,
            self.dead_letters,
            ingest.event_checks,
            self.repeated_keys.names,
            spans,
        )

    def merge(self, dumped: DumpedEngine) -> None:
        """See `SliceCounts.merge`."""
        self.ingest.add(dumped.tally, dumped.event_checks)
        self.repeated_keys.add(dumped.repeated_keys)
        self.dead_letters = first_dead_letters([*self.dead_letters, *dumped.dead_letters])
        for partition, (offset, parts) in dumped.partitions.items():
            self.ingest.restore(partition, {partition: offset}, parts)
        if self._spans is not None and dumped.spans is not None:
            self._spans.merge(dumped.spans)

    def flush(self) -> None:
        """See `SliceCounts.flush`."""
        if self._spans is not None:
            self._spans.flush()

    @property
    def clock(self) -> int | None:
        """See `SliceCounts.clock`."""
        return self.ingest.clock

    newest = clock

    @property
    def starts(self) -> list[int | None]:
        """See `SliceCounts.starts`."""
        return [None] if self._spans is None else self._spans.starts

    def families(self, start: int | None = None) -> list[SliceTable]:
        """See `SliceCounts.families`."""
        if self._spans is not None:
            return self._spans.families(start)
        return lifetimes_of(self.ingest, self._labels)

    def spans(self) -> Sequence[SpanReadings]:
        """The spans, with windows and the findings of analyses."""
        if self._spans is not None:
            return self._spans.spans()
        return [SpanReadings(None, self._snapshot)]

    @cached_property
    def _snapshot(self) -> Snapshot:
        return ingest_snapshot(self.ingest, labels=self._labels, now=0.0, join=self._join())

    def warning(self) -> str | None:
        """Warning of the counts, or that most interactions do not join."""
        join = self._join()
        return self.tally.warning() or (None if join is None else join.loss())

    def warnings(self) -> list[str]:
        """See `SliceCounts.advice`."""
        if self._spans is not None:
            warning = self.warning() or self.ingest.data_warning()
            texts = [warning, *self._spans.warnings()]
        else:
            texts = [self._snapshot.health.trouble]
        join = self._join()
        of_join = () if join is None else join.warnings()
        return [text for text in dict.fromkeys((*texts, *of_join)) if text is not None]

    def _join(self) -> JoinHealth | None:
        options = self._config.attribution
        if options is None:
            return None
        stats = JoinStats(options.names, by_request=options.key == "request_id")
        return stats.health(self.ingest.partitions)


def owner_from_start(config: Config, ingest: Ingest) -> PartitionOwner:
    """An owner that has each log read from where its source begins."""
    if config.attribution is None:
        return Positions()
    topics = [topic for stream in config.attribution.streams for topic in stream]
    return CopartitionedOwner(StartOwner(ingest), ingest.partition_of, topics)


def ingest_records(source: RecordSource, ingest: Ingest) -> Iterator[None]:
    """Apply all records of a source batch by batch."""
    while not source.status.finished:
        for batch in source.poll(_POLL_SECONDS):
            ingest.apply(batch)
        ingest.end(source.status.ended)
        source.pause(ingest.backpressured)
        yield
