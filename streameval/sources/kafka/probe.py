"""Asks Kafka without joining a group: tests of connection and rights, newest and single records.

Functions raise ConfigError for settings, and SourceError if no broker answers, or a topic does not
exist or may not be read.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from streameval.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.client import (
    SETTINGS_ERRORS,
    as_source_errors,
    connect,
    settings_error,
    silence_client_log,
)
from streameval.sources.kafka.cluster import Cluster, Topics
from streameval.sources.kafka.kafka_python import batch_of
from streameval.sources.kafka.member import try_connection
from streameval.sources.kafka.settings import group_config, source_config, source_topics
from streameval.sources.options import EARLIEST, LATEST, KafkaOptions

RECORDS: Final = 500
"""Newest records to sample from each partition."""

_SECONDS: Final = 5.0
_POLL_MS: Final = 100


def probe(options: KafkaOptions, environment: Mapping[str, str]) -> str:
    """Test the connection; one sentence about topics, partitions and records."""
    names, config = source_topics(options), source_config(options, environment)
    silence_client_log()
    with as_source_errors(config):
        with closing(Cluster(config)) as cluster:
            findings = _findings(cluster, names)
        # The reader has more settings than the admin client used so far.
        try_connection(options, environment, config)
    return findings


def _findings(cluster: Cluster, names: Sequence[str]) -> str:
    topics = cluster.topics(names)
    topics.require(names)
    ends = cluster.offsets(topics.partitions, LATEST)
    begins = cluster.offsets(topics.partitions, EARLIEST)
    count = sum(ends[partition] - begins[partition] for partition in ends)
    listed = ", ".join(names)
    return f"Kafka answers: {listed}: {len(ends)} partitions, {count:,} offsets in use."


class Right(NamedTuple):
    """A right that the daemon needs.

    Attributes:
        where: the topic or group.
        action: what the daemon does there, after "may".
        remedy: what to do if the right is missing.
        granted: None if Kafka does not tell.
    """

    where: str
    action: str
    remedy: str
    granted: bool | None

    def require(self) -> str:
        """The right in words.

        Raises:
            SourceError: it is missing.
        """
        if self.granted is None:
            return f"perhaps to {self.action} {self.where}: this Kafka does not tell"
        if not self.granted:
            raise SourceError(self.where, f"this user may not {self.action} it", self.remedy)
        return f"to {self.action} {self.where}"


def rights(
    options: KafkaOptions,
    environment: Mapping[str, str],
    letters: Sequence[str],
    *,
    shared: bool,
) -> list[Right]:
    """The rights to read, to commit and to write dead letters; nothing is written.

    `letters`: topics of dead letters. `shared`: as of KafkaSource.
    """
    names, config = source_topics(options), group_config(options, environment, shared=shared)
    silence_client_log()
    with as_source_errors(config), closing(Cluster(config)) as cluster:
        topics = cluster.topics([*names, *letters])
        found = [_right(topics, name, "read", "Read") for name in names]
        found.append(_right_to_join(cluster, config["group_id"], options.group))
        for name in letters:
            found += _rights_to_write(cluster, topics, name)
    return found


def _right(topics: Topics, name: str, action: str, operation: str) -> Right:
    granted: bool | None = name not in topics.refused
    if granted:
        operations = topics.operations.get(name)
        granted = None if operations is None else operation.upper() in operations
    return Right(f"topic {name!r}", action, f"allow {operation} on this topic", granted)


def _right_to_join(cluster: Cluster, group: str, prefix: str) -> Right:
    remedy = f"allow Read on the group {group!r}"
    if group != prefix:
        remedy = f"allow Read on groups with the prefix '{prefix}-', or configure [state]"
    return Right(f"group {group!r}", "join and commit to", remedy, cluster.may_join(group))


def _rights_to_write(cluster: Cluster, topics: Topics, name: str) -> Iterator[Right]:
    yield _right(topics, name, "write dead letters to", "Write")
    if name in topics.missing:
        remedy = "create the topic, or allow Create on it"
        yield Right(f"topic {name!r}", "create", remedy, cluster.may_create(name))


def newest_records(options: KafkaOptions, environment: Mapping[str, str]) -> Iterator[RecordBatch]:
    """A sample: up to `RECORDS` records from the end of each partition.

    It is smaller, or empty, if the broker does not answer for a few seconds.
    """
    config = source_config(options, environment)
    silence_client_log()
    try:
        with closing(Cluster(config)) as cluster:
            partitions = cluster.topics(source_topics(options)).partitions
            begins = cluster.offsets(partitions, EARLIEST)
            ends = cluster.offsets(partitions, LATEST)
        starts = {each: max(begins[each], ends[each] - RECORDS) for each in partitions}
        for partition, records in records_between(config, starts, ends, _SECONDS):
            yield batch_of(partition, records)
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError):
        return


def batch_at(
    options: KafkaOptions, environment: Mapping[str, str], partition: Partition, offset: int
) -> RecordBatch | None:
    """A batch with the record at an offset; None if the topic does not have it."""
    config = source_config(options, environment)
    silence_client_log()
    with as_source_errors(config):
        with closing(Cluster(config)) as cluster:
            (begin,) = cluster.offsets([partition], EARLIEST).values()
            (end,) = cluster.offsets([partition], LATEST).values()
        if not begin <= offset < end:
            return None
        read = records_between(config, {partition: offset}, {partition: offset + 1}, _SECONDS)
        with closing(read):
            return next((batch_of(partition, records) for _, records in read), None)


def records_between(
    config: Mapping[str, Any],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    seconds: float,
) -> Generator[tuple[Partition, list[Any]]]:
    """Records between start and end offsets, in order within each partition."""
    left = {TopicPartition(*each): end for each, end in ends.items() if starts[each] < end}
    with closing(connect(KafkaConsumer, config)) as consumer:
        consumer.assign(list(left))
        for each in left:
            consumer.seek(each, starts[Partition(*each)])
        heard = time.monotonic()
        while left:
            polled = consumer.poll(timeout_ms=_POLL_MS)
            for each, records in polled.items():
                found = [record for record in records if record.offset < left[each]]
                if found:
                    yield Partition(*each), found
            done = [each for each, end in left.items() if consumer.position(each) >= end]
            heard = time.monotonic() if polled or done else heard
            if time.monotonic() - heard > seconds:
                raise KafkaTimeoutError(f"no record for {seconds:g} seconds")
            for each in done:
                del left[each]
                consumer.pause(each)
