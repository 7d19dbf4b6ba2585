"""The polling loop: counts batches, checkpoints, publishes snapshots, and logs what happens."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from streameval.checkpoints.scheduler import Clock
from streameval.config.pipeline import joint, readable_batches
from streameval.daemon.assembly import Assembly
from streameval.daemon.log import emit, level_of
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.ingest import AT_ONCE, IngestCopy
from streameval.engine.pace import Pace
from streameval.engine.snapshot import Health, JoinHealth, ReloadHealth, Snapshot
from streameval.engine.snapshots import RuntimeStatus, Snapshots
from streameval.errors import StreamevalError, UncountableRecordError
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.joint import Grouped, JoinStats, require_together
from streameval.join.state import JoinedState
from streameval.windows.times import SECOND, microseconds

_LONGEST_WAIT = 0.2
"""Seconds within which a signal is noticed."""

STUCK = 60.0
"""Seconds; longer than any batch, snapshot or part of a checkpoint takes."""


class Loop:
    """Counts what a source delivers, on one thread; another one reads copies of what was counted.

    `publish`: handed each snapshot; must be quick. `reload`: how the last reload ended; None where
    there are none. `reader`: takes snapshots; None means a thread of its own.
    """

    def __init__(
        self,
        parts: Assembly,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        reload: Callable[[], ReloadHealth | None],
        reader: Executor | None = None,
    ) -> None:
        thread = reader or ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshots")
        self._reload = reload
        self._parts = parts
        self._publish = publish
        self._clock = clock
        self._reader = SnapshotReader(parts.snapshots, self._published, clock, thread)
        self._invalid = InvalidRecords(clock.monotonic)
        self._trouble, self._advice = SourceTrouble(clock.monotonic), Advice()
        self._joining = Joining(parts, clock.monotonic)
        self._owned: OwnedShare | None = None
        self._ready = False

    @property
    def turning(self) -> bool:
        """Whether the loop has made progress lately; safe to call from any thread.

        A batch that is counted is progress, and so is each part of a checkpoint that is read or
        written: a long restore or a backlog is not a standstill.
        """
        return self._parts.pulse.silence < STUCK

    def run(self, until: Callable[[], bool]) -> None:
        """Read until stopped; then save and take a last snapshot.

        What has been polled is counted before it ends. A source that has finished is waited on
        all the same, so that its values can still be looked at. Where it ends by an error, no
        state is saved that was not saved before.

        Raises:
            StreamevalError: the source cannot be read, state must not resume, or too many records
                are invalid; waiting will not help. Or the last checkpoint could not be written.
        """
        try:
            self._owned = OwnedShare(owner_of(self._parts))
            self._parts.source.open(self._owned)
            while not until():
                self._turn()
            self._ready = False
            while self._parts.ingest.unfinished:
                self._advance()
            self._parts.owner.finish()
        except StreamevalError as error:
            self._ready = False
            self._parts.owner.abandon()
            if isinstance(error, UncountableRecordError):
                raise self._parts.owner.note(error) from error
            raise
        finally:
            self._end()

    def _turn(self) -> None:
        source, ingest = self._parts.source, self._parts.ingest
        wait = 0.0 if ingest.unfinished else min(_LONGEST_WAIT, self._reader.due_in)
        batches = self._poll(wait)
        self._ready = self._ready or (source.joined and source.trouble is None)
        for piece in (each for batch in batches for each in batch.pieces(AT_ONCE)):
            self._parts.owner.apply(piece)
            self._parts.pulse.beat()
            self._advance()
        self._joining.turn()
        self._parts.pulse.beat()
        self._advance()
        self._tell()

    def _advance(self) -> None:
        """Finish what was counted, a part of it; or continue checkpoints and snapshots.

        Neither shows what is half counted.
        """
        if self._parts.ingest.unfinished:
            self._parts.ingest.proceed()
        else:
            self._parts.owner.advance()
            self._show_when_due()
        self._parts.pulse.beat()

    def _poll(self, seconds: float) -> Sequence[RecordBatch]:
        began, worked = self._clock.monotonic(), self._clock.busy()
        found: Sequence[RecordBatch] = ()
        if self._parts.source.finished:
            self._clock.sleep(seconds)
        else:
            found = self._parts.source.poll(seconds)
        # What brings many records had them already: it waited for a processor, if for anything.
        if sum(len(batch.values) for batch in found) < AT_ONCE:
            waited = self._clock.monotonic() - began - (self._clock.busy() - worked)
            self._parts.owner.waited(waited)
        return found

    def _show_when_due(self) -> None:
        if self._reader.due_in <= 0:
            self._reader.begin(self._parts.ingest.copied(), self._around())

    def _around(self) -> RuntimeStatus:
        parts, source, owner = self._parts, self._parts.source, self._parts.owner
        invalid = sum(parts.ingest.tally.invalid.values())
        return RuntimeStatus(
            health=Health(
                ready=self._ready,
                trouble=source.trouble,
                checkpoint=owner.health,
                commit_failures=owner.commit_failures,
                dead_lettered=None if parts.letters is None else invalid,
                recoveries=dict(source.recoveries),
                connection_failures=dict(source.connection_failures),
                registry_failures={} if parts.schemas is None else dict(parts.schemas.failures),
                reload=self._reload(),
                join=self._joining.health(),
            ),
            ends=source.end_offsets(),
            counted=owner.counted,
            unread=0 if self._owned is None else self._owned.unread,
        )

    def _published(self, snapshot: Snapshot, around: RuntimeStatus) -> None:
        self._publish(snapshot)
        if around.health.trouble is None:
            self._advice.observe(snapshot.health.trouble)

    def _tell(self) -> None:
        for each in self._parts.owner.take_log_events():
            emit(level_of(each.level), each.event.replace(" ", "_"), **each.fields)
        self._trouble.observe(self._parts.source.trouble)
        ingest = self._parts.ingest
        self._invalid.observe(ingest.take_invalid(), ingest.tally.invalid)

    def _end(self) -> None:
        self._tell()
        self._reader.finish(self._parts.ingest.copied(), self._around())
        self._invalid.summarize(self._parts.ingest.tally.invalid)
        self._parts.close()


class OwnedShare:
    """An owner that also knows how many partitions of its topics other processes own."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._counts: dict[str, int] = {}
        self._mine: set[Partition] = set()

    @property
    def unread(self) -> int:
        """Partitions that other processes own; 0 where the source has no notion of others."""
        return max(0, sum(self._counts.values()) - len(self._mine))

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Note how many partitions each topic has, and which are ours."""
        found = self._owner.assigned(assignments)
        self._mine |= {each.partition for each in assignments}
        for each in assignments:
            if each.partitions is not None:
                self._counts[each.partition.topic] = each.partitions
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that another member owns now."""
        self._owner.revoked(partitions)
        self._mine.difference_update(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that another member owns now."""
        self._owner.lost(partitions)
        self._mine.difference_update(partitions)


def owner_of(parts: Assembly) -> Owner:
    """Who owns the partitions of a source; logs that are joined are one to it."""
    owner = parts.owner
    attribution = parts.config.attribution
    if attribution is None:
        return owner
    topics = [each for stream in attribution.streams for each in stream]
    return Grouped(owner, parts.ingest.partition_of, topics, lambda: _inspect(parts))


def _inspect(parts: Assembly) -> None:
    """Check that the newest records of one key lie in one partition of each topic.

    Raises:
        SplitKeyError: records of one key cannot meet.
    """
    options = parts.config.attribution
    if options is not None and parts.tails is not None:
        front = joint(parts.config, options, parts.ingest.layout, parts.schemas)
        require_together(front, readable_batches(parts.tails(), parts.config, parts.schemas))


class Joining:
    """Looks after the joins of a daemon, between batches; does nothing where there are none."""

    def __init__(self, parts: Assembly, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._clock = clock
        options = parts.config.attribution
        self._stats, self._timeout = None, None
        if options is not None:
            self._stats = JoinStats(options.names, by_request=options.key == "request_id")
            if options.idle_timeout is not None:
                self._timeout = microseconds(options.idle_timeout) / SECOND
        self._seen: dict[Partition, tuple[int, float]] = {}

    def turn(self) -> None:
        """Tell joins what has ended, the source what leads too far, and pass by what is idle."""
        if self._stats is None:
            return
        parts = self._parts
        parts.ingest.end(parts.source.ended)
        parts.source.pause(parts.ingest.backpressured)
        for home, state in list(parts.ingest.partitions.items()):
            if isinstance(state, JoinedState):
                self._pass_by(home, state)

    def health(self) -> JoinHealth | None:
        """How they are; None where there are none."""
        return None if self._stats is None else self._stats.health(self._parts.ingest.partitions)

    def _pass_by(self, home: Partition, state: JoinedState) -> None:
        """What is proposed has effects only after it was saved."""
        owner = self._parts.owner
        if state.proposed_at is not None:
            if owner.saved(home, state.proposed_at):
                state.accept()
            return
        if self._timeout is None:
            return
        expected = state.logs.expected
        idle = [log for log in state.logs.slowest if self._is_idle(log, expected[log])]
        if idle and state.blocked:
            state.propose(idle)
            owner.checkpoint_soon()

    def _is_idle(self, log: Partition, expected: int) -> bool:
        """Whether nothing has come for long, and the source knows of nothing more."""
        now = self._clock()
        offset, since = self._seen.setdefault(log, (expected, now))
        source = self._parts.source
        if offset != expected or source.trouble is not None:
            self._seen[log] = expected, now
            return False
        end = source.end_offsets().get(log)
        waited = now - since >= (self._timeout or 0.0)
        return waited and end is not None and end <= expected


_SHORTEST = 1.0
"""Seconds between snapshots."""


class SnapshotReader:
    """Takes snapshots on a thread of its own, one at a time.

    `publish`: handed each with what it was taken of, on that thread; must be quick.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        publish: Callable[[Snapshot, RuntimeStatus], None],
        clock: Clock,
        thread: Executor,
    ) -> None:
        self._snapshots = snapshots
        self._publish = publish
        self._clock = clock
        self._pace, self._next = Pace(_SHORTEST), clock.monotonic()
        self._thread = thread
        self._taking: Future[None] | None = None

    @property
    def due_in(self) -> float:
        """Seconds until the next snapshot should begin; infinite while one is being taken.

        Raises:
            StreamevalError: the last one failed.
        """
        if self._taking is not None:
            if not self._taking.done():
                return float("inf")
            self._taking.result()
            self._taking = None
        return max(0.0, self._next - self._clock.monotonic())

    def begin(self, counts: IngestCopy, around: RuntimeStatus) -> None:
        """Take a snapshot on the other thread."""
        self._taking = self._thread.submit(self._take, counts, around)

    def finish(self, counts: IngestCopy, around: RuntimeStatus) -> None:
        """Take the last snapshot and wait for it."""
        self.begin(counts, around)
        self._thread.shutdown()
        if self._taking is not None:
            self._taking.result()

    def _take(self, counts: IngestCopy, around: RuntimeStatus) -> None:
        began = self._clock.monotonic()
        self._publish(self._snapshots.take(counts, self._clock.wall(), around), around)
        self._pace.note(self._clock.monotonic() - began)
        self._next = began + self._pace.interval


_IN_FULL = 3
_SECONDS = 10.0
_PATIENCE = 2.0


class InvalidRecords:
    """Logs the first few invalid records of each reason, and the number of the others.

    `clock`: seconds that only grow; a summary comes every 10 of them, at most.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: Counter[str] = Counter()
        self._in_full: Counter[str] = Counter()
        self._next = clock()

    def observe(self, examples: Sequence[DeadLetter], counts: Mapping[str, int]) -> None:
        """Log the records that the pipeline found invalid."""
        for record in examples:
            if self._in_full[record.reason] < _IN_FULL:
                self._in_full[record.reason] += 1
                self._told[record.reason] += 1
                emit(
                    logging.WARNING,
                    "invalid_record",
                    reason=record.reason,
                    partition=str(record.partition),
                    offset=record.offset,
                    detail=record.message,
                    preview=record.preview,
                )
        if self._clock() >= self._next:
            self.summarize(counts)

    def summarize(self, counts: Mapping[str, int]) -> None:
        """Log the number of records not logged yet, if any."""
        more = {reason: count - self._told[reason] for reason, count in counts.items()}
        more = {reason: count for reason, count in more.items() if count}
        if more:
            emit(logging.WARNING, "invalid_records", more=sum(more.values()), **more)
            self._told.update(more)
            self._next = self._clock() + _SECONDS


class SourceTrouble:
    """Logs when trouble of the source begins, changes and ends.

    Connecting takes a moment; only trouble of two seconds is logged.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._told: str | None = None

    def observe(self, trouble: str | None) -> None:
        """Log a change in the trouble that the source reports."""
        if trouble is None:
            self._end()
            return
        self._since = self._clock() if self._since is None else self._since
        if trouble != self._told and self._clock() - self._since >= _PATIENCE:
            self._told = trouble
            emit(logging.WARNING, "source_trouble", trouble=trouble)

    def _end(self) -> None:
        if self._told is not None and self._since is not None:
            seconds = round(self._clock() - self._since, 1)
            emit(logging.INFO, "source_recovered", after_seconds=seconds)
        self._since = self._told = None


class Advice:
    """Logs advice about suspicious events: each sentence once, numbers aside."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def observe(self, advice: str | None) -> None:
        """Log new advice of the pipeline."""
        kind = None if advice is None else re.sub(r"[\d,]+", "", advice)
        if kind is not None and kind not in self._given:
            self._given.add(kind)
            emit(logging.WARNING, "advice", advice=advice)
