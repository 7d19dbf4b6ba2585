"""Making the topic that takes dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from streameval.sources.kafka.client import connect

ROOM: Final = 8 * 1024
"""Bytes that a record may grow by the headers of a letter, at most."""

_LIMIT: Final = "max.message.bytes"


def make(config: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
    """Make the topics that are missing, with as many partitions as what they are for.

    Each takes records that are as large as those of its input, and the headers besides.

    Args:
        config: settings of the client.
        inputs: topic for dead letters -> topic that they come from.

    Raises:
        KafkaError: the broker does not answer, or does not allow it.
    """
    with closing(connect(KafkaAdminClient, config)) as admin:
        counts = _partitions(admin, [*inputs, *inputs.values()])
        for name, topic in inputs.items():
            if name not in counts:
                _make(admin, name, counts.get(topic, 1), _limit(admin, topic))


def _partitions(admin: Any, names: list[str]) -> dict[str, int]:
    """How many partitions each of the topics has that exist.

    Raises:
        KafkaError: something else than that it does not exist keeps one from being described.
    """
    found = {}
    for topic in admin.describe_topics(sorted(set(names))):
        kind = for_code(topic["error_code"])
        if kind is NoError:
            found[topic["name"]] = len(topic["partitions"])
        elif kind is not UnknownTopicOrPartitionError:
            raise kind(topic["name"])
    return found


def _make(admin: Any, name: str, partitions: int, limit: int | None) -> None:
    configs = {} if limit is None else {_LIMIT: str(limit + ROOM)}
    wanted = {"num_partitions": partitions, "configs": configs}
    try:
        admin.create_topics({name: wanted}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        return


def _limit(admin: Any, topic: str) -> int | None:
    """Largest record of the topic; None where it may not be asked for."""
    try:
        found = admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
        )
    except AuthorizationError:
        return None
    value = found.get("topic", {}).get(topic, {}).get(_LIMIT, {}).get("value")
    return None if value is None else int(value)
