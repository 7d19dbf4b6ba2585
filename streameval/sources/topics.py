"""Kafka topics outside of a group: tests, samples, single records, and writing.

Functions raise ConfigError for a reserved setting, and SourceError if the client rejects a setting,
no broker answers, or the broker rejects a topic or a record.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.util import ensure_valid_topic_name

from streameval.events.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.client_settings import (
    client_config,
    group_config,
    source_config,
    source_topics,
)
from streameval.sources.kafka.cluster import Cluster, Topics, connect
from streameval.sources.kafka.diagnosis import (
    SETTINGS_ERRORS,
    as_source_errors,
    failure_of,
    settings_error,
)
from streameval.sources.kafka.kafka_python import record_batch
from streameval.sources.kafka.source import try_connection
from streameval.sources.settings import EARLIEST, LATEST, KafkaOptions

RECORDS: Final = 500
"""Newest records to sample from each partition."""

_SECONDS: Final = 5.0
_POLL_MS: Final = 100

_DEFAULTS: Final[Mapping[str, Any]] = {
    "batch_size": 256 * 1024,
    "bootstrap_timeout_ms": 10_000,
    "client_id": "streameval-publish",
    "linger_ms": 20,
    "metrics_enabled": False,
}
"""Defaults that the user may override."""

_IN_FLIGHT: Final = 10_000
"""Most unacknowledged records; bounds memory, not speed."""

_STEP: Final = 1_000
"""Records between two calls of `progress`."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to publish to.

    Attributes:
        topic: created if missing.
        kafka: settings of the client, named as in [source.kafka]; `bootstrap_servers` at least.
        partitions: number of partitions if the topic is created.
        user: path of the field whose value becomes the key, as in [event] user.
    """

    topic: str
    kafka: Mapping[str, Any]
    partitions: int = 4
    user: str = "user"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of published records.

    Attributes:
        without_user: records without a user, published without a key.
    """

    records: int
    without_user: int
    created: bool


class Message(NamedTuple):
    """A record to be sent.

    Attributes:
        partition: None to let the key decide.
    """

    topic: str
    value: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]] | None = None
    partition: int | None = None


def publish_records(
    records: Iterable[bytes],
    destination: Destination,
    environment: Mapping[str, str],
    progress: Callable[[int], None] = lambda _: None,
) -> Published:
    """Write JSON records to the topic as they arrive, and wait until all are acknowledged.

    Records of one user go to one partition, in order and byte for byte unchanged. Records
    acknowledged before an error stay in the topic.

    `records`: consumed one at a time, so it may be a live stream. `progress`: called now and then
    with the number of acknowledged records.
    """
    topic, key = destination.topic, UserKey(destination.user)
    defaults = KafkaProducer.DEFAULT_CONFIG
    user = client_config(destination.kafka, environment, defaults, "Kafka settings")
    config = {**_DEFAULTS, **user}
    try:
        ensure_valid_topic_name(topic)
    except ValueError as error:
        raise _publish_error(topic, 0, str(error), "choose another name") from error
    without_user, created = 0, False

    def messages() -> Iterator[Message]:
        nonlocal without_user, created
        with closing(Cluster(config)) as cluster:
            missing = cluster.topics([topic]).missing
            created = bool(missing) and cluster.create(topic, destination.partitions)
        for record in records:
            user = key(record)
            without_user += user is None
            yield Message(topic, record, user)

    remedy = "acknowledged records stay; check the broker, and publish the rest again"
    count = send(messages(), config, topic, remedy, progress)
    return Published(records=count, without_user=without_user, created=created)


def _publish_error(topic: str, acknowledged: int, problem: str, remedy: str) -> SourceError:
    where = f"topic {topic!r}, after {acknowledged:,} records"
    return SourceError(where, problem, remedy)


def send(
    messages: Iterable[Message],
    config: Mapping[str, Any],
    topic: str,
    remedy: str,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send records, and wait until all are acknowledged; returns their number.

    `topic`: named by an error before the first record.
    """
    unanswered: deque[Any] = deque()
    count = 0
    try:
        with closing(connect(KafkaProducer, config)) as producer:
            for message in messages:
                topic = message.topic
                number = message.partition
                if number is not None and number not in producer.partitions_for(topic):
                    problem = f"it no longer has partition {number}"
                    raise _publish_error(topic, count, problem, remedy)
                unanswered.append(producer.send(*message))
                if len(unanswered) > _IN_FLIGHT:
                    unanswered.popleft().get()
                    count += 1
                    if count % _STEP == 0:
                        progress(count)
            for future in unanswered:
                future.get()
                count += 1
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError) as error:
        raise _publish_error(topic, count, str(failure_of(error, config)), remedy) from error
    progress(count)
    return count


class UserKey:
    """The user of a JSON record as the key of a Kafka record.

    An integer and the text of its digits are the same user, so they give the same key.

    Args:
        path: of the field, with dots between the names of nested objects.

    >>> UserKey("payload.user")(b'{"payload": {"user": 7}}')
    b'7'
    """

    def __init__(self, path: str) -> None:
        self._depth = len(path.split("."))
        self._decoder = msgspec.json.Decoder(_shape(path))

    def __call__(self, record: bytes) -> bytes | None:
        """The key; None if no user is found."""
        try:
            decoded: Any = self._decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        for _ in range(self._depth):
            decoded = decoded.value
        return str(decoded).encode()


def _shape(path: str) -> Any:
    """A struct with this one field; other fields are skipped without decoding."""
    kind: Any = int | str
    for name in reversed(path.split(".")):
        kind = msgspec.defstruct("Object", [("value", kind)], rename={"value": name})
    return kind


def newest_records(options: KafkaOptions, environment: Mapping[str, str]) -> Iterator[RecordBatch]:
    """A sample: up to `RECORDS` records from the end of each partition.

    It is smaller, or empty, if the broker does not answer for a few seconds.
    """
    config = source_config(options, environment)
    try:
        with closing(Cluster(config)) as cluster:
            partitions = cluster.topics(source_topics(options)).partitions
            begins = cluster.offsets(partitions, EARLIEST)
            ends = cluster.offsets(partitions, LATEST)
        starts = {log: max(begins[log], ends[log] - RECORDS) for log in partitions}
        for partition, records in records_between(config, starts, ends, _SECONDS):
            yield record_batch(partition, records)
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError):
        return


def batch_at(
    options: KafkaOptions, environment: Mapping[str, str], partition: Partition, offset: int
) -> RecordBatch | None:
    """A batch with the record at an offset; None if the topic does not have it."""
    config = source_config(options, environment)
    with as_source_errors(config):
        with closing(Cluster(config)) as cluster:
            (begin,) = cluster.offsets([partition], EARLIEST).values()
            (end,) = cluster.offsets([partition], LATEST).values()
        if not begin <= offset < end:
            return None
        read = records_between(config, {partition: offset}, {partition: offset + 1}, _SECONDS)
        with closing(read):
            return next((record_batch(partition, records) for _, records in read), None)


def records_between(
    config: Mapping[str, Any],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    seconds: float,
) -> Generator[tuple[Partition, list[Any]]]:
    """Records between start and end offsets, in order within each partition."""
    left = {
        TopicPartition(*partition): end
        for partition, end in ends.items()
        if starts[partition] < end
    }
    with closing(connect(KafkaConsumer, config)) as consumer:
        consumer.assign(list(left))
        for log in left:
            consumer.seek(log, starts[Partition(*log)])
        heard = time.monotonic()
        while left:
            polled = consumer.poll(timeout_ms=_POLL_MS)
            for log, records in polled.items():
                earlier_records = [record for record in records if record.offset < left[log]]
                if earlier_records:
                    yield Partition(*log), earlier_records
            done = [log for log, end in left.items() if consumer.position(log) >= end]
            heard = time.monotonic() if polled or done else heard
            if time.monotonic() - heard > seconds:
                raise KafkaTimeoutError(f"no record for {seconds:g} seconds")
            for log in done:
                del left[log]
                consumer.pause(log)


def probe(options: KafkaOptions, environment: Mapping[str, str]) -> str:
    """Test the connection; one sentence about topics, partitions and records."""
    names, config = source_topics(options), source_config(options, environment)
    with as_source_errors(config):
        with closing(Cluster(config)) as cluster:
            topics = cluster.topics(names)
            topics.require(names)
            ends = cluster.offsets(topics.partitions, LATEST)
            begins = cluster.offsets(topics.partitions, EARLIEST)
        # The reader has more settings than the admin client used so far.
        try_connection(options, config)
    count, topic_list = sum(ends.values()) - sum(begins.values()), ", ".join(names)
    return f"Kafka answers: {topic_list}: {len(ends)} partitions, {count:,} offsets in use."


def rights(
    options: KafkaOptions,
    environment: Mapping[str, str],
    dead_letter_topics: Sequence[str],
    *,
    shared: bool,
) -> list[Callable[[], str]]:
    """Tests of the rights to read, to commit and to write dead letters; nothing is written.

    Each returns its right in words, or raises SourceError if it is missing. `shared`: as of
    KafkaSource.
    """
    names, config = source_topics(options), group_config(options, environment, shared=shared)
    group, remedy = config["group_id"], f"allow Read on the group {config['group_id']!r}"
    if group != options.group:
        remedy = f"allow Read on groups with the prefix '{options.group}-', or configure [state]"
    with as_source_errors(config), closing(Cluster(config)) as cluster:
        topics = cluster.topics([*names, *dead_letter_topics])
        tests = [_right(topics, name, "read", "Read") for name in names]
        join = partial(_right_text, f"group {group!r}", "join and commit to", remedy)
        tests.append(partial(join, granted=cluster.may_join(group)))
        for name in dead_letter_topics:
            tests.append(_right(topics, name, "write dead letters to", "Write"))
            if name in topics.missing:
                remedy = "create the topic, or allow Create on it"
                create = partial(_right_text, f"topic {name!r}", "create", remedy)
                tests.append(partial(create, granted=cluster.may_create(name)))
    return tests


def _right(topics: Topics, name: str, action: str, operation: str) -> Callable[[], str]:
    """A test of a right on a topic; Kafka may not tell the result."""
    operations = topics.operations.get(name)
    granted = None if operations is None else operation.upper() in operations
    if name in topics.refused:
        granted = False
    remedy = f"allow {operation} on this topic"
    return partial(_right_text, f"topic {name!r}", action, remedy, granted=granted)


def _right_text(where: str, action: str, remedy: str, *, granted: bool | None) -> str:
    if granted is None:
        return f"perhaps to {action} {where}: this Kafka does not tell"
    if not granted:
        raise SourceError(where, f"this user may not {action} it", remedy)
    return f"to {action} {where}"
