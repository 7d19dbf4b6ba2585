"""Health checks."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.state import State, state
from streameval.exporters.view import span
from streameval.exporters.web.threads import WorkerThreads, unavailable
from streameval.exporters.web.webconfig import Security

HEALTHY = "/-/healthy"
READY = "/-/ready"


class HealthChecks:
    """Answers /-/healthy and /-/ready, which need no password: probes have none.

    Where there are users, the answer is the status alone: reasons name brokers and topics.
    """

    def __init__(
        self,
        current: Callable[[], Snapshot | None],
        healthy: Callable[[], bool],
        security: Security,
    ) -> None:
        self._security = security
        self._current = current
        self._healthy = healthy
        self._threads = WorkerThreads(2)

    def routes(self) -> list[Route]:
        """The routes of the checks."""
        return [
            Route(HEALTHY, self._threads.handler(self._get_healthy)),
            Route(READY, self._threads.handler(self._get_ready)),
        ]

    def state(self, snapshot: Snapshot | None) -> State:
        """The state of the daemon, from a snapshot."""
        return state(snapshot, healthy=self._healthy())

    def _get_healthy(self, _: Request) -> Response:
        if self._healthy():
            return PlainTextResponse("Healthy: the ingest loop is running.\n")
        return unavailable("Not healthy: the ingest loop makes no progress.")

    def _get_ready(self, _: Request) -> Response:
        snapshot = self._current()
        now = self.state(snapshot)
        age = (
            ""
            if snapshot is None
            else f" The snapshot is {span(time.time() - snapshot.taken_at)} old."
        )
        sentence = f"{now.word}." if len(self._security.users) else now.sentence + age
        return PlainTextResponse(f"{sentence}\n") if now.ready else unavailable(sentence)
