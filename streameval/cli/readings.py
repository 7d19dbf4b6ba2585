"""Readings as a table for a person; as JSON and CSV with the shortest text that is the value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from streameval.accumulator.readings import advice
from streameval.catalogue.reading import Reading, UndefinedReading
from streameval.cli.ending import output, tell
from streameval.cli.screen import csv_text, json_text, printed
from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.engine.spans import Slice
from streameval.exporters.view import (
    Division,
    by_slice,
    certainty,
    divisions,
    figure,
    has_windows,
    printable,
)


class Taken(NamedTuple):
    """Readings of a span of event time."""

    start: str | None
    snapshot: Snapshot


def snapshot_of(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> Snapshot:
    """The readings of slices."""
    series = [
        Series(metric, labels, each.read(metric), family=place)
        for place, found in enumerate(slices)
        for metric in (next(iter(found.values())).metrics if found else ())
        for labels, each in found.items()
    ]
    health = Health(trouble=next(_advice(families, slices), None))
    return Snapshot(
        version=1,
        taken_at=0.0,
        started_at=0.0,
        source="",
        families=tuple(families),
        series=tuple(series),
        health=health,
    )


def _advice(
    families: Iterable[SeriesFamily],
    slices: Iterable[Mapping[tuple[str, ...], Slice]],
) -> Iterator[str]:
    for family, found in zip(families, slices, strict=True):
        for labels, each in found.items():
            (told,) = advice(each.table, np.array([each.cell]))
            if told is not None:
                pairs = zip(family.label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                yield f"{where}: {told}" if where else told


def write_series(taken: Sequence[Taken], written_as: str) -> None:
    """Write the readings of spans, in their order; on standard error why any has no value."""
    for metric, problem in _refusals(taken).items():
        tell(f"{metric} has no value: {problem}.")
    with output():
        sys.stdout.write(FORMATS[written_as](taken))


def _refusals(taken: Iterable[Taken]) -> dict[str, str]:
    """What a convention refuses: metric -> why, once however many slices there are."""
    readings = (entry.reading for each in taken for entry in each.snapshot.series)
    return {each.metric: each.problem for each in readings if isinstance(each, UndefinedReading)}


def as_json(taken: Sequence[Taken]) -> str:
    """A list of objects with metric, labels, value (null when undefined) and count.

    Where there are any: `start` of the span, `window`, and `since` when a value is complete. Where
    a value is not exact: `estimated`, `low` and `high`, null without bounds.
    """
    listed = ",\n ".join(map(json_text, _objects(taken)))
    return f"[{listed}]\n"


def as_csv(taken: Sequence[Taken]) -> str:
    """One line a reading: metric, a column for each label, value (empty when undefined), count.

    Where there are any: the start of the span before them, and the window before the value. Where
    a value is not exact: estimated, low and high behind the count.
    """
    rows, labels = list(_objects(taken)), _columns(taken)

    def present(*names: str) -> list[str]:
        return [name for name in names if any(name in row for row in rows)]

    front = [*present("start"), "metric"]
    behind = [*present("window"), "value", "count", *present("estimated", "low", "high")]
    return csv_text(
        [*front, *labels, *behind],
        (
            [*map(row.get, front), *map(row["labels"].get, labels), *map(row.get, behind)]
            for row in rows
        ),
    )


def as_table(taken: Sequence[Taken]) -> str:
    """The same for a person: up to four slices side by side, more below each other."""
    if all(each.start is None for each in taken):
        return "".join(printed(table(each.snapshot)) for each in taken)
    return printed(_over_time(taken))


FORMATS: Final[Mapping[str, Callable[[Sequence[Taken]], str]]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
}


def _objects(taken: Sequence[Taken]) -> Iterator[dict[str, Any]]:
    windowed = any(has_windows(each.snapshot) for each in taken)
    for each in taken:
        for entry in each.snapshot.series:
            found: dict[str, Any] = {} if each.start is None else {"start": each.start}
            found |= {"metric": entry.metric.text, "labels": _labels(each.snapshot, entry)}
            if windowed:
                found["window"] = entry.window
            if entry.since is not None:
                found["since"] = entry.since
            reading = entry.reading
            value = reading.value if reading.defined else None
            yield found | {"value": value, "count": reading.count} | _certainty(reading)


def _certainty(reading: Reading) -> dict[str, object]:
    """The bounds of an estimate; nothing for an exact value."""
    if not reading.estimated and reading.low is None:
        return {}
    return {"estimated": reading.estimated, "low": reading.low, "high": reading.high}


def _labels(snapshot: Snapshot, entry: Series) -> dict[str, str]:
    names = snapshot.families[entry.family].label_names
    return dict(zip(names, entry.labels, strict=True))


def _columns(taken: Iterable[Taken]) -> list[str]:
    families = (family for each in taken for family in each.snapshot.families)
    return list(dict.fromkeys(name for family in families for name in family.label_names))


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
    slices = list(dict.fromkeys(each.labels for _, of in division.metrics for each in of))
    if not division.windowed and len(slices) > _COLUMNS:
        series = (entry for _, of in division.metrics for entry in of)
        rows = (((entry.metric.text, *entry.labels), entry) for entry in series)
        return _listed(("metric", *division.family.label_names), rows, title)
    grid = _empty(title)
    if division.windowed:
        _add_windows(grid, division)
    else:
        _add_side_by_side(grid, division, slices)
    return grid


def _listed(
    heads: Iterable[str], rows: Iterable[tuple[Iterable[str], Series]], title: str | None = None
) -> Table:
    """A row for each reading, with words before its value and count."""
    grid = Table(title=title, header_style="bold", title_justify="left")
    for name in heads:
        grid.add_column(Text(name))
    for name in ("value", "count"):
        grid.add_column(name, justify="right")
    for words, entry in rows:
        shown = map(Text, map(printable, words))
        grid.add_row(*shown, _value(entry), f"{entry.reading.count:,}")
    return grid


def _add_side_by_side(grid: Table, division: Division, slices: Sequence[tuple[str, ...]]) -> None:
    for each in slices:
        grid.add_column(Text(printable(" / ".join(each)) or "value"), justify="right")
    for metric, series in division.metrics:
        cells = {entry.labels: _cell(entry) for entry in series}
        grid.add_row(Text(metric.text), *(cells.get(each, Text()) for each in slices))


def _add_windows(grid: Table, division: Division) -> None:
    for name in division.family.label_names:
        grid.add_column(Text(name))
    for window in division.windows:
        grid.add_column(window, justify="right")
    for metric, series in division.metrics:
        for labels, found in by_slice(series).items():
            words = map(Text, map(printable, (metric.text, *labels)))
            cells = (_cell(found[each]) if each in found else Text() for each in division.windows)
            grid.add_row(*words, *cells)


def _cell(entry: Series) -> Text:
    return Text.assemble(_value(entry), (f"  of {entry.reading.count:,}", "dim"))


def _value(entry: Series) -> str:
    reading = entry.reading
    value = reading.value if reading.defined else math.nan
    sure = certainty(reading)
    return f"{figure(value)} ({sure})" if sure else figure(value)


def _over_time(taken: Sequence[Taken]) -> Table:
    """Values with their counts of several spans, a row each."""
    names = _columns(taken)
    rows = []
    for start, snapshot in taken:
        for entry in snapshot.series:
            labels = _labels(snapshot, entry)
            words = (str(start), entry.metric.text, *(labels.get(name, "") for name in names))
            rows.append((words, entry))
    return _listed(("start", "metric", *names), rows)
