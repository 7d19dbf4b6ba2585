"""Dead letters in Kafka topics: names and headers, the writer, the reader, and replays.

Writing raises DeadLetterError, reading and replaying SourceError, if the broker does not answer in
time, or rejects a topic or a record.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from types import MappingProxyType
from typing import Any, Final

import msgspec
from kafka import KafkaProducer
from kafka.errors import AuthorizationError, KafkaError, MessageSizeTooLargeError

from streameval.engine.dead_letters import ORIGINAL, DeadLetter, Stage
from streameval.events.errors import DeadLetterError
from streameval.events.records import Partition
from streameval.sources.kafka.cluster import Cluster, connect
from streameval.sources.kafka.diagnosis import (
    SETTINGS_ERRORS,
    as_source_errors,
    failure_of,
)
from streameval.sources.kafka.kafka_python import close_producer
from streameval.sources.settings import EARLIEST, LATEST
from streameval.sources.topics import Message, records_between, send

HEADER_PREFIX: Final = "streameval.dlq."

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{HEADER_PREFIX}topic": "topic of the record",
        f"{HEADER_PREFIX}partition": "its partition",
        f"{HEADER_PREFIX}offset": "its offset there",
        f"{HEADER_PREFIX}timestamp": "its timestamp, milliseconds since the epoch; "
        "absent if unknown",
        f"{HEADER_PREFIX}size": "bytes of its value, if this letter is truncated; else absent",
        f"{HEADER_PREFIX}stage": "`decode`: unreadable bytes; `validate`: not a valid event; "
        "`process`: a later step failed",
        f"{HEADER_PREFIX}reason": "one of the [reasons](#reasons)",
        f"{HEADER_PREFIX}message": "which field, and what was found there; at most 1,000 bytes",
    }
)
"""Name of each added header, in order -> its content, UTF-8 text."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The headers that describe the record of a dead letter."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    size: int | None = None
    stage: Stage
    reason: str
    message: str


TIMEOUT: Final = 8.0
"""Seconds that a write may take, including connecting and creating topics."""

MAX_RECORD: Final = 64 * 1024 * 1024
"""Largest record that the producer accepts, so that only the topic's limit applies."""

_HEADER_ROOM: Final = 8 * 1024
"""Most bytes that the headers of a dead letter add to a record."""

_VALUE_BYTES: Final = (64 * 1024, 1024, 0)
"""Most bytes of the value of a truncated dead letter; the next is tried if one is too large."""

_LONGEST_KEY: Final = 1024
"""Longest key in a dead letter without a value."""

_LOG: Final = logging.getLogger(__name__)
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_WRITING: Final = "writing dead letters to topic "
_RIGHTS: Final = "allow this user to describe, create and write the topic"
_RETRY: Final = "the letters are kept and retried at the next checkpoint"


class DeadLetterTopics:
    """Writes each dead letter to its dead letter topic, in the partition of the same number.

    The number is taken modulo the partitions of that topic. A record is written when all in-sync
    replicas have it.

    A dead letter that is too large for its topic is truncated.

    `names`: topic of a record -> that of its dead letter. `seconds`: time limit of a write.
    """

    def __init__(
        self, config: Mapping[str, Any], names: Mapping[str, str], *, seconds: float = TIMEOUT
    ) -> None:
        self._names = names
        self._seconds = seconds
        self._config = {**config, **_with_time_limits(seconds)}
        self._producer: Any = None
        self._partition_counts: dict[str, int] = {}

    def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Return when all in-sync replicas have all dead letters."""
        sent: list[Any] = []
        try:
            self._send_all(dead_letters, sent)
        except DeadLetterError as error:
            self.close()
            # One dead letter that is always rejected must not cause the others to be sent again.
            error.durable = frozenset(
                row for row, future in enumerate(sent) if future is not None and future.succeeded()
            )
            raise

    def _send_all(self, dead_letters: Sequence[DeadLetter], sent: list[Any]) -> None:
        deadline = time.monotonic() + self._seconds
        try:
            self._prepare(dead_letters)
            sent += map(self._send, dead_letters)
            for row, dead_letter in enumerate(dead_letters):
                if not self._is_accepted(sent[row], deadline):
                    sent[row] = self._send_truncated(dead_letter, deadline)
        except (KafkaError, OSError, *SETTINGS_ERRORS) as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection; may be called twice."""
        producer, self._producer = self._producer, None
        self._partition_counts.clear()
        if producer is not None:
            close_producer(producer, self._seconds)

    def _prepare(self, dead_letters: Sequence[DeadLetter]) -> None:
        needed = {
            self._names[dead_letter.partition.topic]: dead_letter.partition.topic
            for dead_letter in dead_letters
        }
        missing = {
            name: topic for name, topic in needed.items() if name not in self._partition_counts
        }
        if missing:
            _create_topics(self._config, missing)
        if self._producer is None:
            self._producer = connect(KafkaProducer, self._config)
        for name in missing:
            self._partition_counts[name] = len(self._producer.partitions_for(name))

    def _send(self, dead_letter: DeadLetter) -> Any:
        """Send a dead letter; returns its future, or None if it is too large for the client."""
        name = self._names[dead_letter.partition.topic]
        number = dead_letter.partition.number % self._partition_counts[name]
        headers = headers_of(dead_letter)
        with suppress(MessageSizeTooLargeError):
            return self._producer.send(name, dead_letter.value, dead_letter.key, headers, number)
        return None

    def _is_accepted(self, future: Any, deadline: float) -> bool:
        """True if a dead letter was written; otherwise it is too large."""
        if future is None:
            return False
        try:
            future.get(timeout=max(deadline - time.monotonic(), 0))
        except MessageSizeTooLargeError:
            return False
        return True

    def _send_truncated(self, dead_letter: DeadLetter, deadline: float) -> Any:
        """Write as much of a dead letter as its topic accepts."""
        name, size = self._names[dead_letter.partition.topic], len(dead_letter.value)
        for most in _VALUE_BYTES:
            future = self._send(truncate(dead_letter, most))
            if self._is_accepted(future, deadline):
                _LOG.warning(
                    "the dead letter of %s is truncated: its %d bytes are too large for topic %s",
                    dead_letter.identity,
                    size,
                    name,
                )
                return future
        problem = f"record {dead_letter.identity} of {size:,} bytes is too large"
        raise DeadLetterError(_WRITING + name, problem, "raise max.message.bytes of the topic")

    def _failure(self, error: Exception) -> DeadLetterError:
        _, problem, remedy = failure_of(error, self._config)
        if isinstance(error, AuthorizationError):
            remedy = _RIGHTS
        where = _WRITING + ", ".join(dict.fromkeys(self._names.values()))
        return DeadLetterError(where, problem, f"{remedy}; {_RETRY}")


def truncate(dead_letter: DeadLetter, most: int) -> DeadLetter:
    """The dead letter with at most `most` bytes of its value.

    With 0, it also lacks the record's headers and a long key; a replay's identity remains.
    """
    shorter = msgspec.structs.replace(
        dead_letter, value=dead_letter.value[:most], size=len(dead_letter.value)
    )
    if most:
        return shorter
    key = dead_letter.key if len(dead_letter.key or b"") <= _LONGEST_KEY else None
    headers = tuple(pair for pair in dead_letter.headers if pair[0] == ORIGINAL)
    return msgspec.structs.replace(shorter, key=key, headers=headers)


def headers_of(dead_letter: DeadLetter) -> list[tuple[str, bytes]]:
    """The record's own headers, then those of the dead letter."""
    record = (
        *dead_letter.partition,
        dead_letter.offset,
        dead_letter.timestamp_ms,
        dead_letter.size,
    )
    values = zip(
        HEADERS, (*record, dead_letter.stage, dead_letter.reason, dead_letter.message), strict=True
    )
    return [
        *dead_letter.headers,
        *((name, f"{value}".encode()) for name, value in values if value is not None),
    ]


def dead_letter_of(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]
) -> DeadLetter | None:
    """The dead letter in a record of a dead letter topic; None if the record is not a dead letter.

    The added headers come last and in their order, so headers of the same names in the original
    record are kept.
    """
    at = len(headers)
    fields: dict[str, str] = {}
    for name in reversed(list(HEADERS)):
        if at and headers[at - 1][0] == name:
            at -= 1
            text = headers[at][1] or b""
            fields[name.removeprefix(HEADER_PREFIX)] = text.decode("utf-8", "replace")
    try:
        facts = msgspec.convert(fields, _Facts, strict=False)
    except msgspec.ValidationError:
        return None
    return DeadLetter(
        partition=Partition(facts.topic, facts.partition),
        offset=facts.offset,
        timestamp_ms=facts.timestamp,
        key=key,
        headers=tuple(headers[:at]),
        value=value or b"",
        stage=facts.stage,
        reason=facts.reason,
        message=facts.message,
        size=facts.size,
    )


def _with_time_limits(seconds: float) -> dict[str, Any]:
    """Producer settings that bound the time of a write."""
    return {
        "acks": "all",
        # Letters may be written twice anyway; idempotence would need further permissions.
        "enable_idempotence": False,
        "bootstrap_timeout_ms": round(500 * seconds),
        "max_block_ms": round(500 * seconds),
        "request_timeout_ms": round(500 * seconds),
        "delivery_timeout_ms": round(1000 * seconds),
        "max_request_size": MAX_RECORD,
        "batch_size": 256 * 1024,
        "linger_ms": 5,
    }


def _create_topics(config: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
    """Create the missing topics with the partitions and the record size of their inputs."""
    with closing(Cluster(config)) as cluster:
        described = cluster.topics(list(dict.fromkeys([*inputs, *inputs.values()])))
        for name, why in described.refused.items():
            raise DeadLetterError(_WRITING + name, f"Kafka says {why}", f"{_RIGHTS}; {_RETRY}")
        counts = Counter(partition.topic for partition in described.partitions)
        for name in inputs.keys() & set(described.missing):
            limit = cluster.setting(inputs[name], _MAX_MESSAGE_BYTES)
            room = {} if limit is None else {_MAX_MESSAGE_BYTES: str(int(limit) + _HEADER_ROOM)}
            cluster.create(name, counts[inputs[name]] or 1, room)


_READ_TIMEOUT: Final = 30.0
"""Seconds without a record before the end offset after which reading fails."""


class DeadLetterReader:
    """Reads dead letter topics from the beginning to their current end, without a consumer group.

    `inputs`: the topics of the original records; all of them must exist.

    Attributes:
        foreign: records read so far that are not dead letters.
    """

    def __init__(
        self, config: Mapping[str, Any], topics: Sequence[str], inputs: Sequence[str]
    ) -> None:
        self._config = config
        self._topics = topics
        self.foreign = 0
        with self._errors_explained(), closing(Cluster(config)) as cluster:
            described = cluster.topics([*topics, *inputs])
            described.require(inputs)
            partitions = [
                partition for partition in described.partitions if partition.topic in topics
            ]
            self._begins = cluster.offsets(partitions, EARLIEST)
            self._ends = cluster.offsets(partitions, LATEST)

    def __iter__(self) -> Iterator[DeadLetter]:
        """The dead letters, in order within each partition."""
        self.foreign = 0
        with self._errors_explained():
            ranges = records_between(self._config, self._begins, self._ends, _READ_TIMEOUT)
            for _, records in ranges:
                for record in records:
                    dead_letter = dead_letter_of(record.key, record.value, record.headers)
                    if dead_letter is None:
                        self.foreign += 1
                    else:
                        yield dead_letter

    def _errors_explained(self) -> AbstractContextManager[None]:
        return as_source_errors(self._config, f"topic {', '.join(self._topics)}")


def republish(dead_letters: Iterable[DeadLetter], config: Mapping[str, Any]) -> int:
    """Republish the record of each dead letter to its topic and partition.

    Key, value and headers are unchanged; an added header names the original record. Records
    written before an error stay. Returns the number of records written.
    """
    producer = {"acks": "all", "enable_idempotence": False, "max_request_size": MAX_RECORD}
    remedy = "these were written; another replay writes them again"
    messages = (
        Message(
            dead_letter.partition.topic,
            dead_letter.value,
            dead_letter.key,
            [
                *(pair for pair in dead_letter.headers if pair[0] != ORIGINAL),
                (ORIGINAL, str(dead_letter.original).encode()),
            ],
            dead_letter.partition.number,
        )
        for dead_letter in dead_letters
    )
    return send(messages, {**config, **producer}, "", remedy)
