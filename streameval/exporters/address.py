"""The address of a server: HOST:PORT."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]:]+)):(?P<port>\d{1,5})")
_MAX_PORT = 65_535

HOW = "write HOST:PORT, for example '127.0.0.1:9877' or '[::1]:9877'"
"""How to write an address, for errors."""


def host_and_port(text: str) -> tuple[str, int] | None:
    """Host and port of "HOST:PORT", an IPv6 address in brackets; None if it is not written so.

    Example:
        >>> host_and_port("[::1]:9877")
        ('::1', 9877)
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _MAX_PORT:
        return None
    return found["bracketed"] or found["plain"], int(found["port"])
