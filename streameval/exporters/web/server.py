"""The HTTP server: uvicorn on a thread, with bounded connections and deadlines."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import math
import os
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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

MOST_CONNECTIONS: Final = 640
"""Connections open at once. One of TLS takes 0.27 MB from before its handshake, so all of them fit
into the memory limits of `deploy/`."""

MOST_BY_ADDRESS: Final = 512
"""Connections open at once from one address: the rest is for others."""

MOST_HANDSHAKES: Final = 256
"""TLS handshakes that wait for their clients at once."""

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
            addresses = [listen] if isinstance(listen, str) else listen
            self._sockets = [stack.enter_context(_listening(address)) for address in addresses]
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
        has_errno = error.errno is not None and error.errno > 0
        text = os.strerror(error.errno or 0) if has_errno else str(error.strerror or error)
        raise UsageError(
            f"cannot listen on {listen}: {text[:1].lower()}{text[1:]}; choose another address with "
            "[web] listen or --listen."
        ) from error


def _address(bound: socket.socket, security: Security) -> str:
    scheme = "http" if security.context is None else "https"
    host, port, *_ = bound.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Uvicorn(uvicorn.Server):
    """uvicorn with limits and deadlines for clients; shutdown does not wait for them."""

    def __init__(self, app: Starlette, security: Security, patience: float) -> None:
        self._patience = patience
        self._connections = _Connections(security.context, min(patience, _FIRST_SECONDS))
        self._accepting: list[asyncio.Task[None]] = []
        config = uvicorn.Config(
            app,
            http=H11Protocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(patience),
            timeout_graceful_shutdown=1,
        )
        config.load()
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections: uvicorn has no limit for those that never finish their handshake."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_LoggedErrors())
        await super().startup([])
        make = partial(
            _Connection,
            self._patience,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._accepting = [
            loop.create_task(self._connections.accept(listener, make)) for listener in sockets or []
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections that wait for their clients, and finish the other responses."""
        for task in self._accepting:
            task.cancel()
        self._connections.close_waiting()
        await super().shutdown(sockets)


class _Connections:
    """Open connections, ordered by their last progress.

    A new connection beyond a limit is accepted, and the one without progress for longest is closed:
    clients that only connect cannot shut out a scrape, which waits for milliseconds.
    """

    def __init__(self, context: ssl.SSLContext | None, handshake_seconds: float) -> None:
        self._context = context
        self._handshake_seconds = None if context is None else handshake_seconds
        self._addresses: dict[_Connection, str] = {}
        self._handshakes: dict[_Connection, asyncio.Task[None]] = {}

    async def accept(self, listener: socket.socket, make: Callable[[], _Connection]) -> None:
        """Accept the connections of a listener until the task is cancelled."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)  # noqa: FBT003  the standard library's signature
        while True:
            try:
                client, address = await loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                loop.call_exception_handler({"message": "accept failed", "exception": error})
                await asyncio.sleep(1.0)
                continue
            self._admit(client, address[0], make())
            # Otherwise a flood would keep the handshakes of accepted clients waiting.
            await asyncio.sleep(0)

    def progressed(self, connection: _Connection) -> None:
        """Move a connection to the end of the order."""
        if connection in self._addresses:
            self._addresses[connection] = self._addresses.pop(connection)

    def ended(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        self._addresses.pop(connection, None)

    def close_waiting(self) -> None:
        """Close all connections that wait for their clients."""
        for connection in list(self._waiting()):
            self._close(connection)

    def _admit(self, client: socket.socket, address: str, connection: _Connection) -> None:
        addresses = Counter(self._addresses.values())
        if len(self._handshakes) >= MOST_HANDSHAKES:
            self._close(next(iter(self._handshakes)))
        elif addresses[address] >= MOST_BY_ADDRESS:
            self._make_room(client, address)
        elif len(self._addresses) >= MOST_CONNECTIONS:
            self._make_room(client, max(addresses, key=addresses.__getitem__))
        if client.fileno() < 0:
            return
        self._addresses[connection] = address
        opened = asyncio.get_running_loop().create_task(self._open(client, connection))
        self._handshakes[connection] = opened

    def _make_room(self, client: socket.socket, address: str) -> None:
        """Close a waiting connection from this address, or the new one if none waits."""
        for connection in self._waiting():
            if self._addresses[connection] == address:
                self._close(connection)
                return
        client.close()

    def _waiting(self) -> Iterator[_Connection]:
        return (
            connection
            for connection in self._addresses
            if connection in self._handshakes or connection.waiting
        )

    async def _open(self, client: socket.socket, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
        except OSError:  # no TLS, another version, gone, or too slow
            self.ended(connection)
        finally:
            self._handshakes.pop(connection, None)

    def _close(self, connection: _Connection) -> None:
        handshake = self._handshakes.pop(connection, None)
        self._addresses.pop(connection, None)
        if handshake is not None:
            # After its first step, from which on the transport closes the socket.
            asyncio.get_running_loop().call_soon(handshake.cancel)
        else:
            connection.transport.abort()


class _LoggedErrors:
    """Logs errors outside a request; once a minute that no more files can be opened.

    Accepting fails again each second then.
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

    def __init__(
        self, patience: float, connections: _Connections, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._connections = connections
        self._responses = 0
        self._before = (0, -1)
        self._check: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """True if it waits for its client to send a request or to receive a response."""
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
        self._connections.progressed(self)
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
        self._connections.ended(self)
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
