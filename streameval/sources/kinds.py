"""The kinds of sources: builds the source of a [source] table, and queries that only Kafka has.

No other module tells one kind from another. A kind is imported on first use, because importing
Kafka's client takes longer than most commands. Functions raise ConfigError for a setting that is
unknown or reserved, and SourceError for a source that cannot be read.

`environment`: values of `${NAME}` in the options, usually `os.environ`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from streameval.events.records import Partition, RecordBatch
from streameval.sources.schemas.records import Schemas
from streameval.sources.settings import (
    FilesOptions,
    KafkaOptions,
    PartialsOptions,
    SourceOptions,
)
from streameval.sources.source import LogEnds, Positions, Source


def build(
    options: SourceOptions,
    environment: Mapping[str, str],
    *,
    shared: bool = False,
    schemas: Schemas | None = None,
) -> Source:
    """The source, not yet opened.

    `shared`: share partitions with other members of the group, which needs durable state;
    otherwise the source reads all of them. `schemas`: of the records. Only Kafka has either.
    """
    if isinstance(options, KafkaOptions):
        from streameval.sources.kafka.source import KafkaSource  # noqa: PLC0415  heavy

        return KafkaSource(options, environment, shared=shared, schemas=schemas)
    if isinstance(options, FilesOptions):
        from streameval.sources.files import FilesSource  # noqa: PLC0415  heavy

        return FilesSource(options, grows=True)
    if isinstance(options, PartialsOptions):
        from streameval.sources.partial_files import CountedElsewhere  # noqa: PLC0415  heavy

        return CountedElsewhere(options)
    from streameval.sources.simulator import SimulatorSource  # noqa: PLC0415  heavy

    return SimulatorSource(options)


def probe(options: SourceOptions, environment: Mapping[str, str]) -> str:
    """Try to read once; returns one sentence about the result."""
    if isinstance(options, KafkaOptions):
        from streameval.sources import topics  # noqa: PLC0415  heavy

        return topics.probe(options, environment)
    if isinstance(options, PartialsOptions):
        from streameval.sources.partial_files import partial_files  # noqa: PLC0415  heavy

        return f"{options.path} has {len(partial_files(options.path)):,} files of partials."
    source = build(options, environment)
    source.open(Positions())
    source.close()
    return f"{source.name} can be read."


def partials_in(options: SourceOptions) -> str | None:
    """The folder or URL of partial results; None if records are to be counted."""
    return options.path if isinstance(options, PartialsOptions) else None


def rights(
    options: SourceOptions,
    environment: Mapping[str, str],
    dead_letter_topics: Sequence[str],
    *,
    shared: bool,
) -> Iterable[Callable[[], str]]:
    """Tests of the rights that the daemon needs; each returns a right in words, or raises.

    Nothing is written. `dead_letter_topics` are only checked. `shared`: as of `build`.
    """
    if not isinstance(options, KafkaOptions):
        return ()
    from streameval.sources import topics  # noqa: PLC0415  heavy

    return topics.rights(options, environment, dead_letter_topics, shared=shared)


def newest_records(
    options: SourceOptions, environment: Mapping[str, str]
) -> Callable[[], Iterable[RecordBatch]] | None:
    """A function that reads the newest records of each log; None if that is not possible."""
    if not isinstance(options, KafkaOptions):
        return None
    from streameval.sources import topics  # noqa: PLC0415  heavy

    return lambda: topics.newest_records(options, environment)


def sample(options: SourceOptions, environment: Mapping[str, str]) -> Iterator[RecordBatch]:
    """Records of each log: the newest of a topic, the first of a file; of other kinds, none.

    A pipe is not read, because its records would be lost.
    """
    if (newest := newest_records(options, environment)) is not None:
        yield from newest()
    elif isinstance(options, FilesOptions):
        from streameval.sources.files import FilesSource  # noqa: PLC0415  heavy

        source = FilesSource(options)
        source.open(Positions())
        try:
            if all(Path(path).is_file() for path in source.paths):
                yield from source.poll(0)
        finally:
            source.close()


def log_ends(options: SourceOptions, environment: Mapping[str, str]) -> LogEnds | None:
    """A monitor of the ends of all logs, outside of any group; None where only a reader knows."""
    if not isinstance(options, KafkaOptions):
        return None
    from streameval.sources.kafka import client_settings, cluster  # noqa: PLC0415  heavy

    topics = client_settings.source_topics(options)
    config = client_settings.source_config(options, environment)
    return cluster.ClusterMonitor(topics, config)


def record_at(
    options: SourceOptions, environment: Mapping[str, str], partition: Partition, offset: int
) -> RecordBatch | None:
    """A batch with the record at an offset; None if the log does not have it any more."""
    if not isinstance(options, KafkaOptions):
        return None
    from streameval.sources import topics  # noqa: PLC0415  heavy

    return topics.batch_at(options, environment, partition, offset)


def topic_names(options: SourceOptions) -> list[str]:
    """The topics without duplicates; none without topics."""
    if not isinstance(options, KafkaOptions):
        return []
    from streameval.sources.kafka import client_settings  # noqa: PLC0415  heavy

    return client_settings.source_topics(options)


def topic_client(options: SourceOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a client that reads and writes topics, in kafka-python's names."""
    if not isinstance(options, KafkaOptions):
        return {}
    from streameval.sources.kafka import client_settings  # noqa: PLC0415  heavy

    return client_settings.source_config(options, environment)
