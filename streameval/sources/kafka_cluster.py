"""What a Kafka cluster says about topics: partitions, and offsets in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import (
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import IsolationLevel

from streameval.records import Partition
from streameval.sources.kafka_client import connect


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """One answer about the topics asked for.

    Attributes:
        partitions: of all topics that exist, in order.
        identities: topic -> the id that it got when it was made.
        missing: names of topics that do not exist.
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


class Cluster:
    """A connection that only asks; each question takes a request or two.

    Args:
        config: settings of the client.

    Raises:
        KafkaError: no broker answers.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._admin = connect(KafkaAdminClient, config)

    def topics(self, names: Sequence[str]) -> Topics:
        """What is known of these topics.

        Raises:
            KafkaError: the broker does not answer.
        """
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
        """The id that the cluster got when it was made.

        Raises:
            KafkaError: the broker does not answer.
        """
        return str(self._admin.describe_cluster()["cluster_id"])

    def offsets(self, partitions: Collection[Partition], spec: int) -> dict[Partition, int]:
        """The offset that `spec` means in each partition: EARLIEST, LATEST or milliseconds.

        The end is that of the committed records: where the first open transaction begins. For a
        time it is the first record at or after it, or -1 where there is none.

        Raises:
            KafkaError: the broker does not answer, or a partition has no leader.
        """
        asked = {TopicPartition(*partition): spec for partition in partitions}
        if not asked:
            return {}
        found = self._admin.list_partition_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {Partition(*partition): answer.offset for partition, answer in found.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """What the group has committed; partitions without a commit are left out.

        Raises:
            KafkaError: the broker does not answer, or does not allow it.
        """
        asked = [TopicPartition(*partition) for partition in partitions]
        found = self._admin.list_group_offsets({group: asked})[group] if asked else {}
        return {Partition(*each): at.offset for each, at in found.items() if at.offset >= 0}

    def ensure(self, topic: str, partitions: int) -> bool:
        """Make the topic where it is missing; returns whether it was.

        Raises:
            KafkaError: the broker does not answer, or does not allow it.
        """
        if not self.topics([topic]).missing:
            return False
        try:
            self._admin.create_topics(
                {topic: {"num_partitions": partitions}}, wait_for_metadata=True
            )
        except TopicAlreadyExistsError:
            return False
        return True

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
