"""What the demo shows: a table that moves in a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streameval.pipeline.snapshot import Series, Snapshot
from streameval.sources.traffic import VARIANTS, Variant, expected_ctr, expected_hit_rate

_SECONDS_BETWEEN_LINES: Final = 5.0

Values = Mapping[str, Mapping[str, Series]]
"""Metric text -> variant -> its series."""


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


def table(snapshot: Snapshot) -> Table:
    """Both variants side by side, with the true difference where the simulation knows it."""
    grid = Table(header_style="bold", title="simulated traffic, values since start")
    grid.add_column("metric")
    for name in (*VARIANTS, "difference", "true difference"):
        grid.add_column(name, justify="right", min_width=10)
    for metric, variants in _values(snapshot).items():
        found = [variants.get(variant) for variant in VARIANTS]
        truth = _truth(metric)
        true = "" if truth is None else f"{truth:+.4f}"
        grid.add_row(metric, *map(_number, found), _difference(found), true)
    return grid


def _line(snapshot: Snapshot) -> str:
    shown = [f"{snapshot.health.consumed:,} events"]
    for metric, variants in _values(snapshot).items():
        numbers = "/".join(_number(variants.get(variant)) for variant in VARIANTS)
        shown.append(f"{metric} {numbers}")
    return "  ".join(shown)


def _values(snapshot: Snapshot) -> Values:
    values: dict[str, dict[str, Series]] = {}
    for series in snapshot.series:
        values.setdefault(series.metric.text, {})[series.labels[0]] = series
    return values


def _number(series: Series | None) -> str:
    if series is None or not series.reading.defined:
        return "-"
    return f"{series.reading.value:.4f}"


def _difference(found: list[Series | None]) -> str:
    values = [each.reading.value for each in found if each is not None and each.reading.defined]
    return f"{values[1] - values[0]:+.4f}" if len(values) == len(VARIANTS) else "-"


def _truth(metric: str) -> float | None:
    def true(variant: Variant) -> float | None:
        if metric == "ctr":
            return expected_ctr(variant)
        return expected_hit_rate(variant, 10) if metric == "hit_rate@10" else None

    control, treatment = map(true, VARIANTS)
    return None if control is None or treatment is None else treatment - control


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
