"""The HTTP server: uvicorn on a thread, bounded connections, a deadline for every client."""

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
    "other machines can reach it without TLS: passwords can be read on the way; give "
    "tls_server_config in the web configuration file"
)
_OPEN: Final = (
    "other machines can reach it, and there is neither TLS nor a password: anyone who reaches it "
    "can read it; give --web.config.file, or listen on 127.0.0.1 only"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one client may take; times are seconds.

    Attributes:
        connections: open at once; one more closes the connection whose client has been waited for
            longest. At most half of the files that the process may open.
        request: until a new connection is encrypted and its first request has arrived, and from
            the first byte of a later request to its last.
        idle: from a response to the next request, the time to take the response included; longer
            than the usual scrape interval, so that a scraper keeps its connection.
    """

    connections: int = 512
    request: float = 10.0
    idle: float = 65.0


class Server:
    """Serves an application until it is stopped; it owns its addresses from the start.

    `listen`: "HOST:PORT", an IPv6 address in brackets, port 0 for a free one; or several.

    Raises:
        AddressInUseError: an address is taken or is not of this machine; none is taken then.
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
        """Where it serves, "http://HOST:PORT" or "https://HOST:PORT", in the order given."""
        return self._addresses

    @property
    def danger(self) -> str | None:
        """A warning where other machines can read without restriction; None otherwise."""
        if self._security.context is not None or not self._exposed:
            return None
        return _UNENCRYPTED if self._security.users else _OPEN

    def start(self) -> None:
        """Begin to answer; clients that connected before are answered too."""
        self._thread.start()

    def stop(self) -> None:
        """Finish responses under way, for a second at most, and free the addresses."""
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
    """The URL of an address, which is taken and freed again.

    Raises:
        AddressInUseError: the address is taken, or is not of this machine.
    """
    with _listening(listen) as taken:
        return _address(taken, security or Security())


def _bound(listen: Sequence[str]) -> list[socket.socket]:
    with ExitStack() as stack:
        taken = [stack.enter_context(_listening(each)) for each in listen]
        stack.pop_all()
        return taken


def _listening(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    try:
        resolved = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = resolved[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends to some messages what it attempted; errno has the plain one.
        known = error.errno is not None and error.errno > 0
        text = os.strerror(error.errno) if known and error.errno else str(error.strerror or error)
        raise AddressInUseError(listen, text[:1].lower() + text[1:]) from error


def _address(taken: socket.socket, security: Security) -> str:
    scheme = "http" if security.context is None else "https"
    host, port, *_ = taken.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _is_loopback(taken: socket.socket) -> bool:
    return ipaddress.ip_address(taken.getsockname()[0].partition("%")[0]).is_loopback


class _Uvicorn(uvicorn.Server):
    """uvicorn with our connections; at shutdown it does not wait for clients."""

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
            # asyncio accepts so many before a connection can make room for another.
            backlog=min(_BACKLOG, limits.connections),
        )
        config.load()
        config.ssl = security.context
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections whose clients are waited for, and finish the other responses."""
        self._pool.close_waiting()
        await super().shutdown(sockets)


class _Pool:
    """The open connections, those in a TLS handshake included; oldest wait first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[_Connection] = set()

    def add(self, connection: _Connection) -> None:
        """Admit a connection; beyond the limit, close the one waited for longest, else this one."""
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
    """uvicorn's connection with a deadline; it is made when a client is accepted.

    Of its own uvicorn bounds the time between requests only: neither a handshake, nor a request
    that does not end, nor a response that is not taken.

    Attributes:
        since: when the client was first waited for, on the clock of the event loop.
    """

    def __init__(self, pool: _Pool, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pool = pool
        self._idle = False
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(pool.limits.request, self.drop)
        # asyncio makes a protocol within the task that accepts, and does the handshake, for it.
        self._accepting = asyncio.current_task()
        if self._accepting is not None:
            self._accepting.add_done_callback(self._accepted)
        pool.add(self)

    @property
    def waiting(self) -> bool:
        """Whether its client is waited for: to send a request, or to take a response."""
        return not self._answering or self.flow.write_paused

    def drop(self) -> None:
        self._forget()
        if self in self.connections:
            self.transport.abort()
        elif self._accepting is not None:
            self._accepting.cancel()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; further pieces do not extend its deadline."""
        if self._idle:
            self._wait(self._pool.limits.request)
        self._idle = False
        super().data_received(data)
        self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the response to be taken, and for the next request."""
        self._wait(self._pool.limits.idle)
        self._idle = True
        super().on_response_complete()
        self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request if no response has begun; then close."""
        cycle = getattr(self, "cycle", None)
        if cycle is not None:
            # The request before it may still be handled: its response has nowhere to go.
            cycle.disconnected = True
            cycle.message_event.set()
        # A response is under way, or the request was a HEAD, whose response has no body.
        with suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
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
