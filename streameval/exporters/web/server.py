"""The HTTP server: uvicorn on a thread, with bounded connections and deadlines."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import resource
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, Self

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from streameval.errors import AddressInUseError
from streameval.exporters.web.webconfig import Security

_BACKLOG: Final = 128
_UNENCRYPTED: Final = (
    "other machines can connect without TLS, so passwords can be intercepted; give "
    "tls_server_config in the web configuration file"
)
_OPEN: Final = (
    "other machines can connect, and there is neither TLS nor a password, so anyone on the network "
    "can read all values; give --web.config.file, or listen on 127.0.0.1 only"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of connections; times are seconds.

    Attributes:
        connections: most open connections; beyond it, a new one replaces the one idle longest. At
            most half of the files that the process may open.
        request: limit for the TLS handshake and first request of a connection, and for each later
            request from its first byte to its last.
        idle: limit from a response to the next request, including the time to receive the response;
            longer than the usual scrape interval, so that a scraper keeps its connection.
    """

    connections: int = 512
    request: float = 10.0
    idle: float = 65.0


class Server:
    """Serves an application until it is stopped; the constructor binds its addresses.

    `listen`: "HOST:PORT", an IPv6 address in brackets, port 0 for a free one; or several.

    Raises:
        AddressInUseError: an address is in use or not local; no address is bound then.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str | Sequence[str],
        security: Security | None = None,
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> None:
        self._security = security or Security()
        self._sockets = _bound([listen] if isinstance(listen, str) else listen)
        self._addresses = [_address(each, self._security) for each in self._sockets]
        self._exposed = not all(map(_is_loopback, self._sockets))
        self._uvicorn = _Uvicorn(app, self._security, limits)
        serve = partial(self._uvicorn.run, sockets=self._sockets)
        self._thread = threading.Thread(target=serve, name="streameval-http", daemon=True)

    @property
    def address(self) -> str:
        """The first of `addresses`."""
        return self._addresses[0]

    @property
    def addresses(self) -> list[str]:
        """The URLs, "http://HOST:PORT" or "https://HOST:PORT", in the given order."""
        return self._addresses

    @property
    def danger(self) -> str | None:
        """A warning if other machines can read without TLS or authentication, else None."""
        if self._security.context is not None or not self._exposed:
            return None
        return _UNENCRYPTED if self._security.users else _OPEN

    def start(self) -> None:
        """Start to answer, including clients that have already connected."""
        self._thread.start()

    def stop(self) -> None:
        """Finish pending responses within a second, and release the addresses."""
        self._uvicorn.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        for each in self._sockets:
            each.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def try_address(listen: str, security: Security | None = None) -> str:
    """Bind an address for a test; returns its URL.

    Raises:
        AddressInUseError: the address is in use or not local.
    """
    with _listening(listen) as bound:
        return _address(bound, security or Security())


def _bound(listen: Sequence[str]) -> list[socket.socket]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(_listening(each)) for each in listen]
        stack.pop_all()
        return sockets


def _listening(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    try:
        resolved = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = resolved[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends the attempted action to some messages; errno gives the plain text.
        known = error.errno is not None and error.errno > 0
        text = os.strerror(error.errno) if known and error.errno else str(error.strerror or error)
        raise AddressInUseError(listen, text[:1].lower() + text[1:]) from error


def _address(bound: socket.socket, security: Security) -> str:
    scheme = "http" if security.context is None else "https"
    host, port, *_ = bound.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


class _Uvicorn(uvicorn.Server):
    """uvicorn with our connections; shutdown does not wait for clients."""

    def __init__(self, app: Starlette, security: Security, limits: Limits) -> None:
        self._pool = _Pool(limits)
        config = uvicorn.Config(
            app,
            http=partial(_Connection, self._pool),  # type: ignore[arg-type]  # uvicorn only calls it
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(limits.idle),
            timeout_graceful_shutdown=1,
            # asyncio accepts up to a backlog of connections before one can replace another.
            backlog=min(_BACKLOG, limits.connections),
        )
        config.load()
        config.ssl = security.context
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections that wait for their clients, and finish the other responses."""
        self._pool.close_waiting()
        await super().shutdown(sockets)


class _Pool:
    """The open connections, including those in a TLS handshake."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[_Connection] = set()

    def add(self, connection: _Connection) -> None:
        """Add a connection; beyond the limit, drop the one idle longest, else the new one."""
        self._open.add(connection)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(self._open) > min(self.limits.connections, files // 2):
            waiting = (each for each in self._open if each.waiting and each is not connection)
            min(waiting, key=lambda each: each.since, default=connection).drop()

    def remove(self, connection: _Connection) -> None:
        self._open.discard(connection)

    def close_waiting(self) -> None:
        for each in [each for each in self._open if each.waiting]:
            each.drop()


class _Connection(H11Protocol):
    """uvicorn's connection with deadlines, created when a client is accepted.

    uvicorn itself limits only the time between requests: not handshakes, requests that never end,
    or responses that are not received.

    Attributes:
        since: time at which waiting for the client began, on the clock of the event loop.
    """

    def __init__(self, pool: _Pool, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pool = pool
        self._idle = False
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(pool.limits.request, self.drop)
        # asyncio creates the protocol in the task that accepts and does the handshake.
        self._accepting = asyncio.current_task()
        if self._accepting is not None:
            self._accepting.add_done_callback(self._accepted)
        pool.add(self)

    @property
    def waiting(self) -> bool:
        """Whether it waits for its client to send a request or to receive a response."""
        return not self._answering or self.flow.write_paused

    def drop(self) -> None:
        self._forget()
        if self in self.connections:
            self.transport.abort()
        elif self._accepting is not None:
            self._accepting.cancel()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; further parts do not extend the deadline."""
        if self._idle:
            self._wait(self._pool.limits.request)
        self._idle = False
        super().data_received(data)
        self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the client to receive the response and send the next request."""
        self._wait(self._pool.limits.idle)
        self._idle = True
        super().on_response_complete()
        self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request if no response has begun; then close."""
        cycle = getattr(self, "cycle", None)
        if cycle is not None:
            # The previous request may still be running; its response cannot be sent any more.
            cycle.disconnected = True
            cycle.message_event.set()
        # h11 raises if a response has begun, or for a HEAD request, whose response has no body.
        with suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to receive the response."""
        super().pause_writing()
        self._wait(self._pool.limits.idle)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    @property
    def _answering(self) -> bool:
        cycle = getattr(self, "cycle", None)  # None before the first request; typed as never None
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def _accepted(self, _task: asyncio.Task[Any]) -> None:
        if self not in self.connections:  # the handshake failed
            self._forget()

    def _wait(self, seconds: float) -> None:
        self._deadline.cancel()
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self.drop)

    def _stop_waiting(self) -> None:
        if not self.waiting:
            self._deadline.cancel()

    def _forget(self) -> None:
        self._pool.remove(self)
        self._deadline.cancel()
