"""Kafka topics as a source, read as a member of a consumer group.

Functions raise KafkaError if the broker does not answer, and FencedInstanceIdError if another
process uses our member name.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from kafka import KafkaConsumer
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from streameval.events.errors import SourceError, UnevenStreamsError
from streameval.events.extras import imports_of
from streameval.events.printable import first_names
from streameval.events.records import CommitAnswer, Partition, PartitionOwner, RecordBatch
from streameval.events.secrets import redact
from streameval.sources.kafka.client_settings import (
    KAFKA_PYTHON,
    client_of,
    group_config,
    source_topics,
)
from streameval.sources.kafka.cluster import ClusterMonitor, connect
from streameval.sources.kafka.diagnosis import (
    SETTINGS_ERRORS,
    FailureReason,
    failure_of,
    permanent_error,
    settings_error,
)
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.member import Consumer, GroupMember
from streameval.sources.schemas.records import Schemas
from streameval.sources.settings import KafkaOptions, start_spec
from streameval.sources.source import Positions, SourceStatus

T = TypeVar("T")

_FAST = 'client = "confluent" of [source.kafka]'

Remedy: TypeAlias = Literal["seek", "rejoin", "give up"]

_REMEDIES: Final[tuple[Remedy, ...]] = ("seek", "rejoin", "give up")
_LONGEST_STEP: Final = 5.0
"""Most seconds between two checks that count; a longer gap means that the process was suspended."""

_POLL_INTERVAL_MS: Final = 300_000
"""Default of the client."""

_BUDGET_SHARE: Final = 0.2

_JOIN_SECONDS: Final = 10.0
"""Seconds after which joining the group is reported as a problem; usually it takes at most 3."""

RESTART_SECONDS: Final = 60.0
"""Seconds without progress, although records wait, after which the client is restarted.

Brokers answer within 30 s; a slower fetch has failed.
"""

_NAMED: Final = 5
"""Most waiting partitions that `problem` lists."""

_REGISTRY: Final[FailureReason] = "schema_registry"

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaSource:
    """The partitions of topics that a consumer group assigns to this process.

    Only committed records are delivered. An empty batch sets the position after offsets without
    records (compaction, aborted transactions). Added partitions and created topics are found within
    seconds. If a partition stalls although the broker answers and records wait, the source first
    seeks again, then rejoins the group, then fails. A partition waits while the registry does not
    give the schema of its next record.

    `shared`: whether to share the partitions with other members of the group; otherwise the source
    reads all of them in a separate group. `schemas`: of the records; None if they need none.
    """

    def __init__(
        self,
        options: KafkaOptions,
        environment: Mapping[str, str],
        *,
        shared: bool,
        schemas: Schemas | None = None,
        stall_seconds: float = RESTART_SECONDS,
    ) -> None:
        self._topics = source_topics(options)
        self._config = group_config(options, environment, shared=shared)
        self._client = client_of(options)
        self._subscribe = _subscriber(self._client, self._config)
        self._start, self._shared = start_spec(options.start), shared
        self._schemas = schemas
        self._timeout = stall_seconds
        self._monitor = ClusterMonitor(self._topics, self._config)
        self._watchdog = Watchdog(self._timeout, time.monotonic)
        self._owner: PartitionOwner = Positions()
        self._member: GroupMember | None = None
        self._fenced: KafkaError | None = None
        self._retrying: str | None = None
        self._paused: frozenset[Partition] = frozenset()
        self._silence: str | None = None
        self._waiting: dict[Partition, str] = {}
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
        """Ends at most a second old; a problem even if only some records cannot be read.

        A topic has no end. Recoveries are those of the watchdog: "seek", "rejoin".
        """
        failures = dict(self._monitor.failures)
        if self._schemas is not None:
            failures[_REGISTRY] = self._schemas.failures
        return SourceStatus(
            joined=self._joined,
            ends=self._monitor.ends,
            problem=self._monitor.problem
            or self._retrying
            or self._schema_problem
            or self._join_problem,
            recoveries=dict(self._recoveries),
            connection_failures=failures,
        )

    @property
    def _join_problem(self) -> str | None:
        """The reason why joining the group takes long, although the broker answers; else None."""
        if self._joined or time.monotonic() - self._joining_since < _JOIN_SECONDS:
            return None
        return (
            f"waiting to join group {self._config['group_id']!r}: Kafka first waits for its other "
            "members, and for a member that was killed until session_timeout_ms (45 s) has passed."
        )

    @property
    def _schema_problem(self) -> str | None:
        """The partitions that wait for schemas, and why; or why the registry never answered."""
        if not self._waiting:
            return None if self._silence is None else f"{self._silence}; still trying."
        waiting = [str(partition) for partition in sorted(self._waiting)]
        first = self._waiting[min(self._waiting)]
        return f"{first}; {first_names(waiting, _NAMED)} wait for it; still trying."

    def open(self, owner: PartitionOwner) -> None:
        """Start to connect; `poll` joins the group."""
        self.close()
        settings = redact(self._config)
        fields = {"topics": self.name, "client": self._client} | {
            name: settings.get(name)
            for name in ("bootstrap_servers", "security_protocol", "group_id", "group_instance_id")
        }
        _LOG.info("reading_kafka", extra={"fields": fields})
        _LOG.debug("settings of the Kafka client: %s", settings)
        self._owner = owner
        self._fenced, self._retrying, self._joined = None, None, False
        self._waiting = {}
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
        if self._schemas is not None:
            batches = self._decodable(member, self._schemas, batches)
        self._recover_from_stalls(member)
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
        self._paused = frozenset(partitions)
        if self._member is not None:
            self._pause(self._member)

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
            self._member = GroupMember(
                self._topics,
                self._subscribe,
                config=self._config,
                start=self._start,
                monitor=self._monitor,
                owner=self._owner,
            )
            self._joining_since = time.monotonic()
        self._pause(self._member)
        try:
            return self._member.read(seconds)
        except (OffsetOutOfRangeError, LogTruncationError):
            if not self._shared:
                raise
            self._member.reassign()
            return []

    def _leave(self) -> None:
        member, self._member = self._member, None
        self._waiting = {}
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
            batches = member.start(assignments)
        except UnevenStreamsError:
            missing = self._attempt(member.missing_topics, seconds)
            if missing is not None and not missing:
                raise
            if missing:
                # `problem` names them; the group assigns again once they are created.
                member.start(())
            return []
        self._joined = True
        return batches

    def _decodable(
        self, member: GroupMember, schemas: Schemas, batches: Sequence[RecordBatch]
    ) -> list[RecordBatch]:
        """The batches, each up to the first record without a schema, from which it is read again.

        The partition of such a record is paused until the registry may be asked again.
        """
        decodable = []
        self._silence = schemas.silence()
        for batch in batches:
            partition, count = batch.partition, len(batch.values)
            ready, problem = schemas.prepare(batch)
            self._waiting.pop(partition, None)
            if ready == count:
                decodable.append(batch)
                continue
            offset = batch.offsets[ready]
            try:
                member.seek({partition: offset})
            except KafkaError:
                # The owner has the positions of what was delivered.
                self._rejoin(member)
                return []
            if ready:
                decodable.append(batch.piece(0, ready, offset))
            if problem is not None:
                self._waiting[partition] = problem
        self._waiting = {log: why for log, why in self._waiting.items() if log in member.positions}
        self._pause(member)
        return decodable

    def _pause(self, member: GroupMember) -> None:
        waits = self._schemas is not None and self._schemas.resting
        member.pause(self._paused.union(self._waiting if waits else ()))

    def _recover_from_stalls(self, member: GroupMember) -> None:
        monitor = self._monitor
        idle = member.paused.union(self._waiting)
        reading = {p: at for p, at in member.positions.items() if p not in idle}
        stall = self._watchdog.check(reading, monitor.ends, answers=monitor.answers)
        if stall is None:
            return
        where = ", ".join(f"{p} at {offset}" for p, offset in sorted(stall.positions.items()))
        if stall.remedy == "give up":
            problem = f"no progress for {self._timeout:g} s at {where}, although records wait"
            remedy = "check the broker's log, then restart; seeking and rejoining did not help"
            raise SourceError("kafka", problem, remedy)
        self._recoveries[stall.remedy] += 1
        _LOG.warning("no records from Kafka after %s; trying: %s", where, stall.remedy)
        if stall.remedy == "seek":
            # The next remedy follows if it cannot seek.
            with suppress(KafkaError):
                member.seek(stall.positions)
        else:
            self._rejoin(member)

    def _rejoin(self, member: GroupMember) -> None:
        self._owner.revoked(sorted(member.positions))
        self._leave()

    def _attempt(self, request: Callable[[], T], seconds: float) -> T | None:
        """The result of a request; None after a temporary error, which `problem` describes."""
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


def _subscriber(
    client: str, config: Mapping[str, Any]
) -> Callable[[Sequence[str], GroupMember, ClusterMonitor], Consumer]:
    """A function that creates a consumer of the configured client."""
    if client == KAFKA_PYTHON:
        return partial(KafkaPythonConsumer, config)
    with imports_of(_FAST, "fast"):
        from streameval.sources.kafka import confluent  # noqa: PLC0415  needs an extra
    return partial(confluent.ConfluentConsumer, confluent.librdkafka_config(config), config)


def try_connection(options: KafkaOptions, config: Mapping[str, Any]) -> None:
    """Let the configured client connect once, with the settings of a reader."""
    if client_of(options) == KAFKA_PYTHON:
        connect(KafkaConsumer, config).close(autocommit=False)
        return
    with imports_of(_FAST, "fast"):
        from streameval.sources.kafka import confluent  # noqa: PLC0415  needs an extra
    named = {**config, "group_id": options.group}
    confluent.connect_once(confluent.librdkafka_config(named))


class Stall(NamedTuple):
    """Stalled partitions, and the remedy to try next.

    Attributes:
        remedy: seek to the position again, rejoin the group, or give up.
        positions: stalled partition -> position.
    """

    remedy: Remedy
    positions: Mapping[Partition, int]


class _Stalled(NamedTuple):
    position: int
    seconds: float
    tried: int


class Watchdog:
    """Detects partitions that do not advance although records wait.

    Only time counts during which the broker answers and checks are made. Time and remedies of a
    partition start over when it advances or reaches its end, but not when it is revoked for a while
    (rejoining).

    `timeout`: seconds without progress before the next remedy; above 0.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._looked_at = clock()
        self._stalled: dict[Partition, _Stalled] = {}

    def check(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], *, answers: bool
    ) -> Stall | None:
        """The stall to act on, or None.

        `answers`: whether the broker answered the last query.
        """
        now = self._clock()
        step = min(now - self._looked_at, _LONGEST_STEP) if answers else 0.0
        self._looked_at = now
        for partition, position in positions.items():
            before = self._stalled.pop(partition, None)
            if ends.get(partition, 0) <= position:
                continue
            if before is None or position > before.position:
                self._stalled[partition] = _Stalled(position, 0.0, 0)
            else:
                self._stalled[partition] = before._replace(seconds=before.seconds + step)
        ours = {p: stalled for p, stalled in self._stalled.items() if p in positions}
        due = {p: our for p, our in ours.items() if our.seconds >= self._timeout}
        if not due:
            return None
        # The strongest remedy that is due; the time of each partition then starts over.
        tried = max(stalled.tried for stalled in due.values())
        for partition, stalled in due.items():
            self._stalled[partition] = stalled._replace(seconds=0.0, tried=tried + 1)
        remedy = _REMEDIES[min(tried, len(_REMEDIES) - 1)]
        return Stall(remedy, {p: stalled.position for p, stalled in due.items()})
