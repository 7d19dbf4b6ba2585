"""Probes a cluster: whether a configuration connects, and the newest records of its topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.client import UNUSABLE, connect, silence_client_log, unusable
from streameval.sources.kafka.cluster import EARLIEST, LATEST, Cluster, start_spec
from streameval.sources.kafka.connections import failure_of
from streameval.sources.kafka.kafka_python import batch_of
from streameval.sources.kafka.member import try_reader
from streameval.sources.kafka.settings import source_config, source_topics
from streameval.sources.options import KafkaOptions

RECORDS: Final = 500
"""Newest ones of each partition."""

_SECONDS: Final = 5.0
_POLL_MS: Final = 100


def probe(options: KafkaOptions, environment: Mapping[str, str]) -> str:
    """Try the connection once.

    Returns:
        One sentence: which topics there are, with how many partitions and records.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: no broker answers, or a topic does not exist or may not be read.
    """
    start_spec(options.start)
    names, config = source_topics(options), source_config(options, environment)
    silence_client_log()
    try:
        with closing(Cluster(config)) as cluster:
            findings = _findings(cluster, names)
        # The reader's settings are more than those of the questions asked so far.
        try_reader(options, environment, config)
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError) as error:
        _, problem, remedy = failure_of(error, config)
        raise SourceError("kafka", problem, remedy) from error
    return findings


def _findings(cluster: Cluster, names: Sequence[str]) -> str:
    topics = cluster.topics(names)
    for name in topics.missing:
        remedy = "create it, or correct [source] topics"
        raise SourceError(f"topic {name!r}", "there is none on this cluster", remedy)
    for name, why in topics.refused.items():
        raise SourceError(f"topic {name!r}", f"Kafka says {why}", "allow this user to read it")
    ends = cluster.offsets(topics.partitions, LATEST)
    begins = cluster.offsets(topics.partitions, EARLIEST)
    count = sum(ends[partition] - begins[partition] for partition in ends)
    listed = ", ".join(names)
    return f"Kafka answers: {listed}: {len(ends)} partitions, {count:,} offsets in use."


def newest_records(
    options: KafkaOptions,
    environment: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RecordBatch]:
    """A sample: up to `RECORDS` records from the end of each partition.

    It ends after a few seconds, and where the broker does not answer: then it is smaller, or empty.

    Raises:
        SourceError: the client refuses its settings.
    """
    config = source_config(options, environment)
    silence_client_log()
    try:
        with closing(Cluster(config)) as cluster:
            partitions = cluster.topics(source_topics(options)).partitions
            begins = cluster.offsets(partitions, EARLIEST)
            ends = cluster.offsets(partitions, LATEST)
        starts = {each: max(begins[each], ends[each] - RECORDS) for each in partitions}
        with closing(connect(KafkaConsumer, config)) as consumer:
            yield from _read(consumer, starts, ends, clock)
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError):
        return


def batch_at(
    options: KafkaOptions, environment: Mapping[str, str], partition: Partition, offset: int
) -> RecordBatch | None:
    """A batch with the record at an offset; None where the topic does not have it any more.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: no broker answers, or the topic may not be read.
    """
    config = source_config(options, environment)
    silence_client_log()
    try:
        with closing(Cluster(config)) as cluster:
            (begin,) = cluster.offsets([partition], EARLIEST).values()
        if offset < begin:
            return None
        with closing(connect(KafkaConsumer, config)) as consumer:
            found = _read(consumer, {partition: offset}, {partition: offset + 1}, time.monotonic)
            return next((batch for batch in found if offset in batch.offsets), None)
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError) as error:
        _, problem, remedy = failure_of(error, config)
        raise SourceError("kafka", problem, remedy) from error


def _read(
    consumer: Any,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    clock: Callable[[], float],
) -> Iterator[RecordBatch]:
    consumer.assign([TopicPartition(*each) for each in starts])
    for each, start in starts.items():
        consumer.seek(TopicPartition(*each), start)
    until = clock() + _SECONDS
    behind = {each for each, start in starts.items() if start < ends[each]}
    while behind and clock() < until:
        for found, records in consumer.poll(timeout_ms=_POLL_MS).items():
            yield batch_of(Partition(*found), records)
        behind = {each for each in behind if consumer.position(TopicPartition(*each)) < ends[each]}
