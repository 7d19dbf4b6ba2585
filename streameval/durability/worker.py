"""Where checkpoints are written: beside the loop, or in it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from streameval.errors import StreamevalError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Job(Protocol[R_co]):
    """Work that was handed over."""

    def done(self) -> bool:
        """Whether `result` returns at once."""

    def result(self, timeout: float | None = None) -> R_co:
        """What came of it; raises what it raised.

        Args:
            timeout: longest wait in seconds; None waits for ever.

        Raises:
            TimeoutError: it is not done in time.
        """


class Worker(Protocol):
    """Does one piece of work after the other."""

    def submit(self, work: Callable[[], R]) -> Job[R]:
        """Hand work over; returns at once where there is a thread for it."""

    def close(self) -> None:
        """Wait for all of it, and take no more; may be called twice."""


class _Done(Generic[R]):
    def __init__(self, work: Callable[[], R]) -> None:
        self._raised: StreamevalError | None = None
        try:
            self._value = work()
        except StreamevalError as error:
            self._raised = error

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> R:  # noqa: ARG002  it never waits
        if self._raised is not None:
            raise self._raised
        return self._value


class Inline:
    """Does the work where it is handed over; for files, and for tests.

    Example:
        >>> Inline().submit(lambda: 42).result()
        42
    """

    def submit(self, work: Callable[[], R]) -> Job[R]:
        """Do it now."""
        return _Done(work)

    def close(self) -> None:
        """Nothing is left to be done."""


class Threaded:
    """Does the work on one thread of its own, in the order in which it was handed over."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Hand it to the thread."""
        return self._pool.submit(work)

    def close(self) -> None:
        """Wait for all of it, and end the thread."""
        self._pool.shutdown(wait=True)
