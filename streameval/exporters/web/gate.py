"""Lets connections in, so many at a time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from streameval.exporters.web.connection import Connection, Step
from streameval.exporters.web.limits import Limits
from streameval.exporters.web.protection import Protection, Shield

_BREATH: Final = 0.05
"""Seconds without accepting, where the process can open no more files."""

_FAREWELL: Final = 0.5
"""Seconds for a client to agree that an encrypted connection ends."""


class Gate:
    """Accepts connections and encrypts them. Nobody waits for a client that is slow at that.

    Where there is no room, the connection whose client has been waited for longest is closed; one
    that waits for us never is. Where all of them do, the new one is closed.

    Args:
        make: a connection under a protection, with whom to tell when it has ended.
        shield: the protection in force.
        limits: of the server.
    """

    def __init__(
        self,
        make: Callable[[Protection, Callable[[Connection], None]], Connection],
        shield: Shield,
        limits: Limits,
    ) -> None:
        self._make = make
        self._shield = shield
        self._limits = limits
        self._inside: dict[Connection, asyncio.Task[None]] = {}
        self._accepting: list[asyncio.Task[None]] = []

    def open(self, sockets: Sequence[socket.socket]) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        for each in sockets:
            each.setblocking(False)  # noqa: FBT003  the name of the parameter is the method's
        self._accepting = [loop.create_task(self._accept(each)) for each in sockets]

    async def close(self) -> None:
        """Accept no more, and end what is not encrypted yet, or takes no answer."""
        for each in [each for each in self._inside if each.clogged]:
            each.drop()
        opening = [task for each, task in self._inside.items() if each.step is Step.OPENING]
        ending = [*self._accepting, *opening]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except OSError:
                self._make_room()
                await asyncio.sleep(_BREATH)
                continue
            if len(self._inside) >= self._limits.connections and not self._make_room():
                taken.close()
                continue
            protection = self._shield.current
            connection = self._make(protection, self._forget)
            task = loop.create_task(self._begin(connection, taken, protection))
            self._inside[connection] = task
            task.add_done_callback(partial(self._begun, connection, taken))

    async def _begin(
        self, connection: Connection, taken: socket.socket, protection: Protection
    ) -> None:
        secure = protection.context is not None
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            taken,
            ssl=protection.context,
            ssl_handshake_timeout=self._limits.handshake if secure else None,
            ssl_shutdown_timeout=_FAREWELL if secure else None,
        )

    def _begun(
        self, connection: Connection, taken: socket.socket, task: asyncio.Task[None]
    ) -> None:
        # A client that goes, is too slow or has no right certificate is not our trouble. A task
        # may be cancelled before its first step: then nobody else closes the socket.
        if task.cancelled() or task.exception() is not None:
            taken.close()
            self._forget(connection)

    def _make_room(self) -> bool:
        waiting = (each for each in self._inside if each.waiting)
        oldest = min(waiting, key=lambda each: each.since, default=None)
        if oldest is None:
            return False
        self._inside.pop(oldest).cancel()
        oldest.drop()
        return True

    def _forget(self, connection: Connection) -> None:
        self._inside.pop(connection, None)
