"""An executor without threads, so that tests are deterministic."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from streameval.errors import StreamevalError

P = ParamSpec("P")
R = TypeVar("R")


class Inline(Executor):
    """Runs work when it is submitted.

    Example:
        >>> Inline().submit(lambda: 42).result()
        42
    """

    def submit(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run it now; other errors than our own simulate a crash and are raised."""
        future: Future[R] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except StreamevalError as error:
            future.set_exception(error)
        return future
