"""Ports for servers of tests."""

from __future__ import annotations

from streameval.testing.broker import free_ports


def free_port() -> int:
    """One of 127.0.0.1 that nothing listens on, and that no outgoing connection is given."""
    (found,) = free_ports(1)
    return found
