"""The socket to listen on, taken before anything else is started."""

from __future__ import annotations

import re
import socket

from streameval.errors import AddressInUseError

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")
_WAITING = 128
_LAST_PORT = 65_535


def listening(listen: str) -> socket.socket:
    """A socket that accepts connections at "HOST:PORT"; port 0 takes a free one.

    Raises:
        AddressInUseError: the address is taken, not ours, or no address.
    """
    found = _ADDRESS.fullmatch(listen)
    if found is None or int(found["port"]) > _LAST_PORT:
        raise AddressInUseError(listen, "it is not written as HOST:PORT or [IPV6]:PORT")
    try:
        family, address = _resolved(found["v6"] or found["host"], int(found["port"]))
        return socket.create_server(address, family=family, backlog=_WAITING)
    except OSError as error:
        raise AddressInUseError(listen, _problem(error)) from error


def http_address(taken: socket.socket) -> str:
    """Where a socket is to be found: "http://HOST:PORT"."""
    host, port, *_ = taken.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _problem(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
