"""The owner of assigned partitions: `Checkpointer`, or `MemoryOnly` without checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import msgspec

from streameval.checkpoints.committer import (
    Commit,
    DurableCheckpoint,
    DurableCounters,
    OffsetCommitter,
)
from streameval.checkpoints.format import Shard
from streameval.checkpoints.restore import RestorePlan, RestorePlanner, resume
from streameval.checkpoints.scheduler import (
    CheckpointScheduler,
    PartitionCheckpoints,
    ProcessClock,
)
from streameval.checkpoints.settings import CheckpointSettings, LogEvent
from streameval.checkpoints.store import Listing, Store
from streameval.engine.dead_letters import DeadLetters
from streameval.engine.evidence import EvidenceReader, Totals
from streameval.engine.ingest import Ingest, StartOwner
from streameval.engine.snapshot import CheckpointHealth
from streameval.events.errors import (
    DamagedStateError,
    DeadLetterError,
    RefusedRecordsError,
    StoreError,
    UnlikeStateError,
    UnsavedStateError,
)
from streameval.events.records import Assignment, Partition, RecordBatch

_REPORT_SECONDS: Final = 2.0
"""Seconds between reports of the last checkpoints; a stop that takes less says nothing."""


class Checkpointer:
    """Owns partitions: restores each from its newest checkpoint, counts it, and saves it.

    All methods run on the polling thread; only the worker has a thread of its own.

    `dead_letters`: destination of invalid records; None to count them only.
    """

    def __init__(
        self,
        ingest: Ingest,
        store: Store,
        settings: CheckpointSettings,
        *,
        commit: Commit,
        evidence: EvidenceReader,
        dead_letters: DeadLetters | None,
        clock: ProcessClock,
        worker: Executor,
    ) -> None:
        self._log_events: list[LogEvent] = []
        self._skipped = 0
        self._ingest = ingest
        self._store = store
        self._clock = clock
        self._settings = settings
        self._evidence = evidence
        self._dead_letters = dead_letters
        self._counters = DurableCounters()
        log = self._log_events.append
        self._committer = OffsetCommitter(commit, self._counters, evidence, log)
        self._owned: dict[Partition, PartitionCheckpoints] = {}
        self._scheduler = CheckpointScheduler(
            store,
            dead_letters,
            self._committer,
            self._owned,
            settings=settings,
            clock=clock,
            worker=worker,
            log=log,
        )
        self._claimed = False
        self._abandoned = False

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Restore each partition from its newest valid checkpoint; see `PartitionOwner.assigned`.

        No partition starts unless all of them can. A partition that starts empty is saved before
        this returns, so that its start is on record.

        Raises:
            RefusedStateError: the store belongs to another cluster or group, or resuming would be
                wrong, and no policy allows it.
            SourceError: a state starts over, and the group does not accept that.
            StoreError: the store cannot be used.
        """
        if not self._claimed:
            self._store.claim(self._settings.cluster(), self._settings.group)
            self._claimed = True
        self.lost(
            [
                assignment.partition
                for assignment in assignments
                if assignment.partition in self._owned
            ]
        )
        planner = RestorePlanner(self._store, self._settings, self._committer.exported)
        listing = self._store.listing()
        plans = planner.plans(assignments, listing)
        loaded = [self._load(planner, plan, listing) for plan in plans]
        begun = [self._owned[plan.assignment.partition] for plan in loaded if plan.saved is None]
        if begun:
            self._scheduler.first(begun)
        return {
            log: offset for checkpoints in loaded for log, offset in checkpoints.offsets.items()
        }

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Save partitions within the budget; the next owner counts unsaved records again."""
        if not self._abandoned:
            self._scheduler.save(self._finish_partitions(partitions))
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the states of partitions; the counters keep what they have exported."""
        self._committer.forget(partitions)
        for partition in sorted(partitions):
            if self._owned.pop(partition, None) is not None:
                self._counters.forget(partition)
                self._evidence.forget(partition)
                self._ingest.drop(partition)

    def apply(self, *batches: RecordBatch) -> None:
        """Count batches of different partitions; send invalid records to the dead letters.

        Raises:
            SourceError: a batch begins before its partition's position.
            UncountableRecordsError: records cannot be counted, because of a bug.
        """
        rest: list[RecordBatch] = []
        first: list[RecordBatch] = []
        for batch in batches:
            checkpoints = self._owned[self._ingest.partition_of(batch.partition)]
            # Counters begin within a batch; those of joined logs at its first record.
            unsplit = checkpoints.is_exporting or checkpoints.joined
            head, *tail = [batch] if unsplit else split(batch, checkpoints.counted[batch.partition])
            if not checkpoints.is_exporting and checkpoints.has_unexported(head):
                self._start_export(checkpoints)
            first.append(head)
            rest += tail
        self._ingest.apply(*first)
        if rest:
            # The first batches end where counters begin.
            self.apply(*rest)
        send_dead_letters(self._ingest, self._dead_letters)

    def saved(self, partition: Partition, position: int) -> bool:
        """True if a checkpoint covers this position."""
        checkpoints = self._owned.get(partition)
        return (
            checkpoints is not None
            and checkpoints.offset is not None
            and checkpoints.offset >= position
        )

    def waited(self, seconds: float) -> None:
        """Add time in which the polling thread waited for records."""
        self._scheduler.idle += seconds

    def checkpoint_soon(self) -> None:
        """Start the next checkpoints in the next call of `advance`."""
        self._scheduler.checkpoint_soon()

    def advance(self) -> None:
        """Continue checkpoints; called between batches, takes milliseconds."""
        if not self._abandoned:
            send_dead_letters(self._ingest, self._dead_letters)
            self._scheduler.advance()

    def finish(self, report: Callable[[], None] = lambda: None) -> None:
        """Save all changed partitions at the end of the process.

        `report`: called now and then; it may take log events.

        Raises:
            UnsavedStateError: some partitions could not be saved.
        """
        changed = [c for c in self._finish_partitions(list(self._owned)) if c.changed]
        began = reported_at = self._clock.monotonic()

        def saved(left: int) -> None:
            nonlocal reported_at
            now = self._clock.monotonic()
            if left and now - reported_at >= _REPORT_SECONDS:
                reported_at = now
                fields = {"unsaved": left, "of": len(changed), "seconds": round(now - began, 1)}
                self._log_events.append(LogEvent("info", "saving state", fields))
            report()

        self._scheduler.save_all(changed, saved)
        unsaved = [
            checkpoint for _, checkpoint in sorted(self._owned.items()) if checkpoint.changed
        ]
        if unsaved:
            problem = self._scheduler.failure_log.last or "there was no time left"
            earlier: Collection[Shard] | None = None
            with suppress(StoreError):
                earlier = self._store.listing().shards.keys()
            shards = [checkpoint.plan.shard for checkpoint in unsaved]
            earlier_ones = {str(at): None if earlier is None else at in earlier for at in shards}
            raise unsaved_error(earlier_ones, problem)
        if changed:
            seconds = round(self._clock.monotonic() - began, 1)
            fields = {"partitions": len(changed), "seconds": seconds}
            self._log_events.append(LogEvent("info", "state saved", fields))
            report()

    def abandon(self) -> None:
        """End without another checkpoint; the next process counts the last records again."""
        self._abandoned = True
        self._scheduler.wait(self._clock.monotonic() + self._settings.budget)

    @property
    def counted(self) -> Totals:
        """The durable evidence since this process started."""
        return self._counters.totals()

    @property
    def health(self) -> CheckpointHealth:
        """Success and failures of checkpoints."""
        return CheckpointHealth(
            last_success=self._scheduler.last_success,
            failures={**self._scheduler.failures},
            commit_failures=self._committer.failures,
            skipped=self._skipped,
        )

    @property
    def durable(self) -> Mapping[Partition, int]:
        """The offset at which each partition would resume after a crash."""
        return {
            log: offset
            for checkpoints in self._owned.values()
            for log, offset in checkpoints.durable.items()
        }

    @property
    def failure(self) -> str | None:
        """The reason why checkpoints fail at the moment, in one sentence; else None."""
        problem = self._scheduler.failure_log.last
        return None if problem is None else f"checkpoints fail: {problem.rstrip('.')}."

    def take_log_events(self) -> Sequence[LogEvent]:
        """The log events since the last call."""
        events = self._log_events.copy()
        self._log_events.clear()
        return events

    def _finish_partitions(self, partitions: Sequence[Partition]) -> list[PartitionCheckpoints]:
        """Close the last lists; returns the checkpoints of these partitions."""
        # Lists that close now may make dead letters, which come before the checkpoint.
        self._ingest.finish()
        send_dead_letters(self._ingest, self._dead_letters)
        return [
            self._owned[partition] for partition in sorted(partitions) if partition in self._owned
        ]

    def _load(
        self,
        planner: RestorePlanner,
        plan: RestorePlan,
        listing: Listing,
        *,
        once_more: bool = True,
    ) -> RestorePlan:
        self._log_events += plan.log_events
        saved = plan.saved
        if saved is None:
            return self._begin(plan, listing)
        try:
            other_inputs = resume(
                self._ingest,
                plan.assignment.partition,
                saved,
                offsets=plan.offsets,
                policies=self._settings.policies,
            )
        except UnlikeStateError as error:
            problem = f"its state cannot be loaded: {error}".rstrip(".")
            restart = planner.restart(plan.assignment, "on_other_settings", problem)
            restart = msgspec.structs.replace(restart, generation=plan.generation + 1)
            return self._load(planner, restart, listing)
        except DamagedStateError:
            # Valid when planned, damaged now; an older one may be valid.
            if not once_more:
                raise
            plan = planner.plan(plan.assignment)
            return self._load(planner, plan, listing, once_more=False)
        checkpoints = self._register(plan)
        if other_inputs is not None:
            fields = {"partition": str(plan.shard), "problem": other_inputs}
            event = "metrics of other inputs start over"
            self._log_events.append(LogEvent("warning", event, fields))
        checkpoints.note_restore(saved, current=plan.same_settings and other_inputs is None)
        self._skipped += plan.skipped
        # The writer may have left the group before its commit. Records that retention skipped are
        # in no checkpoint yet; the next one commits them.
        behind = {
            log.partition: offset
            for log in plan.assignment.logs
            if (log.committed or 0) < (offset := checkpoints.durable[log.partition])
        }
        if behind and not checkpoints.changed:
            durable = DurableCheckpoint(
                shard=plan.shard,
                offset=checkpoints.position,
                offsets=behind,
                partition_key=self._evidence.partition_key(checkpoints.partition),
            )
            self._committer.add(checkpoints.partition, durable)
        return plan

    def _begin(self, plan: RestorePlan, listing: Listing) -> RestorePlan:
        if plan.restart:
            self._committer.reset(plan.assignment.logs)
            copied = self._store.archive(plan.shard, listing)
            event = (
                "state was archived" if copied else "state starts over, and nothing was archived"
            )
            self._log_events.append(LogEvent("warning", event, plan.restart))
        self._ingest.begin(plan.assignment.partition, plan.offsets)
        self._register(plan)
        return plan

    def _register(self, plan: RestorePlan) -> PartitionCheckpoints:
        checkpoints = PartitionCheckpoints(plan, self._ingest, self._evidence)
        self._owned[checkpoints.partition] = checkpoints
        if checkpoints.is_rebuilt:
            self._start_export(checkpoints)
        return checkpoints

    def _start_export(self, checkpoints: PartitionCheckpoints) -> None:
        checkpoints.is_exporting = True
        self._counters.begin(
            checkpoints.partition, checkpoints.totals_now(), self._evidence.exported_key()
        )


def unsaved_error(has_earlier: Mapping[str, bool | None], problem: str) -> UnsavedStateError:
    """The error at an end without a last checkpoint; see `UnsavedStateError.has_earlier`."""
    bare = [shard for shard, earlier in has_earlier.items() if earlier is False]
    if bare:
        then = f"The store has no earlier checkpoint of {', '.join(bare)} to resume at"
    elif None in has_earlier.values():
        then = "The next start resumes at the checkpoint before it, if the store still has one"
    else:
        then = "The next start resumes at the checkpoint before it"
    shards, why = ", ".join(has_earlier), problem.rstrip(".")
    return UnsavedStateError(
        f"the last checkpoint of {shards} was not written: {why}. {then}.",
        has_earlier=has_earlier,
        problem=problem,
    )


def split(batch: RecordBatch, offset: int) -> list[RecordBatch]:
    """Split a batch at an offset; returns one batch if all records are on one side.

    Example:
        >>> from streameval.events.records import Partition
        >>> batch = RecordBatch(
        ...     partition=Partition("events", 0), values=[b"a", b"b"], offsets=[4, 6], next_offset=7
        ... )
        >>> [(piece.offsets, piece.next_offset) for piece in split(batch, 5)]
        [([4], 5), ([6], 7)]
    """
    below = sum(record_offset < offset for record_offset in batch.offsets)
    if below == 0 or batch.next_offset <= offset:
        return [batch]
    head = batch.piece(0, below, offset)
    return [head, batch.piece(below, len(batch.offsets), batch.next_offset)]


def send_dead_letters(ingest: Ingest, dead_letters: DeadLetters | None) -> None:
    """Send the invalid records since the last call."""
    if dead_letters is not None:
        dead_letters.send(ingest.take_dead_letters())


INTERVAL = 10.0
"""Seconds between flushes of dead letters."""


class MemoryOnly(StartOwner):
    """Owns partitions without checkpoints.

    `dead_letters`: destination of invalid records; None to count them only.
    """

    counted: Totals | None = None
    durable: Mapping[Partition, int] = MappingProxyType({})
    health: CheckpointHealth | None = None
    failure: str | None = None

    def __init__(
        self,
        ingest: Ingest,
        dead_letters: DeadLetters | None,
        clock: ProcessClock,
        worker: Executor,
    ) -> None:
        super().__init__(ingest)
        self._dead_letters = dead_letters
        self._clock = clock
        self._worker = worker
        self._flushed_at = clock.monotonic()
        self._flush: Future[None] | None = None
        self._log_events: list[LogEvent] = []

    def apply(self, *batches: RecordBatch) -> None:
        """Count batches of different partitions; send invalid records to the dead letters.

        Raises:
            SourceError: a batch begins before its partition's position.
        """
        self._ingest.apply(*batches)
        send_dead_letters(self._ingest, self._dead_letters)

    def saved(self, _partition: Partition, _position: int) -> bool:
        """Always true: there is no checkpoint to wait for."""
        return True

    def waited(self, _seconds: float) -> None:
        """Do nothing: there are no checkpoints to pace."""

    def checkpoint_soon(self) -> None:
        """Do nothing: there are no checkpoints."""

    def advance(self) -> None:
        """Flush dead letters at intervals; called between batches."""
        send_dead_letters(self._ingest, self._dead_letters)
        if self._flush is not None and self._flush.done():
            flush, self._flush = self._flush, None
            try:
                flush.result()
            except DeadLetterError as error:
                event = LogEvent(
                    "warning", "dead letters are not safe yet", {"problem": str(error)}
                )
                self._log_events.append(event)
        due = self._clock.monotonic() - self._flushed_at >= INTERVAL
        if due and self._flush is None:
            self._flushed_at = self._clock.monotonic()
            self._flush = self._worker.submit(self._flush_dead_letters)

    def finish(self, _report: Callable[[], None] = lambda: None) -> None:
        """Flush dead letters.

        Raises:
            DeadLetterError: the flush failed.
        """
        self._flush_dead_letters()

    def abandon(self) -> None:
        """Try to write all dead letters: without a checkpoint, no process reads them again."""
        # The process reports the error that ends it instead.
        with suppress(RefusedRecordsError):
            send_dead_letters(self._ingest, self._dead_letters)
        send_dead_letters(self._ingest, self._dead_letters)
        try:
            self._flush_dead_letters()
        except DeadLetterError as error:
            event = LogEvent("error", "dead letters were not written", {"problem": str(error)})
            self._log_events.append(event)

    def take_log_events(self) -> Sequence[LogEvent]:
        """The log events since the last call."""
        events, self._log_events = self._log_events, []
        return events

    def _flush_dead_letters(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.flush()
