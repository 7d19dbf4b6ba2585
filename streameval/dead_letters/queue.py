"""The queue of dead letters: kept until the disk or broker has taken them.

Functions raise ConfigError for a destination that cannot be, and DeadLetterError where letters
cannot be written; they are kept, and the next flush writes them again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from streameval.dead_letters.file import DeadLetterFile
from streameval.engine.dead_letters import DeadLetter, DeadLetters
from streameval.errors import DeadLetterError
from streameval.sources.options import KafkaOptions, SourceOptions

MAX_BYTES: Final = 64 * 1024 * 1024
"""Where more bytes wait, sending writes them first."""

CHUNK: Final = 2_000
"""Letters written at once, so that a long queue makes progress even if writing fails later."""

_OVERHEAD: Final = 1_000
"""Approximate bytes of a letter besides its value."""


def dead_letters_of(
    source: SourceOptions,
    environment: Mapping[str, str],
    *,
    topic: str | None = None,
    path: str | None = None,
) -> DeadLetters | None:
    """The destination of a source's dead letters.

    That is the file, if one is configured, and otherwise a topic for Kafka sources. Other sources
    have no destination: their invalid records are counted only.

    `topic`: receives the letters of all topics; None means `<input>.dlq` for each. `path`: a file
    that receives them instead.
    """
    if path is not None:
        return Queue(DeadLetterFile(path))
    if not isinstance(source, KafkaOptions):
        return None
    from streameval.dead_letters.topic import (  # noqa: PLC0415  heavy; only where used
        DeadLetterTopics,
    )
    from streameval.sources.kafka.settings import (  # noqa: PLC0415  heavy; only where used
        source_config,
        source_topics,
    )

    return Queue(DeadLetterTopics(source_config(source, environment), source_topics(source), topic))


def place_of(
    source: SourceOptions, *, topic: str | None = None, path: str | None = None
) -> str | None:
    """That destination in words, such as "file dead.ndjson"; None where there is none."""
    if path is not None:
        return f"file {path}"
    if not isinstance(source, KafkaOptions):
        return None
    from streameval.dead_letters.topic import topics_for  # noqa: PLC0415  heavy; only where used
    from streameval.sources.kafka.settings import (  # noqa: PLC0415  heavy; only where used
        source_topics,
    )

    return f"topic {', '.join(topics_for(source_topics(source), topic))}"


class Writer(Protocol):
    """Writes letters to one destination; called by one thread at a time."""

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Return when all of them are durable.

        Raises:
            DeadLetterError: some are not; the caller writes them again, but for its `durable`.
        """

    def close(self) -> None:
        """Close the destination; may be called twice."""


class Queue:
    """Holds dead letters until a flush writes them; any thread may send, and any may flush.

    Sending only appends, so that reading records never waits for a disk or a broker.

    `max_bytes`: at so many bytes a call of `send` writes what waits first; while that fails, more
    of them wait.
    """

    def __init__(self, writer: Writer, max_bytes: int = MAX_BYTES) -> None:
        self._writer = writer
        self._max_bytes = max_bytes
        self._waiting: list[DeadLetter] = []
        self._bytes = 0
        self._changing = threading.Lock()
        self._writing = threading.Lock()

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Hold letters until the next flush; never raises."""
        size = sum(map(_size, letters))
        if self._bytes and self._bytes + size > self._max_bytes:
            # No checkpoint passes letters that are not durable: its own flush raises this again.
            with suppress(DeadLetterError):
                self.flush()
        with self._changing:
            self._waiting.extend(letters)
            self._bytes += size

    def flush(self) -> None:
        """Return when every letter sent before is durable."""
        with self._writing:
            left = len(self._waiting)
            while left > 0:
                left -= self._write(min(left, CHUNK))

    def close(self) -> None:
        """Close the destination without writing what waits; may be called twice."""
        with self._writing:
            self._writer.close()

    def _write(self, count: int) -> int:
        """Write the oldest letters and remove them from the queue; returns how many."""
        with self._changing:
            letters = tuple(self._waiting[:count])
        try:
            self._writer.write(letters)
        except DeadLetterError as error:
            self._keep(letters, [n for n in range(count) if n not in error.durable])
            raise
        self._keep(letters, [])
        return count

    def _keep(self, letters: Sequence[DeadLetter], places: Sequence[int]) -> None:
        """Of the oldest letters, which were written, those at these places wait on."""
        kept = [letters[place] for place in places]
        with self._changing:
            self._waiting[: len(letters)] = kept
            self._bytes -= sum(map(_size, letters)) - sum(map(_size, kept))


def _size(letter: DeadLetter) -> int:
    return len(letter.value) + _OVERHEAD
