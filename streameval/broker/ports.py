"""Ports for a server that must be able to come back to them."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

_RANGE = range(20_000, 32_000)
"""Below what systems hand to outgoing connections, so that no client sits on it at a restart."""


def free_ports(count: int) -> list[int]:
    """As many different ports of 127.0.0.1 that nothing listens on now."""
    with ExitStack() as stack:
        # All are held until all are found, so that they differ.
        return [_bound(stack) for _ in range(count)]


def _bound(stack: ExitStack) -> int:
    candidates = random.SystemRandom().sample(_RANGE, 100)
    for port in candidates:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
    raise OSError(f"no free port of 127.0.0.1 among {len(candidates)} tried")
