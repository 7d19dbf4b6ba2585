"""The socket to listen on, taken before anything else is started."""

from __future__ import annotations

import os
import socket

from streameval.address import HOW, host_and_port
from streameval.errors import AddressInUseError

_WAITING = 512


def listening(listen: str) -> socket.socket:
    """A socket that accepts connections at "HOST:PORT"; port 0 takes a free one.

    Raises:
        AddressInUseError: the address is taken, not ours, or no address.
    """
    found = host_and_port(listen)
    if found is None:
        raise AddressInUseError(listen, HOW)
    try:
        family, address = _resolved(*found)
        return socket.create_server(address, family=family, backlog=_WAITING)
    except OSError as error:
        raise AddressInUseError(listen, _problem(error)) from error


def http_address(taken: socket.socket) -> str:
    """Where a socket is to be found: "http://HOST:PORT"."""
    host, port, *_ = taken.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _problem(error: OSError) -> str:
    # Python appends what it attempted; the address is in the sentence already.
    known = error.errno is not None and error.errno > 0
    text = os.strerror(error.errno) if known and error.errno else str(error.strerror or error)
    return text[:1].lower() + text[1:]
