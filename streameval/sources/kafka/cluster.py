"""Connections to a Kafka cluster, queries over them, and the thread that repeats the queries.

Functions raise KafkaError if the broker does not answer or denies access, and SourceError if a
topic is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from traceback import clear_frames
from typing import Any, Final

import msgspec
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NoError,
    RetriableError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import HeartbeatRequest, IsolationLevel

from streameval.events.errors import SourceError
from streameval.events.records import Partition
from streameval.events.secrets import Latest
from streameval.sources.kafka.client_settings import CREDENTIALS, addresses, known_settings
from streameval.sources.kafka.diagnosis import (
    FAILURE_REASONS,
    SETTINGS_ERRORS,
    failure_of,
    settings_error,
)
from streameval.sources.settings import LATEST

_PAUSE_SECONDS: Final = 1.0
_FIRST_TIMEOUT_MS: Final = 1_000
_LAST_TIMEOUT_MS: Final = 8_000
ANSWER_MS: Final = 5_000
"""Time limit of a request of the monitor; the reader itself waits as configured."""

_CREATE: Final = "create it, or correct [source] topics"
_ALLOW: Final = "allow this user to read it"
_SILENT: Final = logging.CRITICAL + 1


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # untyped
    """The connections of one client; each authenticates with the current credentials.

    Attributes:
        fenced: whether the broker has reported that another member uses our name. The client itself
            only stops its heartbeats silently, and notices at its next commit.
        unanswered: True if a heartbeat waits for its answer.
        refusal: the last error with which the broker refused a connection, or None.
    """

    config: Mapping[str, Any]

    def __init__(self, net: Any, **settings: Any) -> None:
        self.fenced = self.unanswered = False
        self.refusal: Exception | None = None
        self._tried: dict[Any, Sequence[Any]] = {}
        super().__init__(net, **settings)
        self.config = Latest(self.config)

    def get_connection(self, node_id: Any, *args: Any, **settings: Any) -> Any:
        """Let the connection read credentials again, and free its socket when it fails."""
        connection = super().get_connection(node_id, *args, **settings)
        if not isinstance(connection.config, Latest):
            self._tried[node_id] = self._current
            # A broker may ask for re-authentication, when the credentials may have changed.
            connection.config = Latest(connection.config)
            connection.close_future.add_errback(partial(self._note_end, connection))
        return connection

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Try again after a failed authentication if the credentials have changed."""
        if self._tried.get(node_id) == self._current:
            super().maybe_raise_auth_failure(node_id)

    def send(
        self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None
    ) -> Any:
        """Send, and record whether heartbeats have an answer, and whether it is "fenced"."""
        answer = super().send(request, node_id, request_timeout_ms)
        if isinstance(request, HeartbeatRequest):
            self.unanswered = True
            answer.add_both(self._note_answer)
        return answer

    @property
    def _current(self) -> Sequence[Any]:
        return [self.config[key] for key in CREDENTIALS]

    def _note_end(self, connection: Any, error: Exception) -> None:
        # The frames of a failed attempt hold its socket.
        clear_frames(error.__traceback__)
        authenticating = connection.sasl_enabled and connection.broker_version_data is not None
        # A broker may close the connection before its answer is read.
        closed = type(error) is KafkaConnectionError and not connection.init_future.succeeded()
        if authenticating and closed:
            self.refusal = SaslAuthenticationFailedError(str(error))
        elif not isinstance(error, RetriableError | KafkaProtocolError):
            self.refusal = error

    def _note_answer(self, answer: Any) -> None:
        self.unanswered = False
        if getattr(answer, "error_code", None) == FencedInstanceIdError.errno:
            self.fenced = True


def connect(kind: Any, config: Mapping[str, Any]) -> Any:
    """A connected client of `kind` (KafkaConsumer, KafkaAdminClient, KafkaProducer).

    `config`: its settings; settings of other kinds of clients are ignored.

    Raises:
        KafkaError: no broker answered, or one rejected the authentication; all threads and sockets
            of the attempt are closed. `failure_of` explains it.
    """
    return connect_watched(kind, config)[0]


def connect_watched(kind: Any, config: Mapping[str, Any]) -> tuple[Any, Connections]:
    """`connect`, which also returns the client's connections, with the cluster's metadata."""
    # The client logs ten lines a second while a broker is unreachable; users find the reason in
    # `SourceStatus.problem`. A level that was set for its logger stays.
    log = logging.getLogger("kafka")
    log.setLevel(log.level or _SILENT)
    made: list[tuple[Any, Connections]] = []

    def network(**settings: Any) -> Any:
        selector = NetworkSelector(**settings)
        connections = Connections(selector, **settings)
        client = kind.DEFAULT_CONFIG["kafka_client"]
        made.append((client(net=selector, manager=connections, **settings), connections))
        return made[-1][0]

    try:
        return kind(**known_settings(config, kind), kafka_client=network), made[0][1]
    except BaseException as error:
        refusals = [connections.refusal for _, connections in made]
        for client, _ in made:
            client.close()
        if isinstance(error, KafkaTimeoutError) and any(refusals):
            raise next(filter(None, refusals)) from error
        raise


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """An answer about some topics.

    Attributes:
        identities: topic -> id that Kafka gave it when it was created.
        refused: topic -> Kafka's error.
        operations: topic, even a missing one -> Kafka's names of the operations that this user may
            do; without the topics for which Kafka does not tell.
    """

    partitions: Sequence[Partition]
    identities: Mapping[str, str]
    missing: Sequence[str]
    refused: Mapping[str, str]
    operations: Mapping[str, Collection[str]] = {}

    @property
    def problem(self) -> str | None:
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
        described = {topic["name"]: topic for topic in self._admin.describe_topics(list(names))}
        errors = {name: for_code(topic["error_code"]) for name, topic in described.items()}
        answered = [name for name, kind in errors.items() if kind is NoError]
        missing = [name for name, kind in errors.items() if kind is UnknownTopicOrPartitionError]
        operations = {name: topic.get("authorized_operations") for name, topic in described.items()}
        return Topics(
            partitions=sorted(
                Partition(name, partition["partition_index"])
                for name in answered
                for partition in described[name]["partitions"]
            ),
            identities={name: str(described[name].get("topic_id")) for name in answered},
            missing=missing,
            refused={
                name: kind.__name__
                for name, kind in errors.items()
                if name not in answered and name not in missing
            },
            operations={name: may for name, may in operations.items() if may is not None},
        )

    def identity(self) -> str:
        """The id of the cluster."""
        return str(self._admin.describe_cluster()["cluster_id"])

    def offsets(self, partitions: Collection[Partition], spec: int) -> dict[Partition, int]:
        """The offset of `spec` (EARLIEST, LATEST or milliseconds) in each partition.

        LATEST is the end of the committed records, where the first open transaction begins. For
        milliseconds it is the first record at or after that time, or -1 if there is none.
        """
        specs = {TopicPartition(*partition): spec for partition in partitions}
        if not specs:
            return {}
        answers = self._admin.list_partition_offsets(
            specs, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {Partition(*partition): answer.offset for partition, answer in answers.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The committed offsets of the group; partitions without a commit are left out."""
        logs = [TopicPartition(*partition) for partition in partitions]
        answers = self._admin.list_group_offsets({group: logs})[group] if logs else {}
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
        """True if this user may create a missing topic; it is not created."""
        try:
            self._admin.create_topics([topic], validate_only=True)
        except AuthorizationError:
            return False
        return True

    def may_join(self, group: str) -> bool:
        """True if this user may join a group and commit, which is one right.

        Asked by the heartbeat of a member that the group does not have: each broker first checks
        the right, also for a group that does not exist, and then refuses the member.
        """
        heartbeat = HeartbeatRequest(group_id=group, generation_id=-1, member_id="check")
        answer = self._connections.run(self._connections.send, heartbeat)
        return for_code(answer.error_code) is not GroupAuthorizationFailedError

    def setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic; None if it is not set, or this user may not describe it."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        try:
            configs = self._admin.describe_configs(resources, config_filter="all")
        except AuthorizationError:
            return None
        value = configs.get("topic", {}).get(topic, {}).get(name, {}).get("value")
        return None if value is None else str(value)

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


class ClusterMonitor:
    """A thread that queries the cluster once a second over a separate connection.

    The source learns of end offsets, new partitions and problems without waiting for an answer.
    Each attribute except the counts is replaced, never changed in place.

    Attributes:
        partitions: all partitions seen so far.
        first: the partitions at the first answer.
        ends: partition -> offset after its last committed record, as last known.
        problem: one sentence while the cluster cannot be read completely, else None.
        failure: an error that waiting will not fix, else None.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any]) -> None:
        self._topics = topics
        self._config = config
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._patient = False
        self._first_answer = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-monitor", daemon=True)
        self.cluster = ""
        self.ready = False
        self.partitions: frozenset[Partition] = frozenset()
        self.first: frozenset[Partition] = frozenset()
        self.ends: Mapping[Partition, int] = {}
        self.answers = False
        self.problem: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failures: dict[str, int] = dict.fromkeys(FAILURE_REASONS, 0)
        self.failure: SourceError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait_for_partitions(self, seconds: float) -> None:
        """Wait up to `seconds` for partitions or a failure."""
        if not self.partitions:
            self._first_answer.wait(seconds)

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
            self.failure = error
            self._first_answer.set()
        except SETTINGS_ERRORS as error:
            self.failure = settings_error(error, self._config)
            self._first_answer.set()
        except Exception as error:  # noqa: BLE001  the monitor must survive any error
            self.answers = False
            connecting = self._cluster is None
            self._disconnect()
            failure = failure_of(error, self._config)
            if failure.reason == "silent" and connecting and not self._patient:
                # Only an attempt with more time tells silent from slow and from a refusal.
                self._patient = True
                return
            self.failures[failure.reason] += 1
            self.problem = f"{failure}; still trying."

    def _refresh(self) -> None:
        if self._cluster is None:
            timeout = _LAST_TIMEOUT_MS if self._patient else _FIRST_TIMEOUT_MS
            limits = {"bootstrap_timeout_ms": timeout, "request_timeout_ms": ANSWER_MS}
            self._cluster = Cluster({**self._config, **limits})
        cluster = self._cluster
        self.cluster = self.cluster or cluster.identity()
        topics = cluster.topics(self._topics)
        for name, identity in topics.identities.items():
            if self._identities.setdefault(name, identity) != identity:
                remedy = "restart; its offsets begin at 0 again"
                raise SourceError(name, "was deleted and recreated", remedy)
        self.ends = cluster.offsets(topics.partitions, LATEST)
        if not self.ready:
            self.first = frozenset(topics.partitions)
        if not self.partitions.issuperset(topics.partitions):
            self.partitions |= frozenset(topics.partitions)
        self.problem = topics.problem
        self.ready = self.answers = True
        if self.partitions:
            self._first_answer.set()

    def _disconnect(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
