"""The queue of dead letters, which holds them until the broker has them.

Functions raise ConfigError for an invalid destination, and DeadLetterError if dead letters cannot
be written; these stay in the queue, and the next flush retries them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from streameval.engine.dead_letters import DeadLetter
from streameval.events.errors import ConfigError, DeadLetterError
from streameval.sources.kinds import topic_client, topic_names
from streameval.sources.settings import SourceOptions

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes in the queue above which `send` flushes first."""

CHUNK: Final = 2_000
"""Dead letters per write: a long queue makes progress even if a later write fails."""

_OVERHEAD: Final = 1_000
"""Approximate bytes of a dead letter besides its value."""


SUFFIX: Final = ".dlq"


def dead_letters_of(
    source: SourceOptions,
    environment: Mapping[str, str],
    *,
    topic: str | None = None,
) -> Queue | None:
    """The dead letters of a source, written to its `dead_topics`.

    Other sources than Kafka have none, as their records remain in the files: invalid ones are
    counted, and examples are logged.
    """
    if not source.has_topics:
        return None
    from streameval.checkpoints.dead_letters.topic import (  # noqa: PLC0415  heavy; only where used
        DeadLetterTopics,
    )

    names = dead_topics(source, topic)
    return Queue(DeadLetterTopics(topic_client(source, environment), names))


def dead_topics(source: SourceOptions, topic: str | None = None) -> dict[str, str]:
    """Topic of a source -> the topic of its dead letters; none for sources other than Kafka.

    `topic`: receives the dead letters of all topics; None for `<input>.dlq` each.
    """
    inputs = topic_names(source)
    names = {name: name + SUFFIX if topic is None else topic for name in inputs}
    if not names:
        return names
    from kafka.util import ensure_valid_topic_name  # noqa: PLC0415  heavy; only where used

    for name in names.values():
        try:
            ensure_valid_topic_name(name)
        except ValueError as error:
            raise ConfigError("dead_letters", "topic", f"found {name!r}: {error}.") from error
        if name in inputs:
            problem = f"{name!r} is also read; give dead letters a separate topic."
            raise ConfigError("dead_letters", "topic", problem)
    return names


class Writer(Protocol):
    """Writes dead letters to one destination; called by one thread at a time."""

    def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Return when all of them are durable.

        Raises:
            DeadLetterError: some are not; the caller retries all but those in `durable`.
        """

    def close(self) -> None:
        """Close the destination; may be called twice."""


class Queue:
    """Holds dead letters until a flush writes them; any thread may send or flush.

    Sending only appends, so that counting rarely waits for a disk or a broker.

    `max_bytes`: above this size `send` flushes first; if that fails, the queue is full.

    Attributes:
        durable_count: dead letters that are durable, including those written again after an error.
    """

    def __init__(self, writer: Writer, max_bytes: int = MAX_BYTES) -> None:
        self._writer = writer
        self._max_bytes = max_bytes
        self._waiting: list[DeadLetter] = []
        self._bytes = 0
        self.durable_count = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    @property
    def full(self) -> bool:
        """True if more than `max_bytes` wait, so that reading should pause."""
        return self._bytes > self._max_bytes

    def send(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Queue dead letters until the next flush; never raises."""
        size = sum(map(_size, dead_letters))
        if self._bytes and not self.full and self._bytes + size > self._max_bytes:
            # Only once: each failure takes seconds. The flush of a checkpoint raises it again.
            with suppress(DeadLetterError):
                self.flush()
        with self._lock:
            self._waiting.extend(dead_letters)
            self._bytes += size

    def flush(self) -> None:
        """Return when every dead letter sent before is durable."""
        with self._writing:
            left = len(self._waiting)
            while left > 0:
                self._write(min(left, CHUNK))
                left -= CHUNK

    def close(self) -> None:
        """Close the destination without flushing; may be called twice."""
        with self._writing:
            self._writer.close()

    def _write(self, count: int) -> None:
        """Write the oldest dead letters; those that are not durable stay first in the queue."""
        with self._lock:
            dead_letters = self._waiting[:count]
        durable: Collection[int] = ()
        try:
            self._writer.write(dead_letters)
            durable = range(count)
        except DeadLetterError as error:
            durable = error.durable
            raise
        finally:
            with self._lock:
                retried = [
                    dead_letter
                    for row, dead_letter in enumerate(dead_letters)
                    if row not in durable
                ]
                self._waiting[:count] = retried
                self.durable_count += count - len(retried)
                self._bytes -= sum(map(_size, dead_letters)) - sum(map(_size, retried))


def _size(dead_letter: DeadLetter) -> int:
    return len(dead_letter.value) + _OVERHEAD
