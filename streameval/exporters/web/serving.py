"""uvicorn, as it is used here."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from streameval.exporters.web.connection import Connection
from streameval.exporters.web.gate import Gate
from streameval.exporters.web.limits import Limits
from streameval.exporters.web.protection import Protection, Shield


class Serving(uvicorn.Server):
    """uvicorn behind a gate: it bounds neither connections nor handshakes of its own.

    Args:
        app: what is served.
        shield: the protection in force.
        limits: how much of us one client may take.
    """

    def __init__(self, app: Starlette, shield: Shield, limits: Limits) -> None:
        super().__init__(_settings(app, limits))
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
