"""Worker threads for one kind of requests, so that none takes those of another."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

T = TypeVar("T")


class WorkerThreads:
    """A number of threads that nothing else uses.

    `most`: requests that may run or wait at once; others are refused.
    """

    def __init__(self, threads: int, most: float = math.inf) -> None:
        self._threads = threads
        self._most = most
        self._requests = 0
        # A limiter belongs to one event loop, and an application to several.
        self._limiter: RunVar[CapacityLimiter] = RunVar("worker threads")

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function on one of the threads, once one is free."""
        limiter = self._limiter.get(None) or CapacityLimiter(self._threads)
        self._limiter.set(limiter)
        return await run_sync(work, limiter=limiter)

    def handler(
        self, answer: Callable[[Request], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler of requests that answers on these threads."""

        async def answer_in_turn(request: Request) -> Response:
            if self._requests >= self._most:
                return unavailable("Too many requests at once; try again.")
            self._requests += 1
            try:
                return await self.run(lambda: answer(request))
            finally:
                self._requests -= 1

        return answer_in_turn


def unavailable(sentence: str) -> Response:
    """503: no data yet, too many requests, or the daemon is stuck."""
    return PlainTextResponse(f"{sentence}\n", status_code=503, headers={"Retry-After": "1"})
