"""The polling loop: counts batches, writes checkpoints, publishes snapshots and logs events."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress

import msgspec

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config.field_check import FieldCheck
from streameval.config.pipeline import decodable_batches, join_frontend
from streameval.daemon.assembly import Assembly, running_worker
from streameval.daemon.log import Onsets, emit, level_of
from streameval.daemon.reading import SnapshotReader
from streameval.engine.analysis import UnreadPartitions
from streameval.engine.capture import RuntimeStatus
from streameval.engine.clock import BEFORE_ALL
from streameval.engine.dead_letters import DeadLetter
from streameval.engine.first_records import FirstRecords, Unmatched
from streameval.engine.ingest import RECORDS_AT_ONCE
from streameval.engine.snapshot import Health, JoinHealth, JoinWait, Snapshot, WebConfigHealth
from streameval.engine.windows.times import SECOND, duration_of
from streameval.events.errors import StreamevalError
from streameval.events.printable import first_names
from streameval.events.records import Assignment, Partition, PartitionOwner, RecordBatch
from streameval.join.frontend import CopartitionedOwner, JoinStats, check_copartitioned
from streameval.join.state import JoinedState

_WAIT_SECONDS = 10.0
"""Seconds after which a join that one log holds up says so."""

_REPEAT_SECONDS = 3_600.0
"""Seconds after which the log repeats a warning about a name that no record has."""

_MAX_POLL = 0.2
"""Longest poll, seconds; bounds the reaction time to signals."""

STALL_SECONDS = 60.0
"""Seconds without progress after which the loop counts as stalled; no step takes as long."""


class Loop:
    """Counts the records of a source on one thread; another thread takes snapshots of copies.

    `publish`: receives each snapshot; must be fast. `web_config`: the last reading of the web
    configuration. `reader`: executor that takes snapshots; None for a dedicated thread.
    """

    def __init__(
        self,
        parts: Assembly,
        publish: Callable[[Snapshot], None],
        clock: ProcessClock,
        web_config: Callable[[], WebConfigHealth | None],
        reader: Executor | None = None,
    ) -> None:
        thread = reader or running_worker("snapshots")
        self._web_config = web_config
        self._parts = parts
        self._publish = publish
        self._clock = clock
        self._reader = SnapshotReader(parts.snapshots, self._publish_and_log, clock, thread)
        self._invalid = InvalidRecords(clock.monotonic)
        self._problem_log = SourceProblemLog(clock.monotonic)
        self._warnings, self._jumps = Onsets("advice", once=True), Onsets("clock_jumped")
        self._repeated = Onsets("repeated_key", once=True)
        self._advised: dict[tuple[object, ...], float] = {}
        self._overflows = Onsets("label_folded", once=True)
        self._types = Onsets("unnamed_types", once=True)
        self._fields = FieldCheck(parts.config, parts.schemas)
        self._paused: str | None = None
        self._joins = JoinDriver(parts, clock)
        self._owned: OwnedShare | None = None
        self._ready = False

    @property
    def healthy(self) -> bool:
        """True if the loop has made progress lately; safe to call from any thread.

        Counting a batch is progress, and so is reading or writing a part of a checkpoint: a long
        restore or a backlog is not a stall.
        """
        return self._parts.pulse.silence < STALL_SECONDS

    def run(self, until: Callable[[], bool]) -> None:
        """Count until stopped; then write a last checkpoint and take a last snapshot.

        Polled records are counted before the loop ends. The loop continues after the end of files,
        so that their values stay available. After an error no checkpoint is written.

        Raises:
            StreamevalError: the source cannot be read, state cannot be restored, or too many
                records are invalid; waiting will not help. Or the last checkpoint failed.
            Exception: a bug, or a MemoryError; no last snapshot was taken.
        """
        try:
            self._owned = OwnedShare(owner_of(self._parts))
            self._parts.source.open(self._owned)
            while not until():
                self._step()
            self._ready = False
            while self._parts.ingest.unfinished:
                self._advance()
            self._parts.checkpointer.finish(self._log_checkpoints)
        except StreamevalError:
            self._ready = False
            self._parts.checkpointer.abandon()
            self._log_checkpoints()
            self._end()
            raise
        except BaseException:
            # A bug, or no memory: counts that it left half changed cannot be read.
            with suppress(Exception):
                self._parts.close()
            raise
        self._end()

    def _step(self) -> None:
        wait = 0.0 if self._parts.ingest.unfinished else min(_MAX_POLL, self._reader.due_in)
        batches = self._poll(wait)
        status = self._parts.source.status
        self._ready = self._ready or (status.joined and status.problem is None)
        for group in self._parts.ingest.groups(batches):
            self._parts.checkpointer.apply(*group)
            self._parts.pulse.beat()
            self._advance()
            self._reader.give_way()
        self._joins.advance()
        self._pause()
        self._parts.pulse.beat()
        self._advance()
        self._log_events()

    def _advance(self) -> None:
        """Continue unfinished counting; otherwise advance checkpoints and snapshots.

        Neither of these includes half-counted records.
        """
        if self._parts.ingest.unfinished:
            self._parts.ingest.proceed()
        else:
            self._parts.checkpointer.advance()
            if self._reader.due_in <= 0:
                self._reader.begin(self._parts.ingest.copied(), self._status())
        self._parts.pulse.beat()

    def _poll(self, seconds: float) -> Sequence[RecordBatch]:
        began, worked = self._clock.monotonic(), self._clock.busy()
        polled: Sequence[RecordBatch] = ()
        if self._parts.source.status.finished:
            self._clock.sleep(seconds)
        else:
            polled = self._parts.source.poll(seconds)
        # A large result was there already, so any wait was for a processor, not for records.
        if sum(len(batch.values) for batch in polled) < RECORDS_AT_ONCE:
            waited = self._clock.monotonic() - began - (self._clock.busy() - worked)
            self._parts.checkpointer.waited(waited)
        return polled

    def _status(self) -> RuntimeStatus:
        parts, source, checkpointer = (
            self._parts,
            self._parts.source.status,
            self._parts.checkpointer,
        )
        first = parts.ingest.first
        return RuntimeStatus(
            health=Health(
                ready=self._ready,
                trouble=source.problem or self._paused or checkpointer.failure or source.warning,
                checkpoint=checkpointer.health,
                dead_lettered=None
                if parts.dead_letters is None
                else parts.dead_letters.durable_count,
                recoveries=source.recoveries,
                connection_failures=source.connection_failures,
                web_config=self._web_config(),
                join=self._joins.health(),
            ),
            ends=source.ends,
            durable=checkpointer.durable,
            counted=checkpointer.counted,
            unmatched=() if first is None else self._unmatched(first),
            unread=UnreadPartitions(0 if self._owned is None else self._owned.unread),
        )

    def _unmatched(self, first: FirstRecords) -> tuple[Unmatched, ...]:
        unmatched = self._fields.observe(first, self._clock.monotonic())
        self._repeated.observe({text: {"advice": text} for text in self._fields.repeated()})
        return unmatched

    def _publish_and_log(self, snapshot: Snapshot, status: RuntimeStatus) -> None:
        self._publish(snapshot)
        self._jumps.observe(
            {
                partition.log: {"partition": str(partition.log), "ahead_seconds": partition.ahead}
                for partition in snapshot.health.partitions
                if partition.ahead
            }
        )
        overflowing = snapshot.health.folded_labels
        self._overflows.observe(
            {name: {"label": name, "advice": overflowing[name]} for name in overflowing}
        )
        join = snapshot.health.join
        self._types.observe(
            {
                (stream.name, *sorted(stream.unnamed_types)): {
                    "stream": stream.name,
                    "advice": stream.types_warning,
                }
                for stream in (() if join is None else join.streams)
                if stream.unnamed_types
            }
        )
        warning = snapshot.health.trouble
        if status.health.trouble is None and warning is not None:
            now = self._clock.monotonic()
            hours = int((now - self._advised.setdefault(snapshot.about, now)) // _REPEAT_SECONDS)
            # A warning about a name that no record has is repeated; others are logged once.
            about = (*snapshot.about, hours if snapshot.health.unmatched else 0)
            self._warnings.observe({about: {"advice": warning}})

    def _pause(self) -> None:
        """Pause logs that lead too far in a join; all logs while dead letters cannot be written."""
        dead_letters, ingest = self._parts.dead_letters, self._parts.ingest
        full = dead_letters is not None and dead_letters.full
        if full and self._paused is None:
            self._paused = "reading is paused: too many dead letters wait, and none can be written."
            emit(logging.WARNING, "reading_paused", trouble=self._paused)
        elif not full and self._paused is not None:
            self._paused = None
            emit(logging.INFO, "reading_resumed")
        self._parts.source.pause(ingest.positions if full else ingest.backpressured)

    def _log_checkpoints(self) -> None:
        self._parts.pulse.beat()
        for event in self._parts.checkpointer.take_log_events():
            emit(level_of(event.level), event.event.replace(" ", "_"), **event.fields)

    def _log_events(self) -> None:
        self._log_checkpoints()
        status = self._parts.source.status
        self._problem_log.observe(status.problem)
        if status.warning is not None:
            self._warnings.observe({("source", status.warning): {"advice": status.warning}})
        ingest = self._parts.ingest
        self._invalid.observe(ingest.take_invalid(), ingest.tally.invalid)

    def _end(self) -> None:
        self._log_events()
        # After an error records may be half counted, and counting on could fail again.
        if not self._parts.ingest.unfinished:
            self._reader.finish(self._parts.ingest.copied(), self._status())
        self._invalid.summarize(self._parts.ingest.tally.invalid)
        self._parts.close()


class OwnedShare:
    """An owner that logs changes of its share, and counts the partitions of other processes."""

    def __init__(self, owner: PartitionOwner) -> None:
        self._owner = owner
        self._counts: dict[str, int] = {}
        self._assigned: set[Partition] = set()
        self._lost: set[Partition] = set()

    @property
    def unread(self) -> int:
        """Partitions that other processes own; 0 for sources without consumer groups."""
        return max(0, sum(self._counts.values()) - len(self._assigned))

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Record our partitions, and the number of partitions of each topic."""
        starts = self._owner.assigned(assignments)
        self._assigned |= {assignment.partition for assignment in assignments}
        logs = set()  # of a consumer group, which alone moves partitions
        for assignment in assignments:
            if assignment.partitions is not None:
                self._counts[assignment.partition.topic] = assignment.partitions
                logs.add(assignment.partition)
        _log_share("rejoined", logs & self._lost)
        _log_share("assigned", logs - self._lost)
        self._lost -= logs
        return starts

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that another member owns from now on."""
        self._owner.revoked(partitions)
        _log_share("revoked", partitions)
        self._assigned.difference_update(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that another member may own already, as after a freeze."""
        self._owner.lost(partitions)
        _log_share("lost", partitions)
        self._lost.update(partitions)
        self._assigned.difference_update(partitions)


_MOST_LOGGED = 50
"""Most partitions that one line of the log names."""


def _log_share(change: str, partitions: Collection[Partition]) -> None:
    """Log a change of the share of this process, with its partitions."""
    if partitions:
        names = [str(partition) for partition in sorted(partitions)]
        text = first_names(names, _MOST_LOGGED, " ")
        emit(logging.INFO, f"partitions_{change}", count=len(names), partitions=text)


def owner_of(parts: Assembly) -> PartitionOwner:
    """The owner of a source's partitions; joined logs are grouped under one partition."""
    options = parts.config.attribution
    if options is None:
        return parts.checkpointer

    def check_keys() -> None:
        """Check with the newest records that every topic has a key in the same partition."""
        if parts.tails is not None:
            frontend = join_frontend(parts.config, options, parts.ingest.layout, parts.schemas)
            check_copartitioned(frontend, decodable_batches(parts.tails(), parts.schemas))

    topics = [topic for stream in options.streams for topic in stream]
    return CopartitionedOwner(parts.checkpointer, parts.ingest.partition_of, topics, check_keys)


class JoinDriver:
    """Drives the joins of a daemon between batches: ends and idle logs."""

    def __init__(self, parts: Assembly, clock: ProcessClock) -> None:
        self._parts = parts
        self._clock, self._wall = clock.monotonic, clock.wall
        self._logged: set[Partition] = set()
        options = parts.config.attribution
        self._stats, self._timeout, self._window = None, None, 0
        if options is not None:
            self._stats = JoinStats(options.names, by_request=options.key == "request_id")
            self._window = duration_of(options.window)
            if options.idle_timeout is not None:
                self._timeout = duration_of(options.idle_timeout) / SECOND
        self._seen: dict[Partition, tuple[int, float]] = {}

    def advance(self) -> None:
        """End joins of ended logs, and exclude idle logs."""
        if self._stats is None:
            return
        parts = self._parts
        parts.ingest.end(parts.source.status.ended)
        for partition, state in list(parts.ingest.partitions.items()):
            if isinstance(state, JoinedState):
                self._exclude_idle(partition, state)

    def health(self) -> JoinHealth | None:
        """The health of the joins; None without [attribution]."""
        if self._stats is None:
            return None
        health = self._stats.health(self._parts.ingest.partitions)
        waits = [] if self._timeout is not None else list(self._waits())
        for wait in waits:
            if wait.log not in self._logged:
                self._logged.add(wait.log)
                emit(
                    logging.WARNING,
                    "join_waits",
                    log=str(wait.log),
                    seconds=round(self._wall() - wait.since),
                    records=wait.records,
                    advice="idle_timeout in [attribution] ends a wait for a log without newer "
                    "records",
                )
        return msgspec.structs.replace(health, waits=waits)

    def _waits(self) -> Iterator[JoinWait]:
        """The logs that have had no newer record for some time, and hold up others."""
        for state in self._parts.ingest.partitions.values():
            if not isinstance(state, JoinedState) or not state.blocked:
                continue
            expected, clocks = state.logs.expected, state.logs.clocks
            records = state.logs.waiting + sum(counts.open for counts in state.outcomes)
            for log in state.logs.slowest:
                # Where all logs are quiet, the last lists are merely not over.
                behind = max(clocks.values(), default=0) - clocks.get(log, BEFORE_ALL)
                if behind > self._window and self._is_idle(log, expected[log], _WAIT_SECONDS):
                    silent = self._clock() - self._seen[log][1]
                    yield JoinWait(
                        topic=log.topic,
                        partition=log.number,
                        since=self._wall() - silent,
                        records=records,
                    )

    def _exclude_idle(self, partition: Partition, state: JoinedState) -> None:
        checkpointer, expected = self._parts.checkpointer, state.logs.expected
        if state.proposed_at is not None:
            # In effect only once a checkpoint has it, so that a restart repeats it.
            if checkpointer.saved(partition, state.proposed_at):
                self._decide(state)
            return
        if self._timeout is None:
            return
        timeout = self._timeout
        idle = [log for log in state.logs.slowest if self._is_idle(log, expected[log], timeout)]
        if idle and state.blocked:
            state.propose(idle)
            checkpointer.checkpoint_soon()

    def _decide(self, state: JoinedState) -> None:
        """Accept a proposal for the logs that still end where they did; after a restart, too."""
        if self._timeout is None:
            state.accept([])
            return
        source = self._parts.source.status
        proposed, expected, ends = state.proposed, state.logs.expected, source.ends
        is_ready = all(log in ends and expected[log] >= offset for log, offset in proposed.items())
        # While the source does not answer, a log may have records that are not known yet.
        if is_ready and source.problem is None:
            state.accept(
                [log for log, offset in proposed.items() if ends[log] <= expected[log] == offset]
            )

    def _is_idle(self, log: Partition, expected: int, seconds: float) -> bool:
        """True if no record has arrived for so long, and the log has no unread record."""
        now = self._clock()
        offset, since = self._seen.setdefault(log, (expected, now))
        source = self._parts.source.status
        if offset != expected or source.problem is not None:
            self._seen[log] = expected, now
            return False
        end = source.ends.get(log)
        return now - since >= seconds and end is not None and end <= expected


_SUMMARY_SECONDS = 10.0
_PROBLEM_SECONDS = 2.0


class InvalidRecords:
    """Logs the first few invalid records of each reason, and the number of the others.

    `clock`: monotonic seconds. A summary is logged at most every 10 s.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged: Counter[str] = Counter()
        self._next = clock()

    def observe(self, examples: Sequence[DeadLetter], counts: Mapping[str, int]) -> None:
        """Log the records that the pipeline found invalid."""
        for record in examples:
            self._logged[record.reason] += 1
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
        more = {reason: count - self._logged[reason] for reason, count in counts.items()}
        more = {reason: count for reason, count in more.items() if count}
        if more:
            emit(logging.WARNING, "invalid_records", more=sum(more.values()), **more)
            self._logged.update(more)
            self._next = self._clock() + _SUMMARY_SECONDS


class SourceProblemLog:
    """Logs the beginning, change and end of the source's problem, if it lasts 2 s or more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged: str | None = None

    def observe(self, problem: str | None) -> None:
        """Log a change of the source's problem."""
        if problem is None:
            self._end()
            return
        self._since = self._clock() if self._since is None else self._since
        if problem != self._logged and self._clock() - self._since >= _PROBLEM_SECONDS:
            self._logged = problem
            emit(logging.WARNING, "source_trouble", trouble=problem)

    def _end(self) -> None:
        if self._logged is not None and self._since is not None:
            seconds = round(self._clock() - self._since, 1)
            emit(logging.INFO, "source_recovered", after_seconds=seconds)
            # Failed connections leave cycles of objects behind, and collections are rare.
            gc.collect()
        self._since = self._logged = None
