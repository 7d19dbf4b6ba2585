"""The wish that the configuration be read anew: from a signal, or from the web, to the loop."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Wish:
    """One wish, and what became of it."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._problem: str | None = None

    def answer(self, problem: str | None) -> None:
        """Say what became of it: what went wrong, or None."""
        self._problem = problem
        self._done.set()

    def wait(self, seconds: float) -> str | None:
        """What went wrong, or None.

        Raises:
            TimeoutError: nobody has answered in time.
        """
        if not self._done.wait(seconds):
            raise TimeoutError
        return self._problem


class Wishes:
    """Wishes that wait for the loop; any thread may make one."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Wish] = queue.SimpleQueue()
        self._signalled = False

    def make(self) -> Wish:
        """Wish; the loop takes it up at its next turn."""
        wish = Wish()
        self._waiting.put(wish)
        return wish

    def take(self) -> list[Wish]:
        """All wishes since the last call; one answer does for all of them."""
        # The handler of a signal only sets a flag: it may come while the queue is locked.
        found = [Wish()] if self._signalled else []
        self._signalled = False
        while not self._waiting.empty():
            found.append(self._waiting.get())
        return found

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Within, SIGHUP is a wish."""
        before = signal.signal(signal.SIGHUP, self._ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True
