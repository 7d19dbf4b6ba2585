"""Ports for servers of tests, and the client that asks them."""

from __future__ import annotations

import httpx

from streameval.testing.broker import free_ports
from tests.effort import PATIENCE

WEB = httpx.Client(
    trust_env=False, timeout=PATIENCE, limits=httpx.Limits(max_keepalive_connections=0)
)
"""Each request has its own connection; `httpx.get` also makes a TLS context, 50 ms of CPU."""


def free_port() -> int:
    """One of 127.0.0.1 that nothing listens on, and that no outgoing connection is given."""
    (only,) = free_ports(1)
    return only
