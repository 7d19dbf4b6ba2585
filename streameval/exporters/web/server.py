"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette

from streameval.exporters.web.connection import Connection
from streameval.exporters.web.gate import Gate
from streameval.exporters.web.limits import Limits
from streameval.exporters.web.listening import http_address, listening
from streameval.exporters.web.protection import Protection, Shield


class Server:
    """Serves an application until it is stopped; its addresses are taken when it is made.

    Args:
        app: what is served.
        listen: "HOST:PORT", an IPv6 address in brackets; port 0 takes a free one. Or several.
        shield: certificates; by default none: plain HTTP.
        limits: how much of us one client may take.

    Raises:
        AddressInUseError: an address is taken, or not ours to take; none is taken then.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str | Sequence[str],
        shield: Shield | None = None,
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> None:
        self._shield = shield or Shield()
        self._sockets = _taken([listen] if isinstance(listen, str) else listen)
        self._addresses = [http_address(each) for each in self._sockets]
        self._exposed = [each for each in self._sockets if not _is_loopback(each)]
        self._server = _Uvicorn(_settings(app, limits), self._shield, limits)
        self._thread = threading.Thread(target=self._serve, name="streameval-http", daemon=True)

    @property
    def address(self) -> str:
        """Where it serves, "http://HOST:PORT"; the first of several."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """Where it serves, in the order given."""
        secure = self._shield.current.context is not None
        return [each.replace("http:", "https:", 1) if secure else each for each in self._addresses]

    @property
    def exposed(self) -> bool:
        """Whether other machines may reach it."""
        return bool(self._exposed)

    def start(self) -> None:
        """Begin to answer; what connected before is answered too."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what is being asked, for a second at most, and let go of the addresses."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        for each in self._sockets:
            each.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        self._server.run(sockets=self._sockets)


class _Uvicorn(uvicorn.Server):
    """uvicorn behind a gate: it bounds neither connections nor handshakes of its own."""

    def __init__(self, config: uvicorn.Config, shield: Shield, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits
        self._gate = Gate(self._connection, shield, limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        self.servers: list[asyncio.Server] = []
        self._gate.open(sockets or [])
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and answer what is being asked."""
        await self._gate.close()
        await super().shutdown(sockets)

    def _connection(
        self, protection: Protection, closed: Callable[[Connection], None]
    ) -> Connection:
        return Connection(
            self.config,
            self.server_state,
            limits=self._limits,
            sans=protection.sans,
            closed=closed,
        )


def try_address(listen: str) -> str:
    """The address, after it was taken and let go again.

    Raises:
        AddressInUseError: the address is taken, or not ours to take.
    """
    with listening(listen) as taken:
        return http_address(taken)


def _taken(listen: Sequence[str]) -> list[socket.socket]:
    with ExitStack() as stack:
        taken = [stack.enter_context(listening(each)) for each in listen]
        stack.pop_all()
        return taken


def _is_loopback(taken: socket.socket) -> bool:
    return ipaddress.ip_address(taken.getsockname()[0].partition("%")[0]).is_loopback


def _settings(app: Starlette, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(limits.idle),
        timeout_graceful_shutdown=1,
    )
