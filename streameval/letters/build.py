"""From what is configured to where dead letters go."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.letters.file import LetterFile
from streameval.letters.queue import Nowhere, Queue
from streameval.pipeline.letters import DeadLetters
from streameval.sources.options import KafkaOptions, SourceOptions


def letters_to(
    source: SourceOptions,
    environment: Mapping[str, str],
    *,
    topic: str | None = None,
    path: str | None = None,
) -> DeadLetters:
    """Where the dead letters of a source go.

    To the file, where one is configured; else of topics to a topic, and of others nowhere: their
    invalid records are only counted.

    Args:
        source: where the records come from.
        environment: what ${NAME} in its settings refers to.
        topic: takes the letters of all topics; None means `<input>.dlq` for each.
        path: takes them instead.

    Raises:
        ConfigError: a setting cannot be used, or the topic cannot be one for dead letters.
        DeadLetterError: the file cannot be written.
    """
    if path is not None:
        return Queue(LetterFile(path))
    if not isinstance(source, KafkaOptions):
        return Nowhere()
    from streameval.letters.topic import TopicWriter  # noqa: PLC0415  heavy; only where used
    from streameval.sources.kafka.settings import (  # noqa: PLC0415  heavy; only where used
        source_config,
        source_topics,
    )

    return Queue(TopicWriter(source_config(source, environment), source_topics(source), topic))
