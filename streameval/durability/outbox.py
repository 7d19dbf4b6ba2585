"""Dead letters on their way: sent as they come, safe before the checkpoint that passes them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from streameval.errors import DeadLetterError
from streameval.pipeline.dead_letters import DeadLetter, DeadLetters


class Outbox:
    """Sends dead letters; those that cannot be sent now wait here, none is ever let go.

    Args:
        letters: where they go; None where invalid records are counted only.
    """

    def __init__(self, letters: DeadLetters | None) -> None:
        self._letters = letters
        self._waiting: list[DeadLetter] = []
        self._lock = Lock()

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Send them, or keep them for the next flush. Never raises."""
        if self._letters is None or not letters:
            return
        with self._lock:
            self._waiting.extend(letters)
            try:
                self._send()
            except DeadLetterError:
                return  # the flush before the next checkpoint meets it again, and tells of it

    def flush(self) -> None:
        """Return when every letter sent before is safe; may be called on another thread.

        Raises:
            DeadLetterError: it cannot be made so now; all that may not be safe is kept.
        """
        if self._letters is None:
            return
        with self._lock:
            full = self._try()
        self._letters.flush()
        if full:
            with self._lock:
                self._send()
            self._letters.flush()

    def _try(self) -> bool:
        """Send what waits; returns whether no more could be held."""
        try:
            self._send()
        except DeadLetterError:
            return True
        return False

    def _send(self) -> None:
        if self._letters is not None and self._waiting:
            self._letters.send(self._waiting)
            self._waiting = []
