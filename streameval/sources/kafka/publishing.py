"""Publishes files of newline-delimited JSON to a Kafka topic, each line as it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.util import ensure_valid_topic_name

from streameval.errors import PublishError
from streameval.sources.files import lines
from streameval.sources.kafka.client import (
    UNUSABLE,
    connect,
    silence_client_log,
    unusable,
)
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.connections import failure_of
from streameval.sources.kafka.settings import client_config

_OFFERED: Final[Mapping[str, Any]] = {
    "batch_size": 256 * 1024,
    "bootstrap_timeout_ms": 10_000,
    "client_id": "streameval-publish",
    "linger_ms": 20,
    "metrics_enabled": False,
}
"""Ours unless the user says otherwise."""

_IN_FLIGHT: Final = 10_000
"""Records whose answers may be outstanding; bounds memory, not speed."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where to publish, and how.

    Attributes:
        topic: made where it is missing.
        kafka: settings of the client, named as in [source.kafka]; `bootstrap_servers` at least.
        partitions: of the topic, where it is made.
        user: path of the field whose value becomes the key, as in [event] user.
    """

    topic: str
    kafka: Mapping[str, Any]
    partitions: int = 4
    user: str = "user"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published.

    Attributes:
        without_user: those among them in which no user was found; they carry no key.
    """

    records: int
    without_user: int
    created: bool


def publish(
    paths: Iterable[str],
    destination: Destination,
    environment: Mapping[str, str],
    progress: Callable[[int], None] | None = None,
) -> Published:
    """Write every line of the files to the topic; see `publish_records`.

    `progress`: called with the number of records acknowledged so far, every now and then.

    Raises:
        SourceError: a file cannot be read.
    """
    return publish_records(_all_lines(paths), destination, environment, progress)


def publish_records(
    records: Iterable[bytes],
    destination: Destination,
    environment: Mapping[str, str],
    progress: Callable[[int], None] | None = None,
) -> Published:
    """Write JSON records to the topic as they come, and wait until all are acknowledged.

    Records of one user go to one partition, in their order, byte for byte as they are. What was
    acknowledged before an error stays in the topic.

    `records`: taken one at a time, so they may come at a pace of their own.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: the client refuses its settings.
        PublishError: no broker answers, or it refuses the topic or a record.
    """
    path = "Kafka settings"
    user = client_config(destination.kafka, environment, path=path, client=KafkaProducer)
    config = {**_OFFERED, **user}
    silence_client_log()
    writing = _Writing(destination, progress or (lambda _: None))
    try:
        ensure_valid_topic_name(destination.topic)
    except ValueError as error:
        raise PublishError(destination.topic, 0, str(error), "choose another name") from error
    try:
        return writing.run(records, config)
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError) as error:
        raise writing.failure(str(failure_of(error, config))) from error


class UserKey:
    """The user of a JSON record as the key of a Kafka record.

    An integer and the text of its digits give the same key, as they are the same user.

    Args:
        path: of the field, with dots between the names of nested objects.

    >>> UserKey("payload.user")(b'{"payload": {"user": 7}}')
    b'7'
    """

    def __init__(self, path: str) -> None:
        self._depth = len(path.split("."))
        self._decoder = msgspec.json.Decoder(_shape(path))

    def __call__(self, record: bytes) -> bytes | None:
        """The key; None where no user is found."""
        try:
            found: Any = self._decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        for _ in range(self._depth):
            found = found.value
        return str(found).encode()


def _shape(path: str) -> Any:
    """A struct with this one field; all others are passed over undecoded."""
    kind: Any = int | str
    for name in reversed(path.split(".")):
        kind = msgspec.defstruct("Object", [("value", kind)], rename={"value": name})
    return kind


class _Writing:
    """One run, and how far it is."""

    def __init__(self, destination: Destination, progress: Callable[[int], None]) -> None:
        self._destination = destination
        self._progress = progress
        self._key = UserKey(destination.user)
        self._unanswered: deque[Any] = deque()
        self._records = 0
        self._without_user = 0

    def run(self, records: Iterable[bytes], config: Mapping[str, Any]) -> Published:
        with closing(Cluster(config)) as cluster:
            created = cluster.ensure(self._destination.topic, self._destination.partitions)
        with closing(connect(KafkaProducer, config)) as producer:
            for record in records:
                self._send(producer, record)
            self._settle(0)
        self._progress(self._records)
        return Published(records=self._records, without_user=self._without_user, created=created)

    def failure(self, problem: str) -> PublishError:
        topic = self._destination.topic
        remedy = "acknowledged records stay; check the broker, and publish the rest again"
        return PublishError(topic, self._records, problem, remedy)

    def _send(self, producer: Any, record: bytes) -> None:
        key = self._key(record)
        self._without_user += key is None
        self._unanswered.append(producer.send(self._destination.topic, record, key))
        if len(self._unanswered) > _IN_FLIGHT:
            self._settle(_IN_FLIGHT // 2)
            self._progress(self._records)

    def _settle(self, remaining: int) -> None:
        """Wait for answers, oldest first, until that many are outstanding."""
        while len(self._unanswered) > remaining:
            self._unanswered[0].get()
            self._unanswered.popleft()
            self._records += 1


def _all_lines(paths: Iterable[str]) -> Iterator[bytes]:
    for path in paths:
        yield from lines(path)
