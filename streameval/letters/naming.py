"""Which topic takes the dead letters of which."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.util import ensure_valid_topic_name

from streameval.errors import ConfigError

SUFFIX = ".dlq"


def topic_for(topic: str, configured: str | None) -> str:
    """The topic for the dead letters of `topic`: the configured one, or its own.

    >>> topic_for("events", None), topic_for("events", "dead")
    ('events.dlq', 'dead')
    """
    return topic + SUFFIX if configured is None else configured


def topics_for(topics: Sequence[str], configured: str | None) -> list[str]:
    """The topics for the dead letters of all of these, each once.

    Raises:
        ConfigError: one is no name of a topic, or is read as well, which would never end.
    """
    found = list(dict.fromkeys(topic_for(topic, configured) for topic in topics))
    for name in found:
        try:
            ensure_valid_topic_name(name)
        except ValueError as error:
            raise ConfigError("dead_letters", "topic", f"found {name!r}: {error}.") from error
        if name in topics:
            problem = f"{name!r} is also read; write dead letters to a topic of their own."
            raise ConfigError("dead_letters", "topic", problem)
    return found
