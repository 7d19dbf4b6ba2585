"""Writes records to Kafka topics: JSON keyed by user, or messages with given keys.

Functions raise ConfigError for a reserved setting, SourceError if the client rejects a setting, and
PublishError if no broker answers, or the broker rejects a topic or a record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.util import ensure_valid_topic_name

from streameval.errors import PublishError
from streameval.sources.kafka.client import (
    SETTINGS_ERRORS,
    connect,
    settings_error,
    silence_client_log,
)
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.connections import failure_of
from streameval.sources.kafka.settings import client_config

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
        partition: None: chosen by the key.
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
    path = "Kafka settings"
    user = client_config(destination.kafka, environment, path=path, client=KafkaProducer)
    config = {**_DEFAULTS, **user}
    try:
        ensure_valid_topic_name(topic)
    except ValueError as error:
        raise PublishError(topic, 0, str(error), "choose another name") from error
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
    silence_client_log()
    unanswered: deque[Any] = deque()
    count = 0
    try:
        with closing(connect(KafkaProducer, config)) as producer:
            for message in messages:
                topic = message.topic
                number = message.partition
                if number is not None and number not in producer.partitions_for(topic):
                    problem = f"it no longer has partition {number}"
                    raise PublishError(topic, count, problem, remedy)
                unanswered.append(producer.send(*message))
                if len(unanswered) > _IN_FLIGHT:
                    unanswered.popleft().get()
                    count += 1
                    if count % _STEP == 0:
                        progress(count)
            for each in unanswered:
                each.get()
                count += 1
    except SETTINGS_ERRORS as error:
        raise settings_error(error, config) from error
    except (KafkaError, OSError) as error:
        raise PublishError(topic, count, str(failure_of(error, config)), remedy) from error
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
            found: Any = self._decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        for _ in range(self._depth):
            found = found.value
        return str(found).encode()


def _shape(path: str) -> Any:
    """A struct with this one field; other fields are skipped without decoding."""
    kind: Any = int | str
    for name in reversed(path.split(".")):
        kind = msgspec.defstruct("Object", [("value", kind)], rename={"value": name})
    return kind
