"""Counts batches of records; the state and the position of a partition change together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from streameval.accumulator.event_checks import EventChecks
from streameval.decoding.columns import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.backfill import Backfill
from streameval.engine.clock import provisional
from streameval.engine.dead_letters import (
    DeadLetter,
    Examples,
    Limits,
    dead_letters_in,
    decode_valid,
    describe_with_line,
    is_bug,
    too_many_invalid,
    without_content,
)
from streameval.engine.first_records import FirstRecords
from streameval.engine.partition import (
    Applied,
    EventCounter,
    Layout,
    PartitionState,
    Progress,
    Sink,
    Tally,
)
from streameval.engine.windows.family import FamilyCopy
from streameval.engine.windows.labels import LabelCaps
from streameval.engine.windows.sections import Section
from streameval.events.errors import (
    InvalidEventError,
    OwnMetricError,
    OwnStatisticError,
    RefusedRecordsError,
    UncountableRecordsError,
)
from streameval.events.records import Assignment, Partition, RecordBatch, group_batches
from streameval.events.saved_states import damage_as_error
from streameval.statistics.kernel import COMPILED

RECORDS_AT_ONCE: Final = 2_048 if COMPILED else 1_024
"""Records decoded and counted together: their strings fit into a cache of 2 MB.

Scanned records have no strings; twice as many at once cost an eighth less.
"""


class IngestCopy(NamedTuple):
    """A copy of all counts at one moment.

    Attributes:
        since: `PartitionState.since` of each partition.
        clock: see `Ingest.clock`.
        clocks: the clock of each log whose clock is final, microseconds.
        event_checks: of the events of all partitions.
    """

    families: Mapping[str, Sequence[FamilyCopy]]
    since: Sequence[Mapping[str, int]]
    clock: int | None
    clocks: Mapping[Partition, int]
    tally: Tally
    progress: Mapping[Partition, Progress]
    event_checks: EventChecks

    @property
    def times(self) -> Mapping[Partition, int]:
        """The event time of each log with events, microseconds; none is after `clock`.

        For logs that are not in `clocks` it is an estimate.
        """
        if (latest := self.clock) is None:
            return {}
        times = {log: log_progress.clock for log, log_progress in self.progress.items()}
        return {log: min(at, latest) for log, at in times.items() if at is not None}


class States(Protocol):
    """Makes the states of partitions."""

    def state(self, offsets: Mapping[Partition, int], counter: EventCounter, /) -> PartitionState:
        """An empty state; `offsets`: of each log that it counts."""
        ...


class Frontend(States, Protocol):
    """Decodes records, and makes the states that count them."""

    @property
    def layout(self) -> Layout:
        """The layout of every state."""
        ...

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts a log."""
        ...

    def groups(self, batches: Iterable[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
        """The batches in groups that `apply` takes; cuts batches."""
        ...

    def decode(self, batch: RecordBatch) -> Any:
        """The columns of a batch, with the invalid records."""

    def apply(
        self, counter: EventCounter, states: Sequence[Any], batches: Sequence[RecordBatch], /
    ) -> list[Applied]:
        """Decode a group of batches and apply each to its state.

        Raises:
            SourceError: a batch begins before its position, so records would count twice.
        """
        ...


class EventFrontend:
    """Every record is an event with its interactions; every log is a partition of its own."""

    def __init__(self, decoder: BatchDecoder[Decoded], layout: Layout) -> None:
        self.layout = layout
        self._decoder = decoder

    def partition_of(self, log: Partition) -> Partition:
        """The log itself."""
        return log

    def groups(self, batches: Iterable[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
        """See `Frontend`; batches of many partitions are counted as one."""
        return group_batches(batches, RECORDS_AT_ONCE)

    def decode(self, batch: RecordBatch) -> Decoded:
        """See `Frontend`."""
        return self._decode([batch])

    def apply(
        self,
        counter: EventCounter,
        states: Sequence[PartitionState],
        batches: Sequence[RecordBatch],
    ) -> list[Applied]:
        """See `Frontend`; batches that cannot be counted together are counted one by one."""
        try:
            if len(batches) == 1:
                # A record on which decoding raises is invalid.
                decoded: Decoded = decode_valid(self.decode, *batches)
            else:
                decoded = self._decode(batches)
            decoded, lists = counter.countable(states, decoded)
        except Exception as error:
            fails = is_bug(error) or isinstance(error, InvalidEventError)
            if len(batches) == 1 or not fails:
                raise
            pairs = zip(states, batches, strict=True)
            return [*chain(*(self.apply(counter, [state], [batch]) for state, batch in pairs))]
        return counter.apply(states, batches, decoded, lists)

    def state(self, offsets: Mapping[Partition, int], counter: EventCounter) -> PartitionState:
        """An empty state of one log."""
        return PartitionState(counter, offsets)

    def _decode(self, batches: Sequence[RecordBatch]) -> Decoded:
        keys = None
        if any(batch.keys is not None for batch in batches):
            every = (batch.keys or [None] * len(batch.values) for batch in batches)
            keys = [*chain.from_iterable(every)]
        values = batches[0].values
        if len(batches) > 1:
            values = [*chain.from_iterable(batch.values for batch in batches)]
        return self._decoder.decode_many(values).voting(keys)


def uncountable(
    records: Sequence[tuple[str, int, int]], error: Exception
) -> UncountableRecordsError:
    """The error for records whose counting fails; see `UncountableRecordsError.records`."""
    where = ", ".join(
        f"{partition} offset {first}" if first == last else f"{partition} offsets {first} to {last}"
        for partition, first, last in records[:3]
    )
    if len(records) > 3:
        where += f" and {len(records) - 3:,} more partitions"
    problem = describe_with_line(error)
    # A user's own metric or statistic says what to correct.
    own = isinstance(error, (OwnMetricError, OwnStatisticError))
    remedy = "" if own else "Report this, with the records. "
    return UncountableRecordsError(
        f"{where}: counting fails ({problem}). {remedy}With [state], the next start tries each "
        "record alone, and makes a dead letter of one that fails.",
        records=records,
        problem=problem,
    )


class Ingest:
    """Counts batches of records, by partition; reads no clock, logs nothing.

    `keep_dead_letters`: collect invalid records for `take_dead_letters`. `incremental`: leave long
    work to `proceed`, a part at a time. `limits`: on invalid records; None
    for no limits. `sink`: see `EventCounter`.

    Attributes:
        first: collects the first records; None: they are not collected.
    """

    def __init__(
        self,
        frontend: Frontend,
        *,
        keep_dead_letters: bool = False,
        incremental: bool = False,
        limits: Limits | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.layout = frontend.layout
        self.tally = Tally()
        self.first: FirstRecords | None = None
        self._frontend = frontend
        self._counter = EventCounter(self.layout, sink)
        self._partitions: dict[Partition, PartitionState] = {}
        self._examples = Examples()
        self._keep_dead_letters = keep_dead_letters
        self._incremental = incremental
        self._limits = limits
        self._refusal: RefusedRecordsError | None = None
        self._dead_letters: list[DeadLetter] = []

    def groups(self, batches: Iterable[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
        """The batches in groups that are counted together; cuts batches."""
        return self._frontend.groups(batches)

    def apply(self, *batches: RecordBatch) -> None:
        """Count batches, and set the position of each partition after its batch.

        A partition that was not begun begins with its batch. A record that cannot be counted is
        invalid. After an error the counts are unusable.

        Raises:
            SourceError: a batch begins before its position, so records would count twice.
            RefusedRecordsError: the limits on invalid records are exceeded.
            UncountableRecordsError: records cannot be counted together, because of a bug.
        """
        for group in self.groups(batches):
            self._count(group, partial(self._frontend.apply, self._counter))

    def count(self, batch: RecordBatch, decoded: Decoded) -> None:
        """Count a batch of events that is decoded already; see `apply`."""
        counter = self._counter
        self._count(
            [batch],
            lambda states, batches: counter.apply(
                states, batches, *counter.countable(states, decoded)
            ),
        )

    def _count(
        self,
        batches: Sequence[RecordBatch],
        apply: Callable[[Sequence[PartitionState], Sequence[RecordBatch]], list[Applied]],
    ) -> None:
        states = [self._state(batch) for batch in batches]
        try:
            outcomes = apply(states, batches)
            for state in states:
                self._proceed(state)
        except Exception as error:
            filled = [batch for batch in batches if batch.offsets]
            if not filled or not is_bug(error):
                raise
            records = [(str(x.partition), x.offsets[0], x.offsets[-1]) for x in filled]
            raise uncountable(records, error) from error
        for batch, (invalid, tally) in zip(batches, outcomes, strict=True):
            if self.first is not None:
                self.first.add(batch, invalid)
            self._note(batch, invalid, tally)
        self._check_limits()

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return [log for state in self._partitions.values() for log in state.backpressured]

    def end(self, partitions: Collection[Partition]) -> None:
        """Mark logs as ended, and count the records that waited for them."""
        for partition in sorted({self.partition_of(log) for log in partitions}):
            if partition in self._partitions:
                self._partitions[partition].end(partitions)
                self._proceed(self._partitions[partition])
        self._check_limits()

    @property
    def unfinished(self) -> bool:
        """True if work is left for `proceed`."""
        return any(state.unfinished for state in self._partitions.values())

    def proceed(self) -> None:
        """Do a part of the unfinished work; raises as `apply` does."""
        for state in self._partitions.values():
            if state.unfinished:
                state.proceed()
                self._take_refused(state)
                self._check_limits()
                return

    def finish(self) -> None:
        """Do all unfinished work; raises as `apply` does."""
        while self.unfinished:
            self.proceed()

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts a log: the log itself, unless streams are joined."""
        return self._frontend.partition_of(log)

    def begin(self, partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Start a partition empty, at the offset of each of its logs."""
        self._partitions[partition] = self._frontend.state(offsets, self._counter)

    def restore(
        self,
        partition: Partition,
        offsets: Mapping[Partition, int],
        parts: Mapping[str, bytes],
        states: States | None = None,
        *,
        unchanged: Collection[str] = (),
        empty_unlike: bool = False,
    ) -> None:
        """Continue from the output of `sections`, at the offset of each log.

        Args:
            partition: that the parts belong to.
            offsets: of each log.
            parts: the output of `sections`, or the part of it that a state for reading needs.
            states: makes the state, with the layout of this ingest; None: the frontend.
            unchanged: names of more parts, as they were in the last restore of this partition.
            empty_unlike: whether statistics of other inputs start empty, instead of raising.

        Raises:
            DamagedStateError: the parts are not the output of `sections`; nothing has changed.
            UnlikeStateError: they have other inputs or options.
        """
        state = (states or self._frontend).state(offsets, self._counter)
        earlier = self._partitions[partition] if unchanged else None
        with damage_as_error(str(partition)):
            state.restore(parts, earlier=earlier, unchanged=unchanged, empty_unlike=empty_unlike)
        state.skip(offsets)
        state.cautious = True
        self._partitions[partition] = state

    def merge(self, partition: Partition, backfill: Backfill) -> None:
        """Add the counts of a backfill to a partition; see `PartitionState.merge`.

        Raises:
            UsageError: its event time does not fit, or overlaps with an earlier backfill.
            UnlikeStateError: it has other metrics, inputs or ids.
            DamagedStateError: a row is damaged.
        """
        backfill.check_new(
            extent for state in self._partitions.values() for extent in state.backfills
        )
        self._partitions[partition].merge(backfill)

    def drop(self, partition: Partition) -> None:
        """Drop the state of a partition."""
        self._partitions.pop(partition, None)

    def sections(self, partition: Partition) -> list[Section]:
        """The state of a partition as sections, sorted by name."""
        return self._partitions[partition].sections()

    @property
    def partitions(self) -> Mapping[Partition, PartitionState]:
        """The state of each partition."""
        return self._partitions

    @property
    def positions(self) -> dict[Partition, int]:
        """The next offset of each log."""
        return {log: log_progress.position for log, log_progress in self.progress.items()}

    @property
    def progress(self) -> dict[Partition, Progress]:
        """The progress of each log."""
        progress: dict[Partition, Progress] = {}
        for state in self._partitions.values():
            progress |= state.progress()
        return progress

    @property
    def clock(self) -> int | None:
        """The event time of the counts, microseconds; None if unknown.

        It is the largest final clock of a partition; if none is final, an estimate from the votes
        of all partitions.
        """
        clocks = [state.time for state in self._partitions.values()]
        final = [clock.now for clock in clocks if clock.is_final]
        if final:
            return max(final)
        few = [time for clock in clocks for time in clock.votes]
        return provisional(few, self.layout.clock.max_ahead)

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def copied(self) -> IngestCopy:
        """Copy the counts within milliseconds, for reading on any thread."""
        states = [state for _, state in sorted(self._partitions.items())]
        return IngestCopy(
            families={
                spec.name: [state.families[spec.name].copied() for state in states]
                for spec in self.layout.families
            },
            since=[dict(state.since) for state in states],
            clock=self.clock,
            clocks={
                log: state.time.now
                for state in states
                if state.time.is_final
                for log in state.progress()
            },
            tally=msgspec.structs.replace(self.tally, invalid=dict(self.tally.invalid)),
            progress=self.progress,
            event_checks=self.event_checks,
        )

    @property
    def event_checks(self) -> EventChecks:
        """A copy of the checks of the events of all partitions."""
        return self._counter.event_checks.copy()

    def add(self, tally: Tally, event_checks: EventChecks) -> None:
        """Add outcomes and checks of records that were counted elsewhere."""
        self.tally.add(tally)
        self._counter.event_checks.add(event_checks)

    def data_warning(self) -> str | None:
        """A data quality warning about the events, or None."""
        metrics = (metric for spec in self.layout.families for metric in spec.metrics)
        return self.event_checks.warning(metrics)

    def label_caps(self, family: str) -> LabelCaps:
        """The label caps of all partitions together."""
        spec = next(spec for spec in self.layout.families if spec.name == family)
        empty = LabelCaps(spec.label_caps, len(spec.columns))
        return empty.union(state.families[family].label_caps for state in self._partitions.values())

    def take_dead_letters(self) -> list[DeadLetter]:
        """All invalid records since the last call, if `keep_dead_letters`.

        Raises:
            RefusedRecordsError: the limits are exceeded; the next call returns the dead letters.
        """
        for state in self._partitions.values():
            self._take_refused(state)
        self._check_limits()
        dead_letters, self._dead_letters = self._dead_letters, []
        return dead_letters

    def _state(self, batch: RecordBatch) -> PartitionState:
        partition = self.partition_of(batch.partition)
        if partition not in self._partitions:
            first = batch.offsets[0] if batch.offsets else batch.next_offset
            self.begin(partition, {batch.partition: first})
        return self._partitions[partition]

    def _proceed(self, state: PartitionState) -> None:
        """Do a part of the unfinished work, or all of it if not `incremental`."""
        if state.unfinished:
            state.proceed()
        while state.unfinished and not self._incremental:
            state.proceed()
        self._take_refused(state)

    def _take_refused(self, state: PartitionState) -> None:
        """Make dead letters of the lists of a join that could not be counted when they closed."""
        for record, event in state.take_refused():
            tally = Tally(valid=-1)
            tally.add_invalid([event])
            self._note(without_content(record), [(0, event)], tally)

    def _note(
        self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]], tally: Tally
    ) -> None:
        """Record the outcomes of records; call `_check_limits` after all of them."""
        self.tally.add(tally)
        if invalid:
            self._examples.add(batch, invalid)
            if self._keep_dead_letters:
                self._dead_letters.extend(dead_letters_in(batch, invalid))
        if self._limits is None:
            return
        exceeded = self._limits.observe(len(batch.values), [row for row, _ in invalid])
        if exceeded is not None:
            last = dead_letters_in(batch, invalid[-1:])
            example = str(last[0]) if last else "among the first ones"
            # Raised by `_check_limits`, so that the dead letters can still be taken.
            self._limits, self._refusal = None, too_many_invalid(exceeded, example)

    def _check_limits(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal


class StartOwner:
    """Owns partitions whose states start empty at the `start` offsets, and live in memory."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Start each partition empty at its `start` offset."""
        for assignment in assignments:
            self._ingest.begin(
                assignment.partition, {log.partition: log.start for log in assignment.logs}
            )
        return {log.partition: log.start for assignment in assignments for log in assignment.logs}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        for partition in partitions:
            self._ingest.drop(partition)
