"""A snapshot as a table in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from streameval.exporters.figures import figure, printable
from streameval.pipeline.snapshot import Series, Snapshot

_COLUMNS = 4
"""Slices that stand side by side; of more, each has a row."""


def table(snapshot: Snapshot, title: str | None = None) -> Table:
    """Values with their counts: a row for each metric, a column for each slice.

    More than four slices stand below each other instead. An undefined value is a dash.

    Args:
        snapshot: what is shown; label values are shown as they are, never as markup.
        title: stands above the table.
    """
    slices = list(dict.fromkeys(entry.labels for entry in snapshot.series))
    grid = Table(title=title, header_style="bold")
    grid.add_column("metric")
    if len(slices) <= _COLUMNS:
        _add_side_by_side(grid, snapshot, slices)
    else:
        _add_below_each_other(grid, snapshot)
    return grid


def _add_side_by_side(grid: Table, snapshot: Snapshot, slices: Sequence[tuple[str, ...]]) -> None:
    for each in slices:
        grid.add_column(Text(printable(" / ".join(each)) or "value"), justify="right")
    for metric, series in groupby(snapshot.series, key=lambda entry: entry.metric):
        cells = {entry.labels: _cell(entry) for entry in series}
        grid.add_row(Text(metric.text), *(cells.get(each, Text()) for each in slices))


def _add_below_each_other(grid: Table, snapshot: Snapshot) -> None:
    for name in snapshot.label_names:
        grid.add_column(Text(name))
    for name in ("value", "count"):
        grid.add_column(name, justify="right")
    for entry in snapshot.series:
        words = map(Text, map(printable, (entry.metric.text, *entry.labels)))
        grid.add_row(*words, _value(entry), f"{entry.reading.count:,}")


def _cell(entry: Series) -> Text:
    return Text.assemble(_value(entry), (f"  of {entry.reading.count:,}", "dim"))


def _value(entry: Series) -> str:
    reading = entry.reading
    value = reading.value if reading.defined else math.nan
    return ("~" if reading.estimated else "") + figure(value)
