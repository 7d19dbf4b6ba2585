"""The web application: routes and access checks."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.state import State, daemon_state
from streameval.exporters.prometheus import (
    CONTENT_TYPE,
    OPENMETRICS,
    Exposition,
    prefers_openmetrics,
)
from streameval.exporters.view import span
from streameval.exporters.web.api import Api, accepts_gzip
from streameval.exporters.web.auth import Admission
from streameval.exporters.web.threads import WorkerThreads, unavailable
from streameval.exporters.web.webconfig import Security

HEALTHY: Final = "/-/healthy"
READY: Final = "/-/ready"
_STATIC: Final = Path(__file__).parent / "static"
_PATHS: Final = (
    "/, /metrics, /api/v1/metrics (described by /docs, /api/v1/openapi.json), /-/healthy and "
    "/-/ready"
)
_SAFE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def application(
    current: Callable[[], Snapshot | None],
    exposition: Exposition,
    *,
    healthy: Callable[[], bool] = lambda: True,
    prefix: str = "",
    hosts: Iterable[str] | None = None,
    security: Security | None = None,
) -> Starlette:
    """The page, the API, /metrics and health checks for the snapshots that `current` returns.

    Handlers run on worker threads: those of health checks, of /metrics, and of the page and the API
    are separate, so that none delays another.

    Args:
        current: the latest snapshot, None before the first; called from several threads.
        exposition: all samples of a snapshot, for /metrics.
        healthy: whether the ingest loop makes progress, for /-/healthy.
        prefix: of all paths; "" or "/like/this".
        hosts: accepted host names, "*.example.com" for a whole domain. Without users, requests for
            other names are rejected; IP addresses, localhost and the name of this machine are
            always accepted. None accepts any name.
        security: users; None means no authentication.
    """
    security = security or Security()

    def state_of(snapshot: Snapshot | None) -> State:
        return daemon_state(snapshot, healthy=healthy())

    def metrics(request: Request) -> Response:
        openmetrics = prefers_openmetrics(request.headers.get("accept", ""))
        packed = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {"Vary": "Accept, Accept-Encoding"}
        headers |= {"Content-Type": OPENMETRICS if openmetrics else CONTENT_TYPE}
        headers |= {"Content-Encoding": "gzip"} if packed else {}
        samples = exposition(current(), openmetrics=openmetrics, packed=packed)
        return Response(samples, headers=headers)

    # Health checks need no password: probes have none.
    def is_healthy(_: Request) -> Response:
        if healthy():
            return PlainTextResponse("Healthy: the ingest loop is running.\n")
        return unavailable("Not healthy: the ingest loop makes no progress.")

    def is_ready(_: Request) -> Response:
        snapshot = current()
        now = state_of(snapshot)
        sentence = now.sentence
        if len(security.users):  # the status alone: reasons name brokers and topics
            sentence = f"{now.word}."
        elif snapshot is not None:
            sentence += f" The snapshot is {span(time.time() - snapshot.taken_at)} old."
        return PlainTextResponse(f"{sentence}\n") if now.ready else unavailable(sentence)

    def redirect(path: str) -> Callable[[Request], Response]:
        return lambda _: RedirectResponse(f"{prefix}{path}", status_code=302)

    probes = WorkerThreads(2)
    routes: list[BaseRoute] = [
        *Api(current, state_of).routes(),
        Route("/metrics", WorkerThreads(2).handler(metrics)),
        Route("/docs", redirect("/api/v1/openapi.json")),
        Route(HEALTHY, probes.handler(is_healthy)),
        Route(READY, probes.handler(is_ready)),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    if prefix:
        to_page = redirect("/")
        routes = [Mount(prefix, routes=routes), Route("/", to_page), Route(prefix, to_page)]
    return Starlette(
        routes=routes,
        exception_handlers={404: _not_found, 405: _method_not_allowed},
        middleware=[
            Middleware(
                RequestFilter,
                security=security,
                hosts=None if hosts is None else Hosts(hosts),
                open_paths={f"{prefix}{HEALTHY}", f"{prefix}{READY}"},
            )
        ],
    )


def _not_found(request: Request, _: Exception) -> Response:
    path = request.url.path[:200]
    return PlainTextResponse(f"Nothing at {path!r}; try {_PATHS}.\n", status_code=404)


def _method_not_allowed(_: Request, error: Exception) -> Response:
    headers = error.headers if isinstance(error, HTTPException) else None
    return PlainTextResponse("Method not allowed; use GET.\n", status_code=405, headers=headers)


class Hosts:
    """Accepted host names of a server without users.

    Another site can make its own name resolve to this server (DNS rebinding), and a browser then
    lets its pages read the responses. A `Host` that is an IP address is safe from this.

    Example:
        >>> hosts = Hosts(["eval.example", "*.pods.example"])
        >>> "eval.example:9877" in hosts, "a.pods.example" in hosts, "[::1]:9877" in hosts
        (True, True, True)
        >>> "evil.example" in hosts
        False
    """

    def __init__(self, names: Iterable[str]) -> None:
        always = {"localhost", "*.localhost", socket.gethostname()}
        self._names = {host_name.lower() for host_name in always.union(names)}

    def __contains__(self, host: str) -> bool:
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        else:
            name = name.partition(":")[0].rstrip(".")
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        parts = name.split(".")
        wildcards = {f"*.{'.'.join(parts[start:])}" for start in range(1, len(parts))}
        return not self._names.isdisjoint({name, *wildcards})


class RequestFilter:
    """Rejects bodies, foreign hosts and wrong passwords; adds security headers."""

    def __init__(
        self, app: ASGIApp, *, security: Security, hosts: Hosts | None, open_paths: Collection[str]
    ) -> None:
        self._app = app
        self._security = security
        self._hosts = hosts
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or pass it on."""
        if scope["type"] != "http":
            # Servers also send lifespan events.
            await self._app(scope, receive, send)
            return
        address, _ = scope["client"] or ("", 0)
        refusal = await self._refusal(scope["path"], Headers(scope=scope), address)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SAFE_HEADERS)
            await send(message)

        await (refusal or self._app)(scope, receive, send_safely)

    async def _refusal(self, path: str, headers: Headers, address: str) -> Response | None:
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return _text(413, "Requests must not have a body.", {"Connection": "close"})
        users, host = self._security.users, headers.get("host", "")
        if not users:
            if self._hosts is None or not host or host in self._hosts:
                return None
            hint = "add it to allowed_hosts in [web], or configure users"
            return _text(421, f"{host[:200]!r} is not a name of this server; {hint}.", {})
        if path in self._open_paths:
            return None
        verdict = await users.verdict(headers.get("authorization"), address)
        if verdict is Admission.BUSY:
            self._security.overload(address)
            return _text(503, "Too many passwords to check; try again.", {"Retry-After": "5"})
        if verdict is Admission.REFUSED:
            challenge = {"WWW-Authenticate": 'Basic realm="streameval", charset="UTF-8"'}
            return _text(401, "Unauthorized: send a known user and the right password.", challenge)
        return None


def _text(status: int, sentence: str, headers: dict[str, str]) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=status, headers=headers)
