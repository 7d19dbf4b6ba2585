"""Facts of a Kafka cluster: topics, partitions, offsets, and where reading starts.

Functions raise KafkaError where the broker does not answer or does not allow it, and SourceError
where a topic is not there or an offset lies outside its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import IsolationLevel

from streameval.errors import SourceError
from streameval.events.records import Assignment, Owner, Partition
from streameval.sources.kafka.client import connect
from streameval.sources.options import EARLIEST, LATEST


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """One answer about the topics asked for.

    Attributes:
        identities: topic -> the id that it got when it was made.
        refused: topic -> why nothing can be said of it.
    """

    partitions: Sequence[Partition]
    identities: Mapping[str, str]
    missing: Sequence[str]
    refused: Mapping[str, str]

    @property
    def trouble(self) -> str | None:
        """One sentence while not all topics can be read, else None."""
        if self.missing:
            names = " and ".join(map(repr, self.missing))
            return f"no topic {names} on this cluster yet; still looking."
        if self.refused:
            reasons = ", ".join(f"{name!r} ({why})" for name, why in self.refused.items())
            return f"Kafka says nothing of topic {reasons}; still trying."
        return None

    def require(self, names: Sequence[str]) -> None:
        """Raise a SourceError where one of these is missing, or any may not be read."""
        for name in self.missing:
            if name in names:
                remedy = "create it, or correct [source] topics"
                raise SourceError(f"topic {name!r}", "there is none on this cluster", remedy)
        for name, why in self.refused.items():
            raise SourceError(f"topic {name!r}", f"Kafka says {why}", "allow this user to read it")


class Cluster:
    """A connection that only asks; each question takes a request or two."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._admin = connect(KafkaAdminClient, config)

    def topics(self, names: Sequence[str]) -> Topics:
        """Facts of these topics."""
        described = self._admin.describe_topics(list(names))
        errors = {topic["name"]: for_code(topic["error_code"]) for topic in described}
        found = [topic for topic in described if errors[topic["name"]] is NoError]
        return Topics(
            partitions=sorted(_partitions(found)),
            identities={topic["name"]: str(topic.get("topic_id")) for topic in found},
            missing=[name for name, kind in errors.items() if kind is UnknownTopicOrPartitionError],
            refused=_refused(errors),
        )

    def identity(self) -> str:
        """The id that the cluster got when it was made."""
        return str(self._admin.describe_cluster()["cluster_id"])

    def offsets(self, partitions: Collection[Partition], spec: int) -> dict[Partition, int]:
        """The offset that `spec` means in each partition: EARLIEST, LATEST or milliseconds.

        The end is that of the committed records: where the first open transaction begins. For a
        time it is the first record at or after it, or -1 where there is none.
        """
        asked = {TopicPartition(*partition): spec for partition in partitions}
        if not asked:
            return {}
        found = self._admin.list_partition_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {Partition(*partition): answer.offset for partition, answer in found.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """What the group has committed; partitions without a commit are left out."""
        asked = [TopicPartition(*partition) for partition in partitions]
        found = self._admin.list_group_offsets({group: asked})[group] if asked else {}
        return {Partition(*each): at.offset for each, at in found.items() if at.offset >= 0}

    def member_id(self, group: str, instance: str) -> str:
        """The id of the group's static member of this name; empty where there is none."""
        members = self._admin.describe_groups([group])[group]["members"]
        found = [each["member_id"] for each in members if each["group_instance_id"] == instance]
        return str(found[0]) if found else ""

    def create(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> bool:
        """Make a topic; whether it was missing."""
        wanted = {"num_partitions": partitions, "configs": dict(settings or {})}
        try:
            self._admin.create_topics({topic: wanted}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
        return True

    def setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic; None where there is none, or this user may not describe it."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        try:
            found = self._admin.describe_configs(asked, config_filter="all")
        except AuthorizationError:
            return None
        value = found.get("topic", {}).get(topic, {}).get(name, {}).get("value")
        return None if value is None else str(value)

    def close(self) -> None:
        """Let go of the connection."""
        self._admin.close()


def _partitions(topics: Sequence[Mapping[str, Any]]) -> list[Partition]:
    return [
        Partition(topic["name"], partition["partition_index"])
        for topic in topics
        for partition in topic["partitions"]
    ]


def _refused(errors: Mapping[str, type[KafkaError]]) -> dict[str, str]:
    expected = (NoError, UnknownTopicOrPartitionError)
    return {name: kind.__name__ for name, kind in errors.items() if kind not in expected}


def described(
    cluster: Cluster,
    partitions: Sequence[Partition],
    start: int,
    *,
    first: Collection[Partition],
    group: str,
) -> list[Assignment]:
    """Assigned partitions, as the cluster knows them now.

    `start`: EARLIEST, LATEST, or milliseconds since the epoch. `first`: partitions that existed
    when the source was opened; the others are new as a whole, so that even "latest" means their
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
    """Hand partitions to their owner; where it starts each, checked against its log."""
    if not given:
        return {}
    found = owner.assigned(given)
    starts = {each.partition: found[each.partition] for each in given if each.partition in found}
    for each in given:
        if each.partition in starts:
            _require_within(each, starts[each.partition])
    return starts


def _require_within(log: Assignment, offset: int) -> None:
    where = f"reading was to go on at offset {offset}, but"
    if offset < log.begin:
        lost = log.begin - offset
        raise SourceError(
            str(log.partition),
            f"{where} the topic now begins at {log.begin}: {lost} were deleted unread",
            "start anew where `start` says, and give the topic a longer retention",
        )
    if offset > log.end:
        raise SourceError(
            str(log.partition),
            f"{where} the topic ends at {log.end}",
            "it was made again, or lost records; start anew where `start` says",
        )


def _require_known(topics: Topics, partitions: Collection[Partition]) -> None:
    unknown = sorted(set(partitions) - set(topics.partitions))
    if unknown:
        problem = "was assigned to us, but the cluster does not know it"
        raise SourceError(
            str(unknown[0]), problem, "its topic was deleted; restart when it is back"
        )
