"""A snapshot as a table in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from streameval.engine.snapshot import Series, Snapshot
from streameval.exporters.view import Division, by_slice, certainty, divisions, figure, printable

_COLUMNS = 4
"""Slices that stand side by side; of more, each has a row."""


def table(snapshot: Snapshot) -> Group:
    """Values with their counts: a row for each metric, a column for each slice.

    More than four slices stand below each other instead, and so do all where there are windows,
    which take the columns then. Series of a segment have a table of their own. An undefined value
    is a dash.

    `snapshot`: what is shown; label values are shown as they are, never as markup.
    """
    found = divisions(snapshot)
    if not found:
        return Group(_empty())
    first, *others = found
    return Group(_table(first), *(_table(each, f"by {each.by}") for each in others))


def _empty(title: str | None = None) -> Table:
    grid = Table(title=title, header_style="bold", title_justify="left")
    grid.add_column("metric")
    return grid


def _table(division: Division, title: str | None = None) -> Table:
    grid = _empty(title)
    slices = list(dict.fromkeys(each.labels for _, of in division.metrics for each in of))
    if division.windowed:
        _add_windows(grid, division)
    elif len(slices) <= _COLUMNS:
        _add_side_by_side(grid, division, slices)
    else:
        _add_below_each_other(grid, division)
    return grid


def _add_side_by_side(grid: Table, division: Division, slices: Sequence[tuple[str, ...]]) -> None:
    for each in slices:
        grid.add_column(Text(printable(" / ".join(each)) or "value"), justify="right")
    for metric, series in division.metrics:
        cells = {entry.labels: _cell(entry) for entry in series}
        grid.add_row(Text(metric.text), *(cells.get(each, Text()) for each in slices))


def _add_below_each_other(grid: Table, division: Division) -> None:
    _add_labels(grid, division)
    for name in ("value", "count"):
        grid.add_column(name, justify="right")
    for _, series in division.metrics:
        for entry in series:
            words = map(Text, map(printable, (entry.metric.text, *entry.labels)))
            grid.add_row(*words, _value(entry), f"{entry.reading.count:,}")


def _add_windows(grid: Table, division: Division) -> None:
    _add_labels(grid, division)
    for window in division.windows:
        grid.add_column(window, justify="right")
    for metric, series in division.metrics:
        for labels, found in by_slice(series).items():
            words = map(Text, map(printable, (metric.text, *labels)))
            cells = (_cell(found[each]) if each in found else Text() for each in division.windows)
            grid.add_row(*words, *cells)


def _add_labels(grid: Table, division: Division) -> None:
    for name in division.family.label_names:
        grid.add_column(Text(name))


def _cell(entry: Series) -> Text:
    return Text.assemble(_value(entry), (f"  of {entry.reading.count:,}", "dim"))


def _value(entry: Series) -> str:
    reading = entry.reading
    value = reading.value if reading.defined else math.nan
    sure = certainty(reading)
    return f"{figure(value)} ({sure})" if sure else figure(value)


def over_time(snapshots: Sequence[tuple[str, Snapshot]]) -> Table:
    """Values with their counts of several spans, a row each."""
    grid = Table(header_style="bold")
    families = (family for _, each in snapshots for family in each.families)
    names = dict.fromkeys(name for family in families for name in family.label_names)
    for name in ("start", "metric", *names):
        grid.add_column(Text(name))
    for name in ("value", "count"):
        grid.add_column(name, justify="right")
    for start, snapshot in snapshots:
        for entry in snapshot.series:
            labels = zip(snapshot.families[entry.family].label_names, entry.labels, strict=True)
            known = dict(labels)
            shown = (entry.metric.text, *(known.get(name, "") for name in names))
            words = map(Text, map(printable, (start, *shown)))
            grid.add_row(*words, _value(entry), f"{entry.reading.count:,}")
    return grid
