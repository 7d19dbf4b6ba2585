"""All settings of the consumer: what we offer, what the user says, what is ours alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.util import ensure_valid_topic_name

from streameval.errors import ConfigError, SourceError
from streameval.sources.kafka_options import client_config
from streameval.sources.kafka_secrets import substituted
from streameval.sources.options import KafkaOptions

_OURS: Final[Mapping[str, Any]] = {
    "group_id": None,
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
}
_OFFERED: Final[Mapping[str, Any]] = {
    "bootstrap_timeout_ms": 5_000,
    "client_id": "streameval",
    "max_poll_records": 10_000,
    "metrics_enabled": False,
    "reconnect_backoff_max_ms": 1_000,
}
"""Ours unless the user says otherwise."""


_MEMBER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_EMPTY: Final = "found an empty text; leave it out, or name one."
_MEMBER_NEEDED: Final = "write up to 249 letters, digits, dots, underscores and hyphens."


def source_topics(options: KafkaOptions) -> list[str]:
    """The topics, each once.

    Raises:
        SourceError: there is none.
        ConfigError: one has a name that no topic can have.
    """
    if not options.topics:
        raise SourceError("kafka", "no topic is named", "name some in [source] topics")
    for topic in options.topics:
        try:
            ensure_valid_topic_name(topic)
        except ValueError as error:
            raise ConfigError("source", "topics", f"found {topic!r}: {error}.") from error
    return list(dict.fromkeys(options.topics))


def source_config(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings, in the client's own names.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
    """
    return {**_OFFERED, **client_config(options.kafka, environment), **_OURS}


def group_config(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a member of the group.

    Raises:
        ConfigError: a setting is unknown or not a user's to set, or `member` or `group` cannot be.
    """
    if options.group == "":
        raise ConfigError("source", "group", _EMPTY)
    return {
        **source_config(options, environment),
        "group_id": options.group,
        "group_instance_id": _member(options.member, environment),
        "partition_assignment_strategy": (RangePartitionAssignor,),
    }


def _member(written: str | None, environment: Mapping[str, str]) -> str | None:
    """The name of this member; where replicas share one file, ${NAME} tells them apart."""
    if written is None:
        return None
    if written == "":
        raise ConfigError("source", "member", _EMPTY)
    try:
        member = substituted(written, environment)
    except ValueError as error:
        raise ConfigError("source", "member", f"{error}.") from error
    if not _MEMBER.fullmatch(member):
        raise ConfigError("source", "member", f"found {member!r}; {_MEMBER_NEEDED}")
    return member
