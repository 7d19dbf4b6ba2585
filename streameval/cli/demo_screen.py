"""What the demo shows: a table that moves in a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streameval.cli.demo_table import number, table, values
from streameval.pipeline.snapshot import Snapshot
from streameval.sources.simulator import VARIANTS

_SECONDS_BETWEEN_LINES: Final = 5.0


class Screen(Protocol):
    """Shows snapshots.

    Attributes:
        address: "http://HOST:PORT" of the daemon, or "" before it is known.
    """

    address: str

    def __call__(self, snapshot: Snapshot) -> None:
        """Show this one."""


@contextmanager
def screen() -> Iterator[Screen]:
    """A screen that suits standard output."""
    if not sys.stdout.isatty():
        lines = Lines()
        yield lines
        lines.finish()
        return
    with Live(console=Console(), auto_refresh=False) as live:
        yield LiveTable(live)


class Lines:
    """The addresses, and then a plain line every five seconds and at the end."""

    def __init__(self) -> None:
        self.address = ""
        self._last: Snapshot | None = None
        self._next = float("-inf")

    def __call__(self, snapshot: Snapshot) -> None:
        """Write the line, if it is time and something has been counted."""
        if self._last is None:
            sys.stdout.write("".join(f"{line}\n" for line in _addresses(self.address)))
            sys.stdout.flush()
        self._last = snapshot
        if snapshot.taken_at >= self._next and snapshot.health.consumed:
            self._next = snapshot.taken_at + _SECONDS_BETWEEN_LINES
            self.finish()

    def finish(self) -> None:
        """Write the line of the last snapshot."""
        if self._last is not None:
            sys.stdout.write(f"{_line(self._last)}\n")
        sys.stdout.flush()


class LiveTable:
    """A table of both variants, redrawn with each snapshot.

    Args:
        live: where it is drawn.
    """

    def __init__(self, live: Live) -> None:
        self.address = ""
        self._live = live

    def __call__(self, snapshot: Snapshot) -> None:
        """Redraw the table."""
        text = Text("\n".join([*_addresses(self.address), _status(snapshot)]))
        self._live.update(Group(table(snapshot), text), refresh=True)


def _line(snapshot: Snapshot) -> str:
    shown = [f"{snapshot.health.consumed:,} events"]
    for metric, variants in values(snapshot).items():
        numbers = "/".join(number(variants.get(variant)) for variant in VARIANTS)
        shown.append(f"{metric} {numbers}")
    return "  ".join(shown)


def _status(snapshot: Snapshot) -> str:
    seconds = snapshot.taken_at - snapshot.started_at
    health = snapshot.health
    counts = (
        f"{health.consumed:,} events in {seconds:.0f} s, {sum(health.invalid.values()):,} invalid"
    )
    return f"{counts}. {health.trouble or 'Ctrl-C stops it.'}"


def _addresses(address: str) -> list[str]:
    return [
        f"page        {address}/",
        f"Prometheus  {address}/metrics",
        f"API         {address}/api/v1/metrics",
    ]
