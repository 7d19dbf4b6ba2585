"""What each path answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from streameval.exporters.prometheus import CONTENT_TYPE
from streameval.exporters.web.api import Api
from streameval.exporters.web.guard import Guard
from streameval.exporters.web.headers import ConfiguredHeaders, SafeHeaders
from streameval.exporters.web.protection import Shield
from streameval.exporters.web.sharing import refusal
from streameval.exporters.web.state import State, state
from streameval.pipeline.snapshot import Snapshot

_STATIC = Path(__file__).parent / "static"
_PATHS = "/, /metrics, /api/v1/metrics, /-/healthy and /-/ready"
_HEALTH = ("/-/healthy", "/-/ready")


class Exporter(Protocol):
    """What renders /metrics."""

    def exposition(self, snapshot: Snapshot | None) -> bytes:
        """Everything there is to scrape, in text format 0.0.4."""


def application(
    current: Callable[[], Snapshot | None],
    exporter: Exporter,
    *,
    turning: Callable[[], bool] = lambda: True,
    reload: Callable[[], str | None] | None = None,
    prefix: str = "",
    shield: Shield | None = None,
    open_health: bool = False,
) -> Starlette:
    """The web application over what `current` answers.

    Args:
        current: the latest snapshot, None before the first; asked from several threads.
        exporter: renders /metrics.
        turning: whether the ingest loop still turns; what /-/healthy answers by.
        reload: checks the configuration and restarts, or says what is wrong; None where that may
            not be asked for over the network.
        prefix: all paths begin with it; "" or "/like/this".
        shield: whom it is answered; None means everybody.
        open_health: whether the health checks are answered without a password all the same.
    """
    answers = _Answers(current, exporter, turning)
    lifecycle = [] if reload is None else [Route("/-/reload", _reloading(reload), methods=["POST"])]
    shield = shield or Shield()
    return Starlette(
        routes=_under(
            prefix,
            [
                *Api(current, answers.state).routes(),
                Route("/metrics", answers.metrics),
                Route("/-/healthy", answers.healthy),
                Route("/-/ready", answers.ready),
                *lifecycle,
                Mount("/static", StaticFiles(directory=_STATIC)),
            ],
        ),
        exception_handlers={404: _nothing_there, 405: _wrong_method},
        middleware=[
            ConfiguredHeaders.middleware(shield),
            SafeHeaders.middleware(),
            Guard.middleware(shield, [prefix + path for path in _HEALTH] if open_health else []),
        ],
    )


def _under(prefix: str, routes: list[BaseRoute]) -> list[BaseRoute]:
    if not prefix:
        return routes

    def to_the_page(_: Request) -> Response:
        return RedirectResponse(f"{prefix}/", status_code=302)

    return [Mount(prefix, routes=routes), Route("/", to_the_page), Route(prefix, to_the_page)]


class _Answers:
    """Answers run on worker threads, so that a slow one delays no other."""

    def __init__(
        self,
        current: Callable[[], Snapshot | None],
        exporter: Exporter,
        turning: Callable[[], bool],
    ) -> None:
        self._current = current
        self._exporter = exporter
        self._turning = turning

    def state(self, snapshot: Snapshot | None) -> State:
        return state(snapshot, turning=self._turning())

    def metrics(self, _: Request) -> Response:
        body = self._exporter.exposition(self._current())
        return Response(body, headers={"Content-Type": CONTENT_TYPE})

    def healthy(self, _: Request) -> Response:
        if self._turning():
            return PlainTextResponse("Healthy: records are being read, or waited for.\n")
        return refusal("Not healthy: the ingest loop has stopped turning.")

    def ready(self, _: Request) -> Response:
        now = self.state(self._current())
        return PlainTextResponse(f"{now.sentence}\n") if now.ready else refusal(now.sentence)


def _reloading(reload: Callable[[], str | None]) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        problem = reload()
        if problem is None:
            return PlainTextResponse("Reloading.\n")
        return PlainTextResponse(f"Not reloaded: {problem}\n", status_code=500)

    return answer


def _nothing_there(request: Request, _: Exception) -> Response:
    path = request.url.path[:200]
    return PlainTextResponse(f"There is nothing at {path!r}; try {_PATHS}.\n", status_code=404)


def _wrong_method(request: Request, error: Exception) -> Response:
    headers = error.headers if isinstance(error, HTTPException) else None
    text = f"{request.method} is not possible here: everything is read with GET.\n"
    return PlainTextResponse(text, status_code=405, headers=headers)
