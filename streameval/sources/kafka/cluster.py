"""Queries of a Kafka cluster over connections of their own, and the thread that repeats them.

Functions raise KafkaError if the broker does not answer or denies access, and SourceError if a
topic is missing or an offset lies outside its log.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import msgspec
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    GroupAuthorizationFailedError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import HeartbeatRequest, IsolationLevel

from streameval.events.errors import SourceError
from streameval.events.records import Assignment, Owner, Partition
from streameval.sources.kafka.diagnosis import (
    REASONS,
    SETTINGS_ERRORS,
    addresses,
    as_source_errors,
    failure_of,
    settings_error,
    silence_client_log,
)
from streameval.sources.kafka.kafka_python import connect_watched
from streameval.sources.kafka.settings import group_config, source_topics
from streameval.sources.options import EARLIEST, LATEST, KafkaOptions

_PAUSE_SECONDS: Final = 1.0
_FIRST_TIMEOUT_MS: Final = 1_000
_LAST_TIMEOUT_MS: Final = 8_000
ANSWER_MS: Final = 5_000
"""Time limit of a request of the monitor; the reader itself waits as configured."""

_CREATE: Final = "create it, or correct [source] topics"
_ALLOW: Final = "allow this user to read it"


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """An answer about some topics.

    Attributes:
        identities: topic -> id that Kafka gave it when it was created.
        refused: topic -> Kafka's error.
        operations: topic -> what this user may do with it, by Kafka's names, also with a missing
            topic; topics for which Kafka does not tell are left out.
    """

    partitions: Sequence[Partition]
    identities: Mapping[str, str]
    missing: Sequence[str]
    refused: Mapping[str, str]
    operations: Mapping[str, Collection[str]] = {}

    @property
    def trouble(self) -> str | None:
        """One sentence while not all topics can be read, else None."""
        if self.missing:
            names = " and ".join(map(repr, self.missing))
            return f"no topic {names} on this cluster; {_CREATE}; still looking."
        if self.refused:
            reasons = ", ".join(f"{name!r} ({why})" for name, why in self.refused.items())
            return f"Kafka does not describe topic {reasons}; {_ALLOW}; still trying."
        return None

    def require(self, names: Sequence[str]) -> None:
        """Raise a SourceError if one of these topics is missing, or any cannot be described."""
        for name in self.missing:
            if name in names:
                raise SourceError(f"topic {name!r}", "not found on this cluster", _CREATE)
        for name, why in self.refused.items():
            raise SourceError(f"topic {name!r}", f"Kafka says {why}", _ALLOW)


class Cluster:
    """An admin connection; each query takes one or two requests."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._admin, self._connections = connect_watched(KafkaAdminClient, config)

    def topics(self, names: Sequence[str]) -> Topics:
        """Describe these topics."""
        described = self._admin.describe_topics(list(names))
        errors = {topic["name"]: for_code(topic["error_code"]) for topic in described}
        answered = [topic for topic in described if errors[topic["name"]] is NoError]
        return Topics(
            partitions=sorted(_partitions(answered)),
            identities={topic["name"]: str(topic.get("topic_id")) for topic in answered},
            missing=[name for name, kind in errors.items() if kind is UnknownTopicOrPartitionError],
            refused=_refusal(errors),
            operations=_operations(described),
        )

    def identity(self) -> str:
        """The id of the cluster."""
        return str(self._admin.describe_cluster()["cluster_id"])

    def offsets(self, partitions: Collection[Partition], spec: int) -> dict[Partition, int]:
        """The offset of `spec` (EARLIEST, LATEST or milliseconds) in each partition.

        LATEST is the end of the committed records, where the first open transaction begins. For
        milliseconds it is the first record at or after that time, or -1 if there is none.
        """
        asked = {TopicPartition(*partition): spec for partition in partitions}
        if not asked:
            return {}
        answers = self._admin.list_partition_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {Partition(*partition): answer.offset for partition, answer in answers.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The committed offsets of the group; partitions without a commit are left out."""
        asked = [TopicPartition(*partition) for partition in partitions]
        answers = self._admin.list_group_offsets({group: asked})[group] if asked else {}
        return {
            Partition(*partition): at.offset for partition, at in answers.items() if at.offset >= 0
        }

    def member_id(self, group: str, instance: str) -> str:
        """The id of the group's static member of this name; empty if there is none."""
        members = self._admin.describe_groups([group])[group]["members"]
        ids_of_member = [
            member["member_id"] for member in members if member["group_instance_id"] == instance
        ]
        return str(ids_of_member[0]) if ids_of_member else ""

    def create(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> bool:
        """Create a topic if it is missing; returns whether it was."""
        new = {"num_partitions": partitions, "configs": dict(settings or {})}
        try:
            self._admin.create_topics({topic: new}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
        return True

    def may_create(self, topic: str) -> bool:
        """Whether this user may create a missing topic; it is not created."""
        try:
            self._admin.create_topics([topic], validate_only=True)
        except AuthorizationError:
            return False
        return True

    def may_join(self, group: str) -> bool:
        """Whether this user may join a group and commit, which is one right.

        Asked by the heartbeat of a member that the group does not have: each broker first checks
        the right, also for a group that does not exist, and then refuses the member.
        """
        heartbeat = HeartbeatRequest(group_id=group, generation_id=-1, member_id="check")
        answer = self._connections.run(self._connections.send, heartbeat)
        return for_code(answer.error_code) is not GroupAuthorizationFailedError

    def setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic; None if it is not set, or this user may not describe it."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        try:
            configs = self._admin.describe_configs(asked, config_filter="all")
        except AuthorizationError:
            return None
        value = configs.get("topic", {}).get(topic, {}).get(name, {}).get("value")
        return None if value is None else str(value)

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


def _partitions(topics: Sequence[Mapping[str, Any]]) -> list[Partition]:
    return [
        Partition(topic["name"], partition["partition_index"])
        for topic in topics
        for partition in topic["partitions"]
    ]


def _operations(topics: Sequence[Mapping[str, Any]]) -> dict[str, Collection[str]]:
    allowed = {topic["name"]: topic.get("authorized_operations") for topic in topics}
    return {name: operations for name, operations in allowed.items() if operations is not None}


def _refusal(errors: Mapping[str, type[KafkaError]]) -> dict[str, str]:
    expected = (NoError, UnknownTopicOrPartitionError)
    return {name: kind.__name__ for name, kind in errors.items() if kind not in expected}


def assignments_of(
    cluster: Cluster,
    partitions: Sequence[Partition],
    start: int,
    *,
    first: Collection[Partition],
    group: str,
) -> list[Assignment]:
    """Assignments of partitions with the cluster's current offsets.

    `start`: EARLIEST, LATEST, or milliseconds since the epoch. `first`: partitions that existed
    when the source was opened; all records of the others are new, so even "latest" starts at their
    beginning.
    """
    topics = cluster.topics(sorted({partition.topic for partition in partitions}))
    _require_known(topics, partitions)
    begins = cluster.offsets(partitions, EARLIEST)
    ends = cluster.offsets(partitions, LATEST)
    at = begins if start == EARLIEST else cluster.offsets(partitions, start)
    starts = {p: ends[p] if at[p] < 0 else at[p] for p in partitions}
    if start == LATEST:
        starts |= {p: begins[p] for p in partitions if p not in first}
    committed = cluster.committed(group, partitions)
    count = Counter(partition.topic for partition in topics.partitions)
    return [
        Assignment(
            partition=partition,
            identity=topics.identities[partition.topic],
            begin=begins[partition],
            end=ends[partition],
            start=starts[partition],
            committed=committed.get(partition),
            partitions=count[partition.topic],
        )
        for partition in partitions
    ]


def start_offsets(owner: Owner, given: Sequence[Assignment]) -> dict[Partition, int]:
    """Hand partitions to their owner; its start offsets, checked against the logs."""
    if not given:
        return {}
    positions = owner.assigned(given)
    starts = {
        assignment.partition: positions[assignment.partition]
        for assignment in given
        if assignment.partition in positions
    }
    for assignment in given:
        if assignment.partition in starts:
            _require_within(assignment, starts[assignment.partition])
    return starts


def _require_within(log: Assignment, offset: int) -> None:
    where = f"the next offset to read is {offset}, but"
    if offset < log.begin:
        lost = log.begin - offset
        raise SourceError(
            str(log.partition),
            f"{where} the topic now begins at {log.begin}: {lost} records were deleted unread",
            "restart from `start`, and give the topic a longer retention",
        )
    if offset > log.end:
        raise SourceError(
            str(log.partition),
            f"{where} the topic ends at {log.end}",
            "it was recreated, or lost records; restart from `start`",
        )


def _require_known(topics: Topics, partitions: Collection[Partition]) -> None:
    unknown = sorted(set(partitions) - set(topics.partitions))
    if unknown:
        problem = "is assigned to this process, but the cluster does not know it"
        raise SourceError(
            str(unknown[0]), problem, "its topic was deleted; restart when it exists again"
        )


class ClusterMonitor:
    """A thread that queries the cluster once a second over a separate connection.

    The source learns of end offsets, new partitions and trouble without waiting for an answer. Each
    attribute except the counts is replaced as a whole, never changed in place.

    Attributes:
        partitions: all partitions seen so far.
        first: the partitions at the first answer.
        ends: partition -> offset after its last committed record, as last known.
        trouble: one sentence while the cluster cannot be read completely, else None.
        failure: an error that waiting will not fix, else None.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any]) -> None:
        self._topics = topics
        self._config = config
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._timeout_ms = _FIRST_TIMEOUT_MS
        self._found = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-monitor", daemon=True)
        self.cluster = ""
        self.ready = False
        self.partitions: frozenset[Partition] = frozenset()
        self.first: frozenset[Partition] = frozenset()
        self.ends: Mapping[Partition, int] = {}
        self.answers = False
        self.trouble: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failures: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.failure: SourceError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait_for_partitions(self, seconds: float) -> None:
        """Wait up to `seconds` for partitions or a failure."""
        if not self.partitions:
            self._found.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until `stop`."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop the thread; a pending attempt to connect ends soon after."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            self._run_once()
            self._stopping.wait(_PAUSE_SECONDS)
        self._disconnect()

    def _run_once(self) -> None:
        try:
            self._refresh()
        except SourceError as error:
            self._fail(error)
        except SETTINGS_ERRORS as error:
            self._fail(settings_error(error, self._config))
        except Exception as error:  # noqa: BLE001  the monitor must survive any error
            self.answers = False
            failure = failure_of(error, self._config)
            if failure.reason == "slow" and self._timeout_ms < _LAST_TIMEOUT_MS:
                # Only an attempt with more time shows what fails.
                self._timeout_ms = max(self._timeout_ms, 2 * _FIRST_TIMEOUT_MS)
                self._disconnect()
                return
            self.failures[failure.reason] += 1
            self.trouble = f"{failure}; still trying."
            self._disconnect()

    def _refresh(self) -> None:
        cluster = self._cluster or self._connect()
        self.cluster = self.cluster or cluster.identity()
        topics = cluster.topics(self._topics)
        self._refuse_recreated(topics)
        self.ends = cluster.offsets(topics.partitions, LATEST)
        if not self.ready:
            self.first = frozenset(topics.partitions)
        if not self.partitions.issuperset(topics.partitions):
            self.partitions |= frozenset(topics.partitions)
        self.trouble = topics.trouble
        self.ready = self.answers = True
        if self.partitions:
            self._found.set()

    def _connect(self) -> Cluster:
        """A new connection; the timeout doubles with each attempt, for a slow network."""
        timeout = self._timeout_ms
        self._timeout_ms = min(2 * timeout, _LAST_TIMEOUT_MS)
        limits = {"bootstrap_timeout_ms": timeout, "request_timeout_ms": ANSWER_MS}
        self._cluster = Cluster({**self._config, **limits})
        return self._cluster

    def _disconnect(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _refuse_recreated(self, topics: Topics) -> None:
        for name, identity in topics.identities.items():
            if self._identities.setdefault(name, identity) != identity:
                raise SourceError(
                    name, "was deleted and recreated", "restart; its offsets begin at 0 again"
                )

    def _fail(self, error: SourceError) -> None:
        self.failure = error
        self._found.set()


class Right(NamedTuple):
    """A right that the daemon needs.

    Attributes:
        where: the topic or group.
        action: what the daemon does there, after "may".
        remedy: what to do if the right is missing.
        granted: None if Kafka does not tell.
    """

    where: str
    action: str
    remedy: str
    granted: bool | None

    def require(self) -> str:
        """The right in words.

        Raises:
            SourceError: it is missing.
        """
        if self.granted is None:
            return f"perhaps to {self.action} {self.where}: this Kafka does not tell"
        if not self.granted:
            raise SourceError(self.where, f"this user may not {self.action} it", self.remedy)
        return f"to {self.action} {self.where}"


def rights(
    options: KafkaOptions,
    environment: Mapping[str, str],
    letters: Sequence[str],
    *,
    shared: bool,
) -> list[Right]:
    """The rights to read, to commit and to write dead letters; nothing is written.

    `letters`: topics of dead letters. `shared`: as of KafkaSource.
    """
    names, config = source_topics(options), group_config(options, environment, shared=shared)
    silence_client_log()
    with as_source_errors(config), closing(Cluster(config)) as cluster:
        topics = cluster.topics([*names, *letters])
        checked = [_right(topics, name, "read", "Read") for name in names]
        checked.append(_right_to_join(cluster, config["group_id"], options.group))
        for name in letters:
            checked += _rights_to_write(cluster, topics, name)
    return checked


def _right(topics: Topics, name: str, action: str, operation: str) -> Right:
    granted: bool | None = name not in topics.refused
    if granted:
        operations = topics.operations.get(name)
        granted = None if operations is None else operation.upper() in operations
    return Right(f"topic {name!r}", action, f"allow {operation} on this topic", granted)


def _right_to_join(cluster: Cluster, group: str, prefix: str) -> Right:
    remedy = f"allow Read on the group {group!r}"
    if group != prefix:
        remedy = f"allow Read on groups with the prefix '{prefix}-', or configure [state]"
    return Right(f"group {group!r}", "join and commit to", remedy, cluster.may_join(group))


def _rights_to_write(cluster: Cluster, topics: Topics, name: str) -> Iterator[Right]:
    yield _right(topics, name, "write dead letters to", "Write")
    if name in topics.missing:
        remedy = "create the topic, or allow Create on it"
        yield Right(f"topic {name!r}", "create", remedy, cluster.may_create(name))
