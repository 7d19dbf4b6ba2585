"""Schedules rounds of checkpoints: copies the state of partitions, and writes the copies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from streameval.checkpoints.committer import DurableCheckpoint, OffsetCommitter
from streameval.checkpoints.format import CheckpointDraft, Header, Part, StateSettings
from streameval.checkpoints.restore import RestorePlan
from streameval.checkpoints.settings import CheckpointSettings, LogEvent, LogSink
from streameval.checkpoints.store import SavedCheckpoint, Store
from streameval.engine.dead_letters import DeadLetters
from streameval.engine.evidence import EvidenceReader, Totals
from streameval.engine.ingest import Ingest
from streameval.engine.pace import Pace
from streameval.events.errors import DamagedStateError, DeadLetterError, StoreError
from streameval.events.records import Partition, RecordBatch

PATIENCE: Final = 20.0
"""Seconds without progress after which the last round is abandoned: the disk hangs."""

HEARTBEAT: Final = 60.0
"""Seconds after which a round is written although nothing has changed."""

_REPORT: Final = 2.0
"""Seconds from one report of the last round to the next."""

_FAILURES = (StoreError, DeadLetterError, DamagedStateError)
_REASONS = ("store", "dead_letters", "timeout")


class ProcessClock(NamedTuple):
    """Sources of time in seconds, injected for tests.

    Attributes:
        busy: processor time of the calling thread.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    busy: Callable[[], float] = time.thread_time
    sleep: Callable[[float], None] = time.sleep


class _FailureLog:
    """Logs each new problem of rounds and when they recover, instead of every failure.

    Attributes:
        last: the latest problem; None while rounds succeed.
    """

    def __init__(self, monotonic: Callable[[], float], log: LogSink) -> None:
        self.last: str | None = None
        self._monotonic = monotonic
        self._log = log
        self._since = 0.0
        self._logged: set[str] = set()

    def note_failure(self, error: Exception | None, problem: str, partitions: int) -> None:
        if self.last is None:
            self._since = self._monotonic()
        self.last = problem
        # Without the path, which differs by round.
        kind = str(getattr(error, "problem", problem))
        if kind not in self._logged:
            self._logged.add(kind)
            fields = {"partitions": partitions, "problem": problem}
            self._log(LogEvent("warning", "a checkpoint was not written", fields))

    def note_success(self) -> None:
        if self.last is not None:
            self.last = None
            self._logged.clear()
            seconds = round(self._monotonic() - self._since, 1)
            self._log(LogEvent("info", "checkpoints recovered", {"after_seconds": seconds}))


_Write: TypeAlias = Callable[[], list[DurableCheckpoint]]
_Steps: TypeAlias = Generator[_Write, list[DurableCheckpoint], None]


class _Round:
    """A round that is written.

    Attributes:
        encoded: number of partitions that the worker has begun.
        steps: the procedure, which waits for the checkpoints that were written.
        job: the write.
    """

    steps: _Steps

    def __init__(self, partitions: Sequence[PartitionCheckpoints]) -> None:
        self.partitions = partitions
        self.encoded = 0
        self.job: Future[list[DurableCheckpoint]] = Future()

    def proceed(self, saved: list[DurableCheckpoint]) -> None:
        """Do the steps after the write; `saved`: the durable checkpoints."""
        with suppress(StopIteration):
            self.steps.send(saved)


class CheckpointScheduler:
    """Writes rounds of checkpoints: at each interval, one of every changed partition.

    Rounds take at most 5 % of the polling thread's busy and idle time, so a process with much state
    makes fewer of them. Time waiting for a processor does not count: otherwise a starved process
    would spend a larger share of its work on checkpoints.

    `owned`: the partitions of this process, which change.

    Attributes:
        idle: seconds in which the polling thread waited for records.
        failures: failed rounds by reason; the next round retries.
        last_success: time of the last written round, seconds since the epoch, or None.
        failure_log: the log of failures.
    """

    def __init__(
        self,
        store: Store,
        dead_letters: DeadLetters | None,
        committer: OffsetCommitter,
        owned: Mapping[Partition, PartitionCheckpoints],
        *,
        settings: CheckpointSettings,
        clock: ProcessClock,
        worker: Executor,
        log: LogSink,
    ) -> None:
        self._log = log
        self.idle = 0.0
        self.failures = dict.fromkeys(_REASONS, 0)
        self.last_success: float | None = None
        self.failure_log = _FailureLog(clock.monotonic, log)
        self._store = store
        self._dead_letters = dead_letters
        self._committer = committer
        self._owned = owned
        self._settings = settings
        self._clock = clock
        self._worker = worker
        self._began_at, self._began_thread_time = clock.monotonic(), self._thread_time
        self._soon = False
        self._round: _Round | None = None
        self._written_at = -HEARTBEAT
        self._pace = Pace(0.0)
        self._spent = 0.0
        self._flush: Future[None] | None = None
        self._cleanup_failure: str | None = None

    def checkpoint_soon(self) -> None:
        """Start a round in the next call of `advance`."""
        self._soon = True

    def advance(self) -> None:
        """Handle the round in progress if it is done, and start one that is due."""
        self._take_done()
        if self._committer.pending:
            self._committer.commit(wait=False)
        is_due = self._soon or (
            self._thread_time - self._began_thread_time >= self._pace.interval
            and self._clock.monotonic() - self._began_at >= self._settings.interval
        )
        if self._round is not None or not is_due:
            return
        self._began_at, self._began_thread_time = self._clock.monotonic(), self._thread_time
        self._soon = False
        self._committer.commit(wait=False)
        due = [
            checkpoints
            for _, checkpoints in sorted(self._owned.items())
            if checkpoints.is_due(retained=checkpoints.plan.shard in self._store.retained)
        ]
        silent = self._clock.monotonic() - self._written_at
        if due or (silent >= HEARTBEAT and self._store.retained):
            self._begin(due)
            self._take_done()
            return
        # After a rebalance no partition has changed, and none can while reading is paused for
        # dead letters that no round writes.
        if self._flush is not None and self._flush.done():
            self.failures["dead_letters"] += isinstance(self._flush.exception(), DeadLetterError)
            self._flush = None
        if self._flush is None and self._dead_letters is not None and self._dead_letters.full:
            self._flush = self._worker.submit(self._dead_letters.flush)

    def first(self, partitions: Sequence[PartitionCheckpoints]) -> None:
        """Write the first checkpoints of partitions, synchronously.

        Raises:
            StoreError: the write failed.
        """
        # They have no records, so no dead letters; those of others may wait.
        begun = _Round(partitions)
        begun.steps = self._checkpoint(begun, None, commit=False)
        begun.proceed(next(begun.steps)())

    def save(self, partitions: Collection[PartitionCheckpoints]) -> None:
        """Save changed partitions within the budget."""
        until = self._clock.monotonic() + self._settings.budget
        self.wait(until)
        changed = [checkpoints for checkpoints in partitions if checkpoints.changed]
        if self._round is None and changed and self._clock.monotonic() < until:
            # A part that is written in time is better than a complete round that is not.
            enough = until - min(_REPORT, self._settings.budget / 2)
            self._begin(changed, lambda: self._clock.monotonic() >= enough)
            self.wait(until)
        self._committer.commit(wait=True)

    def save_all(
        self, partitions: Collection[PartitionCheckpoints], report: Callable[[int], None]
    ) -> None:
        """Save all changed partitions; give up after `PATIENCE` without progress.

        `report`: receives the number of partitions that are not saved yet, now and then.
        """
        self._wait_for_progress(lambda _: report(len(partitions)))
        changed = [checkpoints for checkpoints in partitions if checkpoints.changed]
        if self._round is None and changed:
            self._begin(changed)
            self._wait_for_progress(lambda encoded: report(len(changed) - encoded))
        self._committer.commit(wait=True)
        report(sum(checkpoints.changed for checkpoints in partitions))

    def wait(self, until: float) -> None:
        """Wait for the round in progress, until this time of the monotonic clock."""
        if self._round is not None:
            self._take(self._round, max(0.0, until - self._clock.monotonic()))

    def _take_done(self) -> None:
        if self._round is not None and self._round.job.done():
            self._take(self._round, 0.0)

    def _wait_for_progress(self, report: Callable[[int], None]) -> None:
        """Wait for the round in progress, as long as it makes progress."""
        encoded, since = -1, self._clock.monotonic()
        while self._round is not None and not self._round.job.done():
            now = self._clock.monotonic()
            if self._round.encoded > encoded:
                encoded, since = self._round.encoded, now
            if now - since >= PATIENCE:
                break
            with suppress(TimeoutError):
                self._round.job.exception(_REPORT)
            report(encoded)
        self.wait(self._clock.monotonic())

    @property
    def _thread_time(self) -> float:
        """Busy and idle seconds of the polling thread."""
        return self._clock.busy() + self.idle

    def _begin(
        self,
        partitions: Sequence[PartitionCheckpoints],
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Copy, and let the worker write; `enough`: see `_checkpoint`."""
        began = self._clock.busy()
        started = self._round = _Round(partitions)
        started.steps = self._checkpoint(started, self._dead_letters, enough)
        write = next(started.steps)
        copying = self._clock.busy() - began

        def measured() -> list[DurableCheckpoint]:
            # Waiting for a disk takes no processor time.
            began = self._clock.busy()
            try:
                return write()
            finally:
                self._spent = copying + self._clock.busy() - began

        started.job = self._worker.submit(measured)

    def _checkpoint(
        self,
        started: _Round,
        dead_letters: DeadLetters | None,
        enough: Callable[[], bool] = lambda: False,
        *,
        commit: bool = True,
    ) -> _Steps:
        """One round of checkpoints, from the counts in memory to the offsets in Kafka.

        Offsets are committed after their state is durable, which is after their dead letters are.
        So a crash between two steps repeats records, and neither loses nor doubles any.

        Args:
            started: the round.
            dead_letters: flushed before the states are written; None if they may wait.
            enough: returns True if the remaining partitions must wait; called before each.
            commit: True to commit the offsets at once.

        Yields:
            The function that writes the copies, for any thread; `send` takes what it returns.
        """
        # 1. Copy the states of all partitions together, so that pending counts are flushed once.
        at, retained = self._clock.wall(), self._store.retained
        copies = {
            checkpoints.plan.shard: checkpoints.copy(
                self._settings, at, retained=checkpoints.plan.shard in retained
            )
            for checkpoints in started.partitions
        }
        owned = {checkpoints.plan.shard for checkpoints in self._owned.values()}

        def out_of_time() -> bool:
            started.encoded += 1
            return enough()

        def write() -> list[DurableCheckpoint]:
            # 2. Make the dead letters below the offsets durable.
            if dead_letters is not None:
                dead_letters.flush()
            # 3. Write the copies into one file, and sync it.
            drafts = [draft for draft, _ in copies.values()]
            saved = self._store.save(drafts, owned, out_of_time)
            return [durable() for shard, (_, durable) in copies.items() if shard in saved]

        saved_checkpoints = yield write
        # 4. Record the offsets of a restart, and queue them for the commit.
        of_shard = {checkpoints.plan.shard: checkpoints for checkpoints in started.partitions}
        for saved in saved_checkpoints:
            checkpoints = of_shard[saved.shard]
            # A partition that was lost meanwhile is committed by its new owner.
            if self._owned.get(checkpoints.partition) is checkpoints:
                # A copy of a state that was taken over has nothing to commit.
                is_new = saved.offset != checkpoints.offset
                checkpoints.note_durable(saved)
                if is_new and checkpoints.may_commit(saved.offsets):
                    self._committer.add(checkpoints.partition, saved)
        # 5. Commit these offsets; once they are accepted, the counters show the evidence below.
        if commit:
            self._committer.commit(wait=False)

    def _take(self, done: _Round, seconds: float) -> None:
        """Handle the round in progress; it stays in progress if it takes longer than this."""
        partitions = len(done.partitions)
        try:
            durable = done.job.result(seconds)
        except TimeoutError:
            self.failures["timeout"] += 1
            self.failure_log.note_failure(None, "it was not written in time", partitions)
            return
        except _FAILURES as error:
            reason = "dead_letters" if isinstance(error, DeadLetterError) else "store"
            self.failures[reason] += 1
            self.failure_log.note_failure(error, str(error), partitions)
            for checkpoints in done.partitions:
                checkpoints.forget_last()
        else:
            self._written_at = self._clock.monotonic()
            self.last_success = self._clock.wall()
            self.failure_log.note_success()
            before, self._cleanup_failure = self._cleanup_failure, self._store.cleanup_failure
            if self._cleanup_failure is not None and before is None:
                fields = {"problem": self._cleanup_failure}
                self._log(LogEvent("warning", "older checkpoints were not removed", fields))
            done.proceed(durable)
        self._round = None
        self._pace.note(self._spent)


class PartitionCheckpoints:
    """The checkpoints of one partition: tracks the last one, and copies the state for the next.

    Attributes:
        offset: of the newest checkpoint; None before the first.
        durable: next offset of each log in the newest checkpoint.
        counted: see `RestorePlan`.
        is_exporting: True if counters export its evidence.
    """

    def __init__(self, plan: RestorePlan, ingest: Ingest, evidence: EvidenceReader) -> None:
        self.plan = plan
        self.partition = plan.assignment.partition
        self.offset: int | None = None
        self.durable: Mapping[Partition, int] = {}
        self.counted = plan.counted
        self.is_exporting = False
        self._ingest = ingest
        self._evidence = evidence
        self._written_offset: int | None = None
        self._restored_from: tuple[int, float] | None = None
        self._versions: Mapping[str, int] = {}
        self._resumed_at = 0

    @property
    def position(self) -> int:
        """The next offset to count; for joined logs, a number that grows with each record."""
        return self._ingest.partitions[self.partition].position

    @property
    def offsets(self) -> dict[Partition, int]:
        """The next offset of each log of the partition."""
        logs = self._ingest.partitions[self.partition].progress()
        return {log: log_progress.position for log, log_progress in logs.items()}

    @property
    def joined(self) -> bool:
        """True if several logs are joined into this partition."""
        return bool(self.plan.assignment.members)

    def has_unexported(self, batch: RecordBatch) -> bool:
        """True if the batch has records that no counter has exported."""
        if self.is_rebuilt:
            return True
        return not self.joined and batch.next_offset > self.counted[self.partition]

    @property
    def is_rebuilt(self) -> bool:
        """True if the state has all events that other checkpoints may have exported."""
        return self._ingest.partitions[self.partition].has_counted(self.counted)

    def may_commit(self, offsets: Mapping[Partition, int]) -> bool:
        """True unless a rebuild is below what the group has committed: no commit goes back."""
        return all(offsets[log] >= offset for log, offset in self.counted.items())

    @property
    def changed(self) -> bool:
        """True if records were counted since the newest checkpoint."""
        return self.position != self.offset

    def is_due(self, *, retained: bool) -> bool:
        """True if the next round of this process must have a checkpoint of it.

        `retained`: True if the last round has one. A state that was taken over is copied unchanged.
        """
        return not retained or self.position != self._written_offset

    def note_restore(self, saved: SavedCheckpoint, *, current: bool) -> None:
        """Record that the state was loaded from this checkpoint.

        `current`: True if it has the settings of this process; else the next round writes one.
        """
        self.offset = saved.header.offset if current else None
        self.durable = self.offsets
        self._resumed_at = self.position
        self._restored_from = saved.header.offset, saved.header.written_at

    def note_durable(self, durable: DurableCheckpoint) -> None:
        """Record that this process has written this checkpoint."""
        self.offset = self._written_offset = durable.offset
        self.durable, self._versions = durable.offsets, durable.versions
        # A copy of a state that was taken over does not prove that its next records can be counted.
        if self.partition in self._ingest.partitions and durable.offset > self._resumed_at:
            self._ingest.partitions[self.partition].cautious = False

    def forget_last(self) -> None:
        """Make the next checkpoint encode everything, after a failure."""
        self._versions = {}

    def totals_now(self) -> Totals:
        """All evidence counted so far."""
        return self._evidence.totals(self.partition)()

    def copy(
        self, settings: CheckpointSettings, written_at: float, *, retained: bool
    ) -> tuple[CheckpointDraft, Callable[[], DurableCheckpoint]]:
        """A copy of the state, made within milliseconds; and the checkpoint once it is written.

        `retained`: whether the last round of this process has it, with the unchanged sections.
        """
        sections = self._ingest.sections(self.partition)
        before = self._versions if retained else {}
        parts = [
            Part(
                name=section.name,
                content=None if before.get(section.name) == section.version else section.content(),
            )
            for section in sections
        ]
        if self._restored_from is not None and self._restored_from[0] == self.position:
            # Of equal offsets the later one wins, and the clock of another machine may be ahead.
            written_at = max(written_at, math.nextafter(self._restored_from[1], math.inf))
        offsets = self.offsets
        header = Header(
            state=StateSettings(
                release=settings.release,
                cluster=settings.cluster(),
                group=settings.group,
                settings=settings.fingerprint,
                schema=settings.schema,
            ),
            shard=self.plan.shard,
            generation=self.plan.generation,
            offset=self.position,
            counted={}
            if self.is_exporting
            else {str(log): offset for log, offset in self.counted.items()},
            clock=self._ingest.partitions[self.partition].clock,
            written_at=written_at,
            partitions=self.plan.partitions,
            offsets={str(log): offset for log, offset in offsets.items()} if self.joined else {},
        )
        versions = {section.name: section.version for section in sections}
        totals = self._evidence.totals(self.partition) if self.is_exporting else None
        partition_key = self._evidence.partition_key(self.partition)

        def durable() -> DurableCheckpoint:
            return DurableCheckpoint(
                shard=header.shard,
                offset=header.offset,
                offsets=offsets,
                versions=versions,
                totals=None if totals is None else totals(),
                partition_key=partition_key,
            )

        return CheckpointDraft(header=header, parts=parts), durable
