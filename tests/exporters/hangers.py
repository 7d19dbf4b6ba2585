"""Clients that connect and then do less, or more, than they should."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from streameval.exporters.web import Server


@contextmanager
def connections(port: int, count: int, opening: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many, that say this and then nothing."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            each.sendall(opening)
            made.append(each)
        yield made


def port_of(server: Server) -> int:
    return int(server.address.rsplit(":", 1)[1])


def ended(connection: socket.socket) -> bool:
    """Waits until the other side has ended it."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    return True
