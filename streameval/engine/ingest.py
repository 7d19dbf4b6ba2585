"""Counts batches of records; the state and position of a partition move together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from streameval.accumulator.doubts import Doubts
from streameval.accumulator.formulas import MetricFailedError
from streameval.decoding.columns import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import provisional
from streameval.engine.dead_letters import DeadLetter, Examples, Identity, Limits, letters_of
from streameval.engine.partition import Backfill, Layout, PartitionState, Progress, Sink, Tally
from streameval.errors import (
    DamagedStateError,
    StreamevalError,
    TooManyInvalidError,
    UncountableRecordError,
)
from streameval.events.records import Assignment, Partition, RecordBatch
from streameval.windows.family import FamilyCopy
from streameval.windows.labels import Folding
from streameval.windows.sections import Section

_UNLIKE_OURS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised for parts with valid digests that another program wrote."""
_SKIPPABLE: Final = "with [state], an operator can skip the record"
"""Remedy for a record that is known to be at fault."""

AT_ONCE: Final = 1_024
"""Records decoded and counted together: their strings fit into a cache of 2 MB."""


class IngestCopy(NamedTuple):
    """A copy of all counts at one moment.

    Attributes:
        since: `PartitionState.since` of each partition.
        clock: see `Ingest.clock`.
        clocks: the clock of each log whose clock is final, microseconds.
        doubts: about the events of all partitions.
    """

    families: Mapping[str, Sequence[FamilyCopy]]
    since: Sequence[Mapping[str, int]]
    clock: int | None
    clocks: Mapping[Partition, int]
    tally: Tally
    progress: Mapping[Partition, Progress]
    doubts: Doubts


class Frontend(Protocol):
    """Decodes records and makes the states that count them."""

    @property
    def layout(self) -> Layout:
        """The layout of every state."""

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts a log."""

    def decode(self, batch: RecordBatch) -> Any:
        """The decoded records, for `PartitionState.apply`."""

    def state(self, offsets: Mapping[Partition, int], sink: Sink | None = None) -> PartitionState:
        """An empty state; `offsets`: of each log that it counts."""


class EventFrontend:
    """Every record is an event with its interactions; every log is a partition of its own."""

    def __init__(self, decoder: BatchDecoder[Decoded], layout: Layout) -> None:
        self.layout = layout
        self._decoder = decoder

    def partition_of(self, log: Partition) -> Partition:
        """The log itself."""
        return log

    def decode(self, batch: RecordBatch) -> Decoded:
        """The events of a batch."""
        decoded = self._decoder.decode_many(batch.values)
        return decoded.voting(batch.keys, decoded.named.users)

    def state(self, offsets: Mapping[Partition, int], sink: Sink | None = None) -> PartitionState:
        """An empty state of one log."""
        ((partition, offset),) = offsets.items()
        return PartitionState(self.layout, partition, offset, sink)


class Ingest:
    """Counts batches of records, by partition; reads no clock, logs nothing.

    `keep_letters`: whether to keep invalid records for `take_letters`. `incremental`: whether long
    work is left to `proceed`, a part at a time. `limits`: on invalid records; None for no limits.
    `sink`: see `PartitionState`.
    """

    def __init__(
        self,
        frontend: Frontend,
        *,
        keep_letters: bool = False,
        incremental: bool = False,
        limits: Limits | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.layout = frontend.layout
        self._sink = sink
        self.tally = Tally()
        self._doubts = Doubts()
        self._frontend = frontend
        self._partitions: dict[Partition, PartitionState] = {}
        self._examples = Examples()
        self._keep_letters = keep_letters
        self._incremental = incremental
        self._limits = limits
        self._letters: list[DeadLetter] = []
        self._skips: dict[Partition, dict[int, str]] = {}

    def skip(self, records: Mapping[Identity, str]) -> None:
        """Make dead letters of these records instead of counting them.

        `records`: record -> message of its letter.
        """
        for (partition, offset), message in records.items():
            self._skips.setdefault(partition, {})[offset] = message

    def remove(self, letter: DeadLetter) -> None:
        """Make a dead letter of a record, if it waits in a join."""
        state = self._partitions.get(self.partition_of(letter.partition))
        if state is None or not state.remove(letter.identity):
            return
        tally = Tally(consumed=1)
        tally.add_invalid([InvalidEvent("skipped", letter.message)])
        self.tally.add(tally)
        self._examples.keep(letter)
        if self._keep_letters:
            self._letters.append(letter)

    def apply(self, batch: RecordBatch) -> None:
        """Count a batch and move the position of its partition behind it.

        A partition that was not begun begins with the batch. After TooManyInvalidError or
        UncountableRecordError the counts are unusable.

        Raises:
            SourceError: the batch begins before the position, so records would count twice.
            TooManyInvalidError: the limits on invalid records are exceeded.
            UncountableRecordError: a record cannot be counted, because of a bug.
        """
        skips = self._skips.get(batch.partition, {})
        for place, offset in enumerate(batch.offsets) if skips else ():
            if offset in skips:
                if place:
                    self._count(batch.piece(0, place, offset))
                self._skip(batch, place, skips[offset])
                self.apply(batch.piece(place + 1, len(batch.values), batch.next_offset))
                return
        self._count(batch)

    def _skip(self, batch: RecordBatch, place: int, message: str) -> None:
        """Leave a record out; for the state, its log has a gap there."""
        skipped = [InvalidEvent("skipped", message)]
        tally = Tally(consumed=1)
        tally.add_invalid(skipped)
        self.tally.add(tally)
        self._keep_invalid(batch, [(place, skipped[0])])

    def _keep_invalid(
        self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]
    ) -> None:
        self._examples.add(batch, invalid)
        if self._keep_letters:
            self._letters.extend(letters_of(batch, invalid))

    def _count(self, batch: RecordBatch) -> None:
        """Count a batch in pieces that fit into the processor's cache."""
        for piece in batch.pieces(AT_ONCE):
            self._count_piece(piece)

    def _count_piece(self, batch: RecordBatch) -> None:
        state = self._state(batch)
        try:
            applied = state.apply(batch, self._frontend.decode(batch))
            self._proceed(state)
        except Exception as error:
            if not batch.offsets or not is_of_a_record(error):
                raise
            raise self._uncountable(batch, error) from error
        self.tally.add(applied.tally)
        if applied.invalid:
            self._keep_invalid(batch, applied.invalid)
        if self._limits is not None:
            self._check_limits(self._limits, batch, applied.invalid)

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return [log for state in self._partitions.values() for log in state.backpressured]

    def end(self, partitions: Collection[Partition]) -> None:
        """Mark logs as ended, and count the records that waited for them."""
        for partition in sorted({self.partition_of(each) for each in partitions}):
            if partition in self._partitions:
                self._partitions[partition].end(partitions)
                self._proceed(self._partitions[partition])

    @property
    def unfinished(self) -> bool:
        """Whether work is left for `proceed`."""
        return any(state.unfinished for state in self._partitions.values())

    def proceed(self) -> None:
        """Do a part of the unfinished work.

        Raises:
            StreamevalError: as `apply`.
        """
        for state in self._partitions.values():
            if state.unfinished:
                state.proceed()
                return

    def partition_of(self, log: Partition) -> Partition:
        """The partition that counts a log: the log itself, unless streams are joined."""
        return self._frontend.partition_of(log)

    def begin(self, partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Start a partition empty, at the offset of each of its logs."""
        self._partitions[partition] = self._frontend.state(offsets, self._sink)

    def restore(
        self,
        partition: Partition,
        offsets: Mapping[Partition, int],
        parts: Mapping[str, bytes],
        frontend: Frontend | None = None,
        *,
        empty_unlike: bool = False,
    ) -> None:
        """Continue from the output of `sections`, at the offset of each log.

        Args:
            partition: that the parts belong to.
            offsets: of each log.
            parts: the output of `sections`.
            frontend: that counted the parts, with the layout of this ingest; None: as here.
            empty_unlike: whether statistics of other inputs start empty, instead of raising.

        Raises:
            DamagedStateError: the parts are not the output of `sections`; nothing has changed.
            UnlikeStateError: they have other inputs or options.
        """
        state = (frontend or self._frontend).state(offsets)
        try:
            state.restore(parts, empty_unlike=empty_unlike)
        except _UNLIKE_OURS as error:
            problem = f"{type(error).__name__}: {error}"
            raise DamagedStateError(str(partition), problem) from error
        state.skip(offsets)
        self._partitions[partition] = state

    def merge(self, partition: Partition, backfill: Backfill) -> None:
        """Add the counts of a backfill to a partition; see `PartitionState.merge`.

        Raises:
            BackfillError: its event time does not fit, or overlaps with an earlier backfill.
            UnlikeStateError: it has other metrics, inputs or ids.
            DamagedStateError: a row is damaged.
        """
        backfill.check_new(each for state in self._partitions.values() for each in state.backfills)
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
        return {log: each.position for log, each in self.progress.items()}

    @property
    def progress(self) -> dict[Partition, Progress]:
        """How far each log was counted."""
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
        few = [time for clock in clocks for time in clock.votes]
        return max(final) if final else provisional(few, self.layout.max_ahead)

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
            doubts=self.doubts,
        )

    @property
    def doubts(self) -> Doubts:
        """Doubts about the events of all partitions."""
        found = self._doubts.copy()
        for state in self._partitions.values():
            found.add(state.doubts)
        return found

    def add(self, tally: Tally, doubts: Doubts) -> None:
        """Add what was counted elsewhere, besides the counts of partitions."""
        self.tally.add(tally)
        self._doubts.add(doubts)

    def doubt(self) -> str | None:
        """A warning if the events look wrong, or None."""
        metrics = (metric for spec in self.layout.families for metric in spec.metrics)
        return self.doubts.warning(metrics)

    def folding(self, family: str) -> Folding:
        """The folding of all partitions together."""
        spec = next(spec for spec in self.layout.families if spec.name == family)
        empty = Folding(spec.folding, len(spec.columns))
        return empty.merged(state.families[family].folding for state in self._partitions.values())

    def take_letters(self) -> list[DeadLetter]:
        """All invalid records since the last call, if `keep_letters`."""
        taken, self._letters = self._letters, []
        return taken

    def _state(self, batch: RecordBatch) -> PartitionState:
        partition = self.partition_of(batch.partition)
        if partition not in self._partitions:
            first = batch.offsets[0] if batch.offsets else batch.next_offset
            self.begin(partition, {batch.partition: first})
        return self._partitions[partition]

    def _uncountable(self, batch: RecordBatch, error: Exception) -> UncountableRecordError:
        """Find the record at fault: bisect for the shortest prefix that an empty state rejects."""
        counted, failing = 0, len(batch.values)
        first, last = batch.offsets[0], batch.offsets[-1]
        remedy = "Report this, with the records: each alone may be right"
        if not self._can_count(batch):
            while failing - counted > 1:
                middle = (counted + failing) // 2
                if self._can_count(batch.piece(0, middle, batch.offsets[middle])):
                    counted = middle
                else:
                    failing = middle
            first = last = batch.offsets[counted]
            remedy = remedy_of(error)
        topic, number = batch.partition
        return UncountableRecordError(topic, number, (first, last), described(error), remedy)

    def _can_count(self, batch: RecordBatch) -> bool:
        for spec in self.layout.families:
            spec.pending.clear()
        progress = self._partitions[self.partition_of(batch.partition)].progress()
        offsets = {log: each.position for log, each in progress.items()}
        state = self._frontend.state(offsets | {batch.partition: batch.offsets[0]})
        try:
            state.apply(batch, self._frontend.decode(batch))
            while state.unfinished:
                state.proceed()
        except Exception:  # noqa: BLE001  any exception of the first attempt
            return False
        return True

    def _proceed(self, state: PartitionState) -> None:
        """Do a part of the unfinished work, or all of it if not `incremental`."""
        if state.unfinished:
            state.proceed()
        while state.unfinished and not self._incremental:
            state.proceed()

    @staticmethod
    def _check_limits(
        limits: Limits, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]
    ) -> None:
        exceeded = limits.observe(len(batch.values), [place for place, _ in invalid])
        if exceeded is not None:
            example = letters_of(batch, invalid[-1:])[0] if invalid else "among the first ones"
            raise TooManyInvalidError(*exceeded, str(example))


class StartOwner:
    """Owns partitions whose states start empty at the `start` offsets, and live in memory."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Start each partition empty at its `start` offset."""
        for each in assignments:
            self._ingest.begin(each.partition, {log.partition: log.start for log in each.logs})
        return {log.partition: log.start for each in assignments for log in each.logs}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        for partition in partitions:
            self._ingest.drop(partition)


def is_of_a_record(error: Exception) -> bool:
    """Whether an error while counting is a bug, here or in a user's metric, not a known limit."""
    known = isinstance(error, (StreamevalError, MemoryError))
    return isinstance(error, MetricFailedError) or not known


def remedy_of(error: Exception) -> str:
    """What to do about a record that cannot be counted."""
    if isinstance(error, MetricFailedError):
        return f"{error.remedy}; {_SKIPPABLE}"
    return f"Report this, with the record; {_SKIPPABLE}"


def described(error: BaseException) -> str:
    """The type and message of an error, and where it was raised.

    Example:
        >>> described(KeyError("x"))
        "KeyError: 'x'"
    """
    if isinstance(error, MetricFailedError) and error.__cause__ is not None:
        return described(error.__cause__)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    at = extract_tb(error.__traceback__)[-1:]
    return "".join([text, *(f", {Path(each.filename).name}:{each.lineno}" for each in at)])
