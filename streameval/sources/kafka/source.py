"""Kafka topics as a source, read as a member of a consumer group.

Functions raise KafkaError if the broker does not answer, and FencedInstanceIdError if another
process uses our member name.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from kafka import KafkaConsumer
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
)

from streameval.events.errors import SourceError, UnevenStreamsError
from streameval.events.extras import import_extra
from streameval.events.records import Assignment, CommitAnswer, Owner, Partition, RecordBatch
from streameval.sources.kafka.cluster import (
    ANSWER_MS,
    Cluster,
    ClusterMonitor,
    assignments_of,
    start_offsets,
)
from streameval.sources.kafka.consumer import (
    Consumer,
    Monitor,
    Rebalance,
    Rebalances,
    Stall,
    Watchdog,
    skip_to,
)
from streameval.sources.kafka.diagnosis import (
    SETTINGS_ERRORS,
    failure_of,
    permanent_error,
    settings_error,
    silence_client_log,
)
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer, connect
from streameval.sources.kafka.settings import (
    KAFKA_PYTHON,
    client_of,
    group_config,
    source_topics,
)
from streameval.sources.options import KafkaOptions, start_spec
from streameval.sources.secrets import redact
from streameval.sources.source import Positions, SourceStatus

T = TypeVar("T")

_POLL_INTERVAL_MS: Final = 300_000
"""Default of the client."""

_BUDGET_SHARE: Final = 0.2

_JOIN_SECONDS: Final = 10.0
"""Seconds after which joining the group counts as trouble; usually it takes at most 3."""

STALL_SECONDS: Final = 60.0
"""Without progress for so long, although records wait, the client is restarted: brokers answer
within 30 s, and a fetch that is slower has failed."""

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaSource:
    """The partitions of topics that a consumer group assigns to this process.

    Only committed records are delivered. An empty batch moves the position over offsets without
    records (compaction, aborted transactions). Added partitions and created topics are found within
    seconds. If a partition stalls although the broker answers and records wait, the source first
    seeks again, then rejoins the group, then fails.

    `shared`: whether to share the partitions with other members of the group; otherwise the source
    reads all of them in a separate group.
    """

    def __init__(
        self,
        options: KafkaOptions,
        environment: Mapping[str, str],
        *,
        shared: bool,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._topics = source_topics(options)
        self._config = group_config(options, environment, shared=shared)
        self._client = client_of(options)
        self._subscribe = consumer_factory(options, environment, self._config)
        self._start, self._shared = start_spec(options.start), shared
        self._timeout = stall_seconds
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._owner: Owner = Positions()
        self._member: GroupMember | None = None
        self._fenced: KafkaError | None = None
        self._retrying: str | None = None
        self._joining_since = math.inf
        self.name = ", ".join(self._topics)
        self._joined = False
        self._recoveries = {"seek": 0, "rejoin": 0}

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._monitor.cluster

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""
        interval: int = self._config.get("max_poll_interval_ms", _POLL_INTERVAL_MS)
        return _BUDGET_SHARE * interval / 1000

    @property
    def status(self) -> SourceStatus:
        """Ends at most a second old; trouble also if only some records cannot be read.

        A topic has no end. Recoveries are those of the watchdog: "seek", "rejoin".
        """
        return SourceStatus(
            joined=self._joined,
            ends=self._monitor.ends,
            trouble=self._monitor.trouble or self._retrying or self._waiting,
            recoveries=dict(self._recoveries),
            connection_failures=dict(self._monitor.failures),
        )

    @property
    def _waiting(self) -> str | None:
        """Why joining the group takes long, although the broker answers; else None."""
        if self._joined or time.monotonic() - self._joining_since < _JOIN_SECONDS:
            return None
        return (
            f"waiting to join group {self._config['group_id']!r}: Kafka first waits for its other "
            "members, and for a member that was killed until session_timeout_ms (45 s) has passed."
        )

    def open(self, owner: Owner) -> None:
        """Start to connect; `poll` joins the group."""
        self.close()
        silence_client_log()
        _LOG.info(
            "reading Kafka topics %s by %s with %s", self.name, self._client, redact(self._config)
        )
        self._owner = owner
        self._fenced, self._retrying, self._joined = None, None, False
        self._joining_since = math.inf
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._monitor.start()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Call the owner for rebalances; then return records, and batches that skip gaps.

        Must be called at least every max_poll_interval_ms; otherwise the group reassigns the
        partitions.

        Raises:
            SourceError: reading starts outside a log, or retention has overtaken it and partitions
                are not shared; a topic was recreated; a record is corrupt; another process uses
                our member name; a partition is stalled after all remedies; the client rejects its
                settings.
            StreamevalError: an error of the owner.
        """
        self._monitor.wait_for_partitions(seconds)
        if self._monitor.failure is not None:
            raise self._monitor.failure
        if not self._monitor.ready:
            return []
        batches = self._attempt(lambda: self._read(seconds), seconds) or []
        member = self._member
        if member is None:
            return []
        member.dispatch()
        batches += self._start_assigned(member, seconds)
        self._check_for_stalls(member)
        # After a rejoin the owner has given up the partitions, and reads these records again.
        return batches if self._member is member else []

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool = True
    ) -> str | CommitAnswer | None:
        """Commit to the group, for assigned partitions only; takes a second at most."""
        if self._member is None:
            return f"nothing was committed to group {self._config['group_id']!r}: not joined."
        try:
            return self._member.commit(positions, wait=wait)
        except KafkaError as error:
            # A commit only reports the error; the next `poll` raises it.
            self._fenced = error
            return f"Kafka refused the commit: {type(error).__name__}."

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause these partitions until the next call; they stay assigned."""
        if self._member is not None:
            self._member.pause(partitions)

    def close(self) -> None:
        """Leave the group, unless a static member, and close the connections.

        The owner is not called; it must have finished before. May be called twice.
        """
        self._monitor.stop()
        self._leave()

    def _read(self, seconds: float) -> list[RecordBatch]:
        if self._fenced is not None:
            raise self._fenced
        if self._member is None:
            self._member, self._joining_since = self._join_group(), time.monotonic()
        try:
            return self._member.read(seconds)
        except (OffsetOutOfRangeError, LogTruncationError):
            if not self._shared:
                raise
            self._member.reassign()
            return []

    def _join_group(self) -> GroupMember:
        return GroupMember(
            self._topics,
            self._subscribe,
            config=self._config,
            start=self._start,
            monitor=self._monitor,
            owner=self._owner,
        )

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _start_assigned(self, member: GroupMember, seconds: float) -> list[RecordBatch]:
        """Hand new partitions to the owner, once the cluster has answered with their offsets."""
        if member.unstarted is None:
            return []
        assignments = self._attempt(member.assignments, seconds)
        if assignments is None:
            return []
        try:
            starts = start_offsets(self._owner, assignments)
        except UnevenStreamsError:
            missing = self._attempt(member.missing_topics, seconds)
            if missing is not None and not missing:
                raise
            if missing:
                # `trouble` names them; the group assigns again once they are created.
                member.start({})
            return []
        self._joined = True
        return member.start(starts)

    def _check_for_stalls(self, member: GroupMember) -> None:
        monitor = self._monitor
        reading = {p: at for p, at in member.positions.items() if p not in member.paused}
        stall = self._watchdog.check(reading, monitor.ends, answers=monitor.answers)
        if stall is not None:
            self._recover(member, stall)

    def _recover(self, member: GroupMember, stall: Stall) -> None:
        where = ", ".join(f"{p} at {offset}" for p, offset in sorted(stall.positions.items()))
        if stall.remedy == "give up":
            problem = f"no progress for {self._timeout:g} s at {where}, although records wait"
            remedy = "check the broker's log, then restart; seeking and rejoining did not help"
            raise SourceError("kafka", problem, remedy)
        self._recoveries[stall.remedy] += 1
        _LOG.warning("no records from Kafka after %s; trying: %s", where, stall.remedy)
        if stall.remedy == "seek":
            member.seek(stall.positions)
            return
        self._owner.revoked(sorted(member.positions))
        self._leave()

    def _attempt(self, request: Callable[[], T], seconds: float) -> T | None:
        """The result of a request; None after a temporary error, which `trouble` describes."""
        try:
            answer = request()
        except SETTINGS_ERRORS as error:
            raise settings_error(error, self._config) from error
        except (KafkaError, OSError) as error:
            permanent = permanent_error(error)
            if permanent is not None:
                raise permanent from error
            self._retrying = f"{failure_of(error, self._config)}; still trying."
            self._monitor.sleep(seconds)
            return None
        self._retrying = None
        return answer


Subscribe: TypeAlias = Callable[[Sequence[str], Rebalances, Monitor], Consumer]
"""Creates a consumer of topics; raises KafkaError if no broker answers."""


def consumer_factory(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> Subscribe:
    """A factory of consumers of the configured client."""
    if client_of(options) == KAFKA_PYTHON:
        return partial(KafkaPythonConsumer, config)
    settings = _module().librdkafka_config(options, environment, config)
    return partial(_module().ConfluentConsumer, settings, config)


def try_connection(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Let the configured client connect once, with the settings of a reader."""
    if client_of(options) == KAFKA_PYTHON:
        connect(KafkaConsumer, config).close(autocommit=False)
        return
    named = {**config, "group_id": options.group}
    _module().try_connection(_module().librdkafka_config(options, environment, named))


def _module() -> Any:
    """Import the module that needs the extra."""
    what = 'client = "confluent" of [source.kafka]'
    return import_extra("streameval.sources.kafka.confluent", what, "fast")


class GroupMember:
    """A subscribed consumer of either client, which delivers assigned partitions once started.

    `start`: EARLIEST, LATEST, or milliseconds since the epoch.

    Attributes:
        positions: started partition -> the offset after the last delivered record.
        paused: started partitions that are paused.
        unstarted: assigned partitions that wait for `start`; None without a new assignment.
    """

    def __init__(
        self,
        topics: Sequence[str],
        subscribe: Subscribe,
        *,
        config: Mapping[str, Any],
        start: int,
        monitor: ClusterMonitor,
        owner: Owner,
    ) -> None:
        self._topics = topics
        self._config = config
        self._start = start
        self._monitor = monitor
        self._owner = owner
        self._pending: deque[Rebalance] = deque()
        self.unstarted: Sequence[Partition] | None = None
        self.positions: dict[Partition, int] = {}
        self.paused: frozenset[Partition] = frozenset()
        self._consumer = subscribe(topics, self, monitor)

    def read(self, seconds: float) -> list[RecordBatch]:
        """Records that arrive within `seconds`; none while the group rebalances."""
        # With a negative timeout one client waits for ever, and the other raises.
        batches = self._consumer.poll(max(0.0, seconds), self.positions)
        for batch in batches:
            self.positions[batch.partition] = batch.next_offset
        return batches

    def enqueue(self, rebalance: Rebalance) -> None:
        """Keep a rebalance until the owner is called."""
        self._pending.append(rebalance)

    def dispatch(self) -> None:
        """Call the owner for each queued rebalance."""
        while self._pending:
            self._apply(self._pending[0])
            self._pending.popleft()

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Hold assigned partitions back until `start`."""
        self._consumer.hold(partitions)
        self.unstarted = partitions

    def reassign(self) -> None:
        """Assign all partitions again after data loss: the owner decides, as after a restart."""
        mine = sorted(self.positions)
        self._owner.revoked(mine)
        self.positions.clear()
        self.hold(mine)

    def assignments(self) -> list[Assignment]:
        """The assignments of the unstarted partitions, with current offsets of the cluster."""
        if not self.unstarted:
            return []
        with self._cluster() as cluster:
            return assignments_of(
                cluster,
                self.unstarted,
                self._start,
                first=self._monitor.first,
                group=self._config["group_id"],
            )

    def missing_topics(self) -> Sequence[str]:
        """The topics that do not exist, or that this user may not describe."""
        with self._cluster() as cluster:
            described = cluster.topics(self._topics)
        return [*described.missing, *described.refused]

    def start(self, offsets: Mapping[Partition, int]) -> list[RecordBatch]:
        """Deliver partitions from these offsets; the returned batches move the positions there."""
        self._consumer.start(offsets)
        self.positions.update(offsets)
        self.paused -= offsets.keys()
        self.unstarted = None
        return [skip_to(partition, offset) for partition, offset in offsets.items()]

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Let the client seek to these offsets, possibly again."""
        self._consumer.seek(offsets)
        self.positions.update(offsets)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause exactly these partitions, and resume all others."""
        wanted = frozenset(partitions).intersection(self.positions)
        if wanted != self.paused:
            self._consumer.pause(wanted - self.paused)
            self._consumer.resume(self.paused - wanted)
            self.paused = wanted

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool
    ) -> str | CommitAnswer | None:
        """Commit the assigned partitions; returns the problem in one sentence, PENDING or None."""
        mine = {*self.positions, *(self.unstarted or ())}
        ours = {log: offset for log, offset in positions.items() if log in mine}
        foreign = ", ".join(str(position) for position in sorted(positions) if position not in ours)
        try:
            if ours and not self._consumer.commit(ours, wait=wait):
                return CommitAnswer.PENDING
        except FencedInstanceIdError:
            raise
        except CommitFailedError as error:
            return f"Kafka refused the commit: this member has left the group: {_why(error)}."
        except (KafkaError, OSError) as error:
            return f"the commit to Kafka failed: {_why(error)}."
        return f"{foreign}: not committed, because not assigned to us." if foreign else None

    def close(self) -> None:
        """Leave the group, unless a static member, and close the connection."""
        self._consumer.close()

    def _cluster(self) -> closing[Cluster]:
        return closing(Cluster({**self._config, "request_timeout_ms": ANSWER_MS}))

    def _apply(self, rebalance: Rebalance) -> None:
        if rebalance.what == "assigned":
            self.hold(rebalance.partitions)
            return
        mine = [log for log in rebalance.partitions if log in self.positions]
        if mine:
            call = self._owner.revoked if rebalance.what == "revoked" else self._owner.lost
            call(mine)
        for partition in rebalance.partitions:
            self.positions.pop(partition, None)
        self.paused -= frozenset(rebalance.partitions)
        self._consumer.release(rebalance.partitions)
        self.unstarted = None


def _why(error: Exception) -> str:
    name = type(error).__name__
    text = str(error).removeprefix(f"{name}: ").rstrip(".")
    # kafka-python repeats the name or says None where it has nothing to say.
    return name if text in ("", "None", name) else f"{name}: {text}"
