"""Schedules checkpoints: copies the state of partitions, and writes the copies."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from streameval.checkpoints.committer import DurableCheckpoint, OffsetCommitter
from streameval.checkpoints.format import CheckpointDraft, Entry, Header, Part
from streameval.checkpoints.restore import RestorePlan
from streameval.checkpoints.settings import CheckpointSettings, Log, LogEvent
from streameval.checkpoints.store import SavedCheckpoint, Store
from streameval.engine.dead_letters import DeadLetters
from streameval.engine.evidence import EvidenceReader, Totals
from streameval.engine.ingest import Ingest
from streameval.engine.pace import Pace
from streameval.engine.windows.sections import Section
from streameval.events.errors import DamagedStateError, DeadLetterError, StoreError
from streameval.events.records import Partition, RecordBatch

Save: TypeAlias = Callable[[Store, DeadLetters | None], DurableCheckpoint]
"""Flushes dead letters, then writes a copied state, on any thread; may raise `_FAILURES`."""

PATIENCE: Final = 20.0
"""Seconds for one of the last checkpoints; a disk that takes longer hangs."""

SAVES_AT_ONCE: Final = 4
"""Last checkpoints that are written at once."""

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


class CheckpointTrouble:
    """Logs when checkpoints begin to fail and when they recover, instead of every failure.

    A full disk fails every partition at each interval.

    `monotonic`: a monotonic clock, seconds.

    Attributes:
        last: the latest problem; None while checkpoints succeed.
    """

    def __init__(self, monotonic: Callable[[], float], log: Log) -> None:
        self.last: str | None = None
        self._monotonic = monotonic
        self._log = log
        self._since = 0.0
        self._logged: set[str] = set()
        self._failing: set[Partition] = set()

    def note_failure(
        self, checkpoints: PartitionCheckpoints, error: Exception | None, problem: str
    ) -> None:
        """Log each new problem."""
        if self.last is None:
            self._since = self._monotonic()
        self.last = problem
        self._failing.add(checkpoints.partition)
        # Without the path, which differs by partition.
        kind = str(getattr(error, "problem", problem))
        if kind not in self._logged:
            self._logged.add(kind)
            where = str(checkpoints.plan.place)
            # Not where a restart resumes: the store may have lost that checkpoint, too.
            fields = {"partition": where, "last_written": checkpoints.offset, "problem": problem}
            self._log(LogEvent("warning", "a checkpoint was not written", fields))

    def note_success(self, partition: Partition) -> None:
        """Log when the last failing partition has recovered."""
        self._failing.discard(partition)
        if self.last is not None and not self._failing:
            self.last = None
            self._logged.clear()
            seconds = round(self._monotonic() - self._since, 1)
            self._log(LogEvent("info", "checkpoints recovered", {"after_seconds": seconds}))

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that other processes own now."""
        # The problem stays, so that the next success is logged: a rebalance may return them.
        self._failing.difference_update(partitions)


class CheckpointScheduler:
    """Writes checkpoints in rounds: at each interval, one of every changed partition.

    Rounds take at most 5 % of the polling thread's busy and idle time, so a process with much state
    makes fewer of them. Time waiting for a processor does not count: otherwise a starved process
    would spend a larger share of its work on checkpoints.

    Attributes:
        events: records counted since the last round began.
        idle: seconds in which the polling thread waited for records.
        failures: failed checkpoints by reason; the next round retries.
        last_success: time of the last written checkpoint, seconds since the epoch, or None.
        trouble: the log of failures.
    """

    def __init__(
        self,
        store: Store,
        letters: DeadLetters | None,
        committer: OffsetCommitter,
        *,
        settings: CheckpointSettings,
        clock: ProcessClock,
        worker: Executor,
        log: Log,
    ) -> None:
        self._log = log
        self.idle = 0.0
        self.failures = dict.fromkeys(_REASONS, 0)
        self.last_success: float | None = None
        self.trouble = CheckpointTrouble(clock.monotonic, log)
        self._store = store
        self._letters = letters
        self._committer = committer
        self._settings = settings
        self._clock = clock
        self._worker = worker
        self._began_at, self._began_own = clock.monotonic(), self._own_time
        self._soon = False
        self._queue: list[Partition] = []
        self._pace = Pace(0.0)
        self._spent: list[float] = []
        self._flush: Future[None] | None = None

    def checkpoint_soon(self) -> None:
        """Start a round in the next call of `advance`."""
        self._soon = True

    def advance(self, owned: Mapping[Partition, PartitionCheckpoints]) -> None:
        """Handle finished checkpoints and start the next; copies at most one partition."""
        self._take_done(owned.values())
        if self._committer.pending:
            self._committer.commit(wait=False)
        if (
            self._spent
            and not self._queue
            and not any(checkpoint.job for checkpoint in owned.values())
        ):
            self._pace.note(sum(self._spent))
            self._spent = []
        if self._due():
            self._began_at, self._began_own = self._clock.monotonic(), self._own_time
            self._soon = False
            self._queue = sorted(
                partition for partition, checkpoint in owned.items() if checkpoint.changed
            )
            self._committer.commit(wait=False)
            if not self._queue:
                self._flush_full_letters()
        if self._queue and not any(checkpoint.job for checkpoint in owned.values()):
            checkpoints = owned.get(self._queue.pop(0))
            if checkpoints is not None and checkpoints.changed:
                checkpoints.job = self._submitted(checkpoints)
                self._take_done([checkpoints])

    def first(self, checkpoints: PartitionCheckpoints) -> None:
        """Write the first checkpoint of a partition, synchronously.

        Raises:
            StoreError: the write failed.
        """
        save = checkpoints.copied(self._settings, self._clock.wall())
        # It has no record, so no dead letter: those of others may wait.
        self._note_durable(checkpoints, save(self._store, None))

    def save(self, chosen: Collection[PartitionCheckpoints]) -> None:
        """Save changed partitions within the budget."""
        until = self._clock.monotonic() + self._settings.budget
        self._save(chosen, lambda: until - self._clock.monotonic(), lambda _: None)

    def save_all(
        self, chosen: Collection[PartitionCheckpoints], report: Callable[[int], None]
    ) -> None:
        """Save changed partitions however many they are; give up when one takes `PATIENCE`.

        `report`: receives the number of partitions that are not saved yet, after each.
        """
        self._save(chosen, lambda: PATIENCE, report)

    def _save(
        self,
        chosen: Collection[PartitionCheckpoints],
        remaining: Callable[[], float],
        report: Callable[[int], None],
    ) -> None:
        for checkpoints in chosen:
            self._wait(checkpoints, remaining())
        waiting = deque(checkpoints for checkpoints in chosen if checkpoints.changed)
        running: deque[PartitionCheckpoints] = deque()
        while running or (waiting and remaining() > 0):
            # Several at once, because most of the time passes in waiting for a disk.
            while waiting and len(running) < SAVES_AT_ONCE and waiting[0].job is None:
                running.append(waiting.popleft())
                running[-1].job = self._submitted(running[-1])
            if not running:
                break
            oldest = running.popleft()
            self._wait(oldest, remaining())
            if oldest.job is not None:
                break
            report(len(waiting) + len(running))
        self._take_done(running)
        self._committer.commit(wait=True)

    def wait(self, chosen: Iterable[PartitionCheckpoints]) -> None:
        """Wait for checkpoints in progress, within the budget."""
        until = self._clock.monotonic() + self._settings.budget
        for checkpoints in chosen:
            self._wait(checkpoints, until - self._clock.monotonic())

    def _wait(self, checkpoints: PartitionCheckpoints, seconds: float) -> None:
        if checkpoints.job is not None:
            self._take(checkpoints, checkpoints.job, max(0.0, seconds))

    def _flush_full_letters(self) -> None:
        """Write the letters for which reading is paused, if no checkpoint of a round does.

        After a rebalance no partition has changed, and none can change while it is paused.
        """
        if self._flush is not None and self._flush.done():
            self.failures["dead_letters"] += isinstance(self._flush.exception(), DeadLetterError)
            self._flush = None
        if self._flush is None and self._letters is not None and self._letters.full:
            self._flush = self._worker.submit(self._letters.flush)

    def _due(self) -> bool:
        if self._queue:
            return False
        if self._soon:
            return True
        if self._own_time - self._began_own < self._pace.interval:
            return False
        elapsed = self._clock.monotonic() - self._began_at
        return elapsed >= self._settings.interval

    @property
    def _own_time(self) -> float:
        """Busy and idle seconds of the polling thread."""
        return self._clock.busy() + self.idle

    def _submitted(self, checkpoints: PartitionCheckpoints) -> Future[DurableCheckpoint]:
        with self._measured():
            save = checkpoints.copied(self._settings, self._clock.wall())

        def saved() -> DurableCheckpoint:
            with self._measured():
                return save(self._store, self._letters)

        return self._worker.submit(saved)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Add the processor time of a step to the round; waiting for a disk costs nothing."""
        began = self._clock.busy()
        try:
            yield
        finally:
            self._spent.append(self._clock.busy() - began)

    def _take_done(self, chosen: Iterable[PartitionCheckpoints]) -> None:
        for checkpoints in chosen:
            if checkpoints.job is not None and checkpoints.job.done():
                self._take(checkpoints, checkpoints.job, 0.0)
                self._committer.commit(wait=False)

    def _take(
        self, checkpoints: PartitionCheckpoints, job: Future[DurableCheckpoint], seconds: float
    ) -> None:
        try:
            durable = job.result(seconds)
        except TimeoutError:
            self.failures["timeout"] += 1
            self.trouble.note_failure(checkpoints, None, "it was not written in time")
        except _FAILURES as error:
            checkpoints.job = None
            checkpoints.forget_last()
            reason = "dead_letters" if isinstance(error, DeadLetterError) else "store"
            self.failures[reason] += 1
            self.trouble.note_failure(checkpoints, error, str(error))
        else:
            checkpoints.job = None
            self._note_durable(checkpoints, durable)
            self.trouble.note_success(checkpoints.partition)
            self._note_cleanup(checkpoints)

    def _note_durable(self, checkpoints: PartitionCheckpoints, durable: DurableCheckpoint) -> None:
        self.last_success = self._clock.wall()
        checkpoints.note_durable(durable)
        if durable.offset >= checkpoints.counted:
            self._committer.add(checkpoints.partition, durable)

    def _note_cleanup(self, checkpoints: PartitionCheckpoints) -> None:
        """Log when superseded files cannot be removed; once until that succeeds."""
        before, problem = checkpoints.cleanup_failure, self._store.cleanup_failure
        checkpoints.cleanup_failure = problem
        if problem is not None and before is None:
            fields = {"partition": str(checkpoints.plan.place), "problem": problem}
            self._log(LogEvent("warning", "older checkpoints were not removed", fields))


class PartitionCheckpoints:
    """The checkpoints of one partition: tracks the last one, and copies the state for the next.

    Attributes:
        offset: of the newest checkpoint; None before the first.
        durable: next offset of each log in the newest checkpoint.
        counted: offset below which counters show nothing.
        showing: whether counters show its evidence.
        cleanup_failure: why its superseded files could not be removed, or None.
        job: the checkpoint in progress, or None.
    """

    def __init__(self, plan: RestorePlan, ingest: Ingest, evidence: EvidenceReader) -> None:
        self.plan = plan
        self.partition = plan.assignment.partition
        self.offset: int | None = None
        self.durable: Mapping[Partition, int] = {}
        self.counted = plan.counted
        self.showing = False
        self.cleanup_failure: str | None = None
        self.job: Future[DurableCheckpoint] | None = None
        self._ingest = ingest
        self._evidence = evidence
        self._last: Sequence[Entry] = ()
        self._versions: Mapping[str, int] = {}

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
        """Whether several logs are joined into this partition."""
        return bool(self.plan.assignment.members)

    def passes(self, batch: RecordBatch) -> bool:
        """Whether the batch has records that no counter has shown."""
        if self.position >= self.counted:
            return True
        return not self.joined and batch.next_offset > self.counted

    @property
    def changed(self) -> bool:
        """Whether records were counted since the newest checkpoint."""
        return self.position != self.offset

    def note_restore(self, saved: SavedCheckpoint, *, current: bool) -> None:
        """Note that the state was loaded from this checkpoint.

        `current`: whether it has the settings of this process; otherwise the next round writes one.
        """
        self._last = saved.entries
        self.offset = saved.header.offset if current else None
        self.durable = self.offsets

    def note_durable(self, durable: DurableCheckpoint) -> None:
        """Note that this checkpoint is durable."""
        self.offset, self.durable = durable.offset, durable.offsets
        self._last, self._versions = durable.entries, durable.versions
        if self.partition in self._ingest.partitions:
            self._ingest.partitions[self.partition].cautious = False

    def forget_last(self) -> None:
        """Make the next checkpoint write everything, after a failure."""
        # Blobs as well: the failure may be that one of them is missing or damaged.
        self._last, self._versions = (), {}

    def totals_now(self) -> Totals:
        """All evidence counted so far."""
        return self._evidence.totals(self.partition)()

    def copied(self, settings: CheckpointSettings, written_at: float) -> Save:
        """Copy the state within milliseconds; returns a function that writes the copy."""
        sections = self._ingest.sections(self.partition)
        blobs = frozenset(entry.name for entry in self._last if entry.blob is not None)
        draft = CheckpointDraft(
            header=self._header(settings, written_at),
            parts=[self._part(section, blobs) for section in sections],
            last=self._last,
        )
        offsets, fold = self.offsets, self._evidence.folding(self.partition)
        totals = self._evidence.totals(self.partition) if self.showing else None

        def save(store: Store, letters: DeadLetters | None) -> DurableCheckpoint:
            # Dead letters below the offset must be durable first.
            if letters is not None:
                letters.flush()
            return DurableCheckpoint(
                place=draft.header.place,
                offset=draft.header.offset,
                offsets=offsets,
                versions={section.name: section.version for section in sections},
                entries=store.save(draft),
                totals=None if totals is None else totals(),
                fold=fold,
            )

        return save

    def _header(self, settings: CheckpointSettings, written_at: float) -> Header:
        return Header(
            release=settings.release,
            cluster=settings.cluster(),
            group=settings.group,
            place=self.plan.place,
            offset=self.position,
            counted=max(self.position, self.counted),
            clock=self._ingest.partitions[self.partition].clock,
            settings=settings.fingerprint,
            schema=settings.schema,
            written_at=written_at,
            partitions=self.plan.partitions,
            offsets={str(log): offset for log, offset in self.offsets.items()}
            if self.joined
            else {},
        )

    def _part(self, section: Section, blobs: Collection[str]) -> Part:
        """A section as a part; not copied if the last checkpoint has the same in a blob."""
        name, last = section.name, self._versions.get(section.name)
        if last == section.version and name in blobs:
            return Part(name=name, content=None, settled=True)
        # A section that opened and closed since the last checkpoint goes to a blob at once. One
        # that late events keep changing does not: each version would be another blob.
        new = last is None and (section.closed or name in blobs)
        return Part(name=name, content=section.content(), settled=new or last == section.version)
