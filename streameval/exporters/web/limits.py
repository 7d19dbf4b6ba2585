"""How much of us one client may take."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a server; times are seconds.

    Attributes:
        connections: at once; the one that has been idle longest makes room for one more.
        handshake: until a connection is encrypted.
        request: from its first byte, or from the connection, to its last.
        answer: from there until the answer is there; reloading may take two minutes.
        idle: from there until it has been taken and the next request begins; longer than the
            usual scrape interval, so that a connection is kept.
    """

    connections: int = 512
    handshake: float = 10.0
    request: float = 10.0
    answer: float = 180.0
    idle: float = 65.0
