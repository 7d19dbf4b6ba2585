"""The source that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streameval.events.records import RecordBatch
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions, KafkaOptions, SourceOptions
from streameval.sources.simulator import SimulatorSource
from streameval.sources.source import Source


def source_of(
    options: SourceOptions, environment: Mapping[str, str], *, shared: bool = False
) -> Source:
    """The source, not yet opened.

    Args:
        options: the [source] table.
        environment: what `${NAME}` in it stands for, usually `os.environ`.
        shared: whether to share the partitions of Kafka with the other members of the group, which
            needs state that is kept; otherwise all are read here. Means nothing to other sources.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: no topic is named.
    """
    if isinstance(options, KafkaOptions):
        from streameval.sources.kafka.source import KafkaSource  # noqa: PLC0415  heavy

        return KafkaSource(options, environment, shared=shared)
    if isinstance(options, FilesOptions):
        return FilesSource(options)
    return SimulatorSource(options)


def tails_of(
    options: SourceOptions, environment: Mapping[str, str]
) -> Callable[[], Iterable[RecordBatch]] | None:
    """What reads the newest records of all topics; None where there are none.

    Args:
        options: the [source] table.
        environment: what `${NAME}` in it stands for.
    """
    if not isinstance(options, KafkaOptions):
        return None
    from streameval.sources.kafka.probe import newest_records  # noqa: PLC0415  heavy

    return lambda: newest_records(options, environment)
