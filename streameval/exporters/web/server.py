"""The HTTP server: uvicorn on a thread, with bounded connections and deadlines."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import math
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, Self

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from streameval.events.errors import UsageError
from streameval.exporters.web.webconfig import Security

_BACKLOG: Final = 1_024
_UNENCRYPTED: Final = (
    "other machines can connect without TLS, so passwords can be intercepted; give "
    "tls_server_config in the web configuration file"
)
_OPEN: Final = (
    "other machines can connect, and there is neither TLS nor a password, so anyone on the network "
    "can read all values; give --web.config.file, or listen on 127.0.0.1 only"
)


CLIENT_SECONDS: Final = 65.0
"""Seconds that a client may keep the server waiting; more than the usual scrape interval."""

_FIRST_SECONDS: Final = 10.0
"""Seconds for a first request: clients that only connect must not take the open files of others."""


class Server:
    """Serves an application until it is stopped; the constructor binds its addresses.

    `listen`: "HOST:PORT", an IPv6 address in brackets, port 0 for a free one; or several.
    `patience`: seconds that a client may keep the server waiting, for a request (at most ten for
    the first) or to receive a response; the connection is closed after at most twice as long.

    Attributes:
        addresses: the URLs, "http://HOST:PORT" or "https://HOST:PORT", in the given order.

    Raises:
        UsageError: an address is in use or not local; no address is bound then.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str | Sequence[str],
        security: Security | None = None,
        patience: float = CLIENT_SECONDS,
    ) -> None:
        self._security = security or Security()
        with ExitStack() as stack:
            listed = [listen] if isinstance(listen, str) else listen
            self._sockets = [stack.enter_context(_listening(address)) for address in listed]
            stack.pop_all()
        self.addresses = [_address(listener, self._security) for listener in self._sockets]
        hosts = (listener.getsockname()[0].partition("%")[0] for listener in self._sockets)
        self._exposed = not all(ipaddress.ip_address(host).is_loopback for host in hosts)
        self._uvicorn = _Uvicorn(app, self._security, patience)
        serve = partial(self._uvicorn.run, sockets=self._sockets)
        self._thread = threading.Thread(target=serve, name="streameval-http", daemon=True)

    @property
    def address(self) -> str:
        """The first of `addresses`."""
        return self.addresses[0]

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
        for listener in self._sockets:
            listener.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def try_address(listen: str, security: Security | None = None) -> str:
    """Bind an address for a test; returns its URL.

    Raises:
        UsageError: the address is in use or not local.
    """
    with _listening(listen) as bound:
        return _address(bound, security or Security())


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
        text = os.strerror(error.errno or 0) if known else str(error.strerror or error)
        raise UsageError(
            f"cannot listen on {listen}: {text[:1].lower()}{text[1:]}; choose another address with "
            "[web] listen, --web.listen (run) or --listen (demo)."
        ) from error


def _address(bound: socket.socket, security: Security) -> str:
    scheme = "http" if security.context is None else "https"
    host, port, *_ = bound.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Uvicorn(uvicorn.Server):
    """uvicorn with deadlines for clients; shutdown does not wait for them."""

    def __init__(self, app: Starlette, security: Security, patience: float) -> None:
        config = uvicorn.Config(
            app,
            http=partial(_Connection, patience),  # type: ignore[arg-type]  # uvicorn only calls it
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(patience),
            timeout_graceful_shutdown=1,
            backlog=_BACKLOG,
        )
        config.load()
        config.ssl = security.context
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        asyncio.get_running_loop().set_exception_handler(_LoggedErrors())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections that wait for their clients, and finish the other responses."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, _Connection) and connection.waiting:
                connection.transport.abort()
        await super().shutdown(sockets)


class _LoggedErrors:
    """Logs errors outside a request; once a minute that no more files can be opened.

    asyncio says that for each place of the backlog and again each second.
    """

    def __init__(self) -> None:
        self._silent_until = -math.inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            if loop.time() < self._silent_until:
                return
            self._silent_until = loop.time() + 60.0
        loop.default_exception_handler(context)


class _Connection(H11Protocol):
    """uvicorn's connection, closed if its client makes no progress.

    uvicorn limits the time between requests, and asyncio that of a TLS handshake: neither limits
    requests that never end, or responses that are not received.
    """

    def __init__(self, patience: float, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._responses = 0
        self._before = (0, -1)
        self._check: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether it waits for its client to send a request or to receive a response."""
        cycle = getattr(self, "cycle", None)  # None before the first request; typed as never None
        answering = cycle is not None and not (cycle.response_complete or cycle.more_body)
        return not answering or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin to watch the client, after the TLS handshake."""
        super().connection_made(transport)
        self._check_later()

    def on_response_complete(self) -> None:
        """Count the response as progress."""
        self._responses += 1
        super().on_response_complete()

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

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._check is not None:
            self._check.cancel()

    def _check_progress(self) -> None:
        now = (self._responses, self.transport.get_write_buffer_size())
        if self.waiting and now == self._before:
            self.transport.abort()
            return
        self._before = now
        self._check_later()

    def _check_later(self) -> None:
        seconds = self._patience if self._responses else min(self._patience, _FIRST_SECONDS)
        self._check = self.loop.call_later(seconds, self._check_progress)
