"""Dead letters in a Kafka topic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import AuthorizationError, KafkaError, MessageSizeTooLargeError

from streameval.errors import DeadLetterError
from streameval.letters.headers import headers_of
from streameval.letters.making import make
from streameval.letters.naming import topic_for, topics_for
from streameval.pipeline.letters import DeadLetter
from streameval.sources.kafka.client import UNUSABLE, connect, explanation, silence_client_log

PATIENCE: Final = 8.0
"""Seconds that writing may take in all, with connecting and making topics."""

_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a record that the producer lets pass; the topic's own limit is what counts."""

_AGAIN: Final = "nothing is lost: they are written again at the next checkpoint"


class TopicWriter:
    """Writes each letter to the topic for its input, in the partition of the same number.

    Where that topic has fewer partitions, it is the number modulo theirs. All replicas must have
    a record before it counts as written.

    Args:
        config: settings of the client.
        topics: that are read.
        topic: that takes all letters; None means one for each topic that is read.
        seconds: longest time that writing may take in all.

    Raises:
        ConfigError: the topic for dead letters cannot be one.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        topic: str | None = None,
        seconds: float = PATIENCE,
    ) -> None:
        self._names = topics_for(topics, topic)
        self._topic = topic
        self._seconds = seconds
        self._config = {**config, **_bounded(seconds)}
        self._producer: Any = None
        self._there: dict[str, int] = {}

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Return when all replicas have all of them.

        Raises:
            DeadLetterError: the broker does not answer in time, or refuses a topic or a letter.
        """
        silence_client_log()
        deadline = time.monotonic() + self._seconds
        try:
            self._ready(letters)
            sent = [(letter, self._send(letter)) for letter in letters]
            for letter, future in sent:
                self._answered(letter, future, deadline)
        except (KafkaError, OSError, *UNUSABLE) as error:
            self.close()
            raise self._failure(error) from error
        except DeadLetterError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection; may be called twice."""
        producer, self._producer = self._producer, None
        self._there.clear()
        if producer is not None:
            with suppress(KafkaError):
                producer.close(timeout=self._seconds)

    def _ready(self, letters: Sequence[DeadLetter]) -> None:
        needed = {self._name(letter): letter.partition.topic for letter in letters}
        missing = {name: topic for name, topic in needed.items() if name not in self._there}
        if missing:
            make(self._config, missing)
        if self._producer is None:
            self._producer = connect(KafkaProducer, self._config)
        for name in missing:
            self._there[name] = len(self._producer.partitions_for(name))

    def _send(self, letter: DeadLetter) -> Any:
        name = self._name(letter)
        number = letter.partition.number % self._there[name]
        headers = headers_of(letter)
        try:
            return self._producer.send(name, letter.value, letter.key, headers, number)
        except MessageSizeTooLargeError as error:
            raise self._too_large(letter) from error

    def _answered(self, letter: DeadLetter, future: Any, deadline: float) -> None:
        try:
            future.get(timeout=max(deadline - time.monotonic(), 0))
        except MessageSizeTooLargeError as error:
            raise self._too_large(letter) from error

    def _name(self, letter: DeadLetter) -> str:
        return topic_for(letter.partition.topic, self._topic)

    def _too_large(self, letter: DeadLetter) -> DeadLetterError:
        problem = f"record {letter.identity} of {len(letter.value):,} bytes is too large for it"
        remedy = "raise max.message.bytes of the topic, and no record is passed over"
        return DeadLetterError(f"topic {self._name(letter)}", problem, remedy)

    def _failure(self, error: Exception) -> DeadLetterError:
        remedy = f"see that the broker takes them; {_AGAIN}"
        if isinstance(error, AuthorizationError):
            remedy = f"allow this user to describe, create and write the topic; {_AGAIN}"
        where = f"topic {', '.join(self._names)}"
        return DeadLetterError(where, explanation(error, self._config), remedy)


def _bounded(seconds: float) -> dict[str, Any]:
    """Settings that let no part of writing outlast its time."""
    return {
        "acks": "all",
        # Letters may come twice anyway, and so need no rights beyond writing.
        "enable_idempotence": False,
        "bootstrap_timeout_ms": round(500 * seconds),
        "max_block_ms": round(500 * seconds),
        "request_timeout_ms": round(500 * seconds),
        "delivery_timeout_ms": round(1000 * seconds),
        "max_request_size": _LARGEST,
        "batch_size": 256 * 1024,
        "linger_ms": 5,
    }
