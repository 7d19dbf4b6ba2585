"""How event time is divided: panes, and the windows that are made of them."""

from __future__ import annotations

import msgspec

SECOND = 1_000_000
HOUR = 3_600 * SECOND
FINE = 2 * HOUR
"""Panes are kept as they are for so long; older ones are folded into hours. Microseconds."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How event time is divided; all in microseconds.

    Attributes:
        pane: smallest span kept; divides an hour.
        spans: of the windows, ascending; empty where only the lifetime is asked for.
        lateness: so much later than the newest an event may come and still be in every window.
    """

    pane: int = 60 * SECOND
    spans: tuple[int, ...] = ()
    lateness: int = 120 * SECOND

    @property
    def kept(self) -> int:
        """How far back from the clock panes are kept."""
        return (self.spans[-1] if self.spans else 0) + self.lateness


def span_text(microseconds: int) -> str:
    """A span in the largest of hours, minutes, seconds and microseconds that divides it.

    Example:
        >>> span_text(300 * SECOND), span_text(24 * HOUR), span_text(90 * SECOND)
        ('5m', '24h', '90s')
    """
    for unit, size in (("h", HOUR), ("m", 60 * SECOND), ("s", SECOND)):
        if microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"
