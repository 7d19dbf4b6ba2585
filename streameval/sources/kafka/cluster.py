"""Queries of a Kafka cluster: topics, partitions, offsets, and start positions.

Functions raise KafkaError if the broker does not answer or denies access, and SourceError if a
topic is missing or an offset lies outside its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

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

from streameval.errors import SourceError
from streameval.events.records import Assignment, Owner, Partition
from streameval.sources.kafka.client import connect_watched
from streameval.sources.options import EARLIEST, LATEST

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
        found = [topic for topic in described if errors[topic["name"]] is NoError]
        return Topics(
            partitions=sorted(_partitions(found)),
            identities={topic["name"]: str(topic.get("topic_id")) for topic in found},
            missing=[name for name, kind in errors.items() if kind is UnknownTopicOrPartitionError],
            refused=_refused(errors),
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
        found = self._admin.list_partition_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {Partition(*partition): answer.offset for partition, answer in found.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The committed offsets of the group; partitions without a commit are left out."""
        asked = [TopicPartition(*partition) for partition in partitions]
        found = self._admin.list_group_offsets({group: asked})[group] if asked else {}
        return {Partition(*each): at.offset for each, at in found.items() if at.offset >= 0}

    def member_id(self, group: str, instance: str) -> str:
        """The id of the group's static member of this name; empty if there is none."""
        members = self._admin.describe_groups([group])[group]["members"]
        found = [each["member_id"] for each in members if each["group_instance_id"] == instance]
        return str(found[0]) if found else ""

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
            found = self._admin.describe_configs(asked, config_filter="all")
        except AuthorizationError:
            return None
        value = found.get("topic", {}).get(topic, {}).get(name, {}).get("value")
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


def _refused(errors: Mapping[str, type[KafkaError]]) -> dict[str, str]:
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
    found = owner.assigned(given)
    starts = {each.partition: found[each.partition] for each in given if each.partition in found}
    for each in given:
        if each.partition in starts:
            _require_within(each, starts[each.partition])
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
