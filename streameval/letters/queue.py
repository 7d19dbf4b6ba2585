"""Letters that wait until they are written, so that none is forgotten when writing fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Protocol

from streameval.pipeline.letters import DeadLetter

MOST_BYTES: Final = 64 * 1024 * 1024
"""So many bytes may wait; at more, sending writes them first."""

PIECE: Final = 2_000
"""So many letters are written at once, so that any number of them gets on piece by piece."""

_OVERHEAD: Final = 1_000
"""Bytes of a letter besides its value, about."""


class Writer(Protocol):
    """Writes letters to one place; called by one thread at a time."""

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Return when all of them are safe.

        Raises:
            DeadLetterError: not all are; some may be, and may be given again.
        """

    def close(self) -> None:
        """Let go of the place; may be called twice."""


class Queue:
    """Dead letters on their way to a writer; any thread may send, and any may flush.

    Sending only remembers, so that reading never waits for a disk or a broker.

    Args:
        writer: where they go.
        most_bytes: so many bytes may wait, unless they were sent at once.
    """

    def __init__(self, writer: Writer, most_bytes: int = MOST_BYTES) -> None:
        self._writer = writer
        self._most_bytes = most_bytes
        self._waiting: list[DeadLetter] = []
        self._bytes = 0
        self._changing = threading.Lock()
        self._writing = threading.Lock()

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Remember letters until the next flush.

        Raises:
            DeadLetterError: too many bytes wait, and cannot be written now; none of these is
                taken.
        """
        size = sum(map(_size, letters))
        if self._bytes and self._bytes + size > self._most_bytes:
            self.flush()
        with self._changing:
            self._waiting.extend(letters)
            self._bytes += size

    def flush(self) -> None:
        """Return when every letter sent before is written; where none is, that is at once.

        Raises:
            DeadLetterError: not all could be; the next flush gives again whatever may be missing.
        """
        with self._writing:
            left = len(self._waiting)
            while left > 0:
                left -= self._write(min(left, PIECE))

    def close(self) -> None:
        """Let go of the place; what waits is not written. May be called twice."""
        with self._writing:
            self._writer.close()

    def _write(self, count: int) -> int:
        """Write the oldest letters, which are forgotten only then; returns how many."""
        with self._changing:
            letters = tuple(self._waiting[:count])
        self._writer.write(letters)
        with self._changing:
            del self._waiting[:count]
            self._bytes -= sum(map(_size, letters))
        return count


class Nowhere:
    """Where invalid records are counted, and not kept."""

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Forget them."""

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is held."""


def _size(letter: DeadLetter) -> int:
    return len(letter.value) + _OVERHEAD
