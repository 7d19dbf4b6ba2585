"""Lines over time as data: the server chooses, names and tabulates them, a script draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from streameval.events.printable import printable
from streameval.exporters.page.history import PANE, history
from streameval.exporters.page.markup import Markup, plain_grid, tag
from streameval.exporters.page.selection import Excerpt, slice_name, window_name
from streameval.exporters.view import UNDEFINED, figure, moment
from streameval.inference.table import TextColumn, TextTable

MOST: Final = 8
"""Lines of one chart; the others are counted below it."""

_DASHES: Final = ((), (9, 5), (2, 4), (10, 4, 2, 4))
_STROKES: Final = 8
"""Lines that look unlike: of so many colours, each with one of the dashes."""

_RECENT: Final = 30
"""Rows of the table of values over time."""


class ChartLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart.

    Attributes:
        name: of a slice or a window.
        stroke: number of its colour.
        dash: lengths of dashes and gaps, pixels; empty for a full line.
        points: seconds since the epoch and value; None leaves a gap.
    """

    name: str
    stroke: int
    dash: tuple[int, ...]
    points: Sequence[tuple[float, float | None]]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """What a script needs for one chart.

    Attributes:
        label: the chart in words, for readers who do not see it.
        note: shown below it; "" for nothing.
    """

    label: str
    note: str
    lines: Sequence[ChartLine]


def line(name: str, number: int, points: Iterable[tuple[float, float | None]]) -> ChartLine:
    """A line whose colour and dashes follow from a number."""
    stroke = number % _STROKES
    return ChartLine(name=printable(name), stroke=stroke, dash=_dash(stroke), points=list(points))


def drawing(title: str, lines: Sequence[ChartLine]) -> Drawing:
    """A chart of the first lines, described in words."""
    shown = lines[:MOST]
    note = f"Showing {MOST} of {len(lines)} lines." if len(lines) > MOST else ""
    if max((len(entry.points) for entry in shown), default=0) < 2:
        note = "Not enough points for a line yet."
    words = "; ".join(map(_in_words, shown))
    return Drawing(label=f"{title} over time. {words}.", note=note, lines=shown)


def chart(content: Drawing | str, height: int = 150) -> Markup:
    """A place for a script to draw in: with its data, or with the address of it.

    `height`: pixels.
    """
    kind, attributes = "chart", {"data_height": str(height)}
    if isinstance(content, str):
        return tag("figure", kind=kind, data_points=content, **attributes)
    text = msgspec.json.encode(content).decode().replace("<", "\\u003c")
    script = tag("script", Markup(text), type="application/json")
    return tag("figure", script, kind=kind, **attributes)


def swatch(number: int) -> Markup:
    """A short piece of the line of this number, for a legend."""
    dash, kind = " ".join(map(str, _dash(number))), f"stroke-{number % _STROKES}"
    stroke = tag("line", x1="0", y1="5", x2="30", y2="5", kind=kind, stroke_dasharray=dash)
    return tag("svg", stroke, viewBox="0 0 30 10", kind="swatch", aria_hidden="true")


def legend(lines: Sequence[ChartLine]) -> Markup:
    """The lines of a chart with their last values."""
    entries = (
        tag("li", swatch(entry.stroke), f" {entry.name} ", tag("strong", figure(_last(entry))))
        for entry in lines[:MOST]
    )
    return tag("ul", *entries, kind="legend")


def over_time(title: str, lines: Sequence[ChartLine]) -> Markup:
    """The newest values of a chart's lines as a table."""
    times = sorted({at for entry in lines for at, _ in entry.points}, reverse=True)[:_RECENT]
    columns = [
        TextColumn(entry.name, partial(_cell, dict(entry.points)), "right") for entry in lines
    ]
    return plain_grid(
        title, TextTable([TextColumn("time", moment), *columns], times), frame="scroll"
    )


def window_lines(excerpt: Excerpt, metric: str, window: str) -> list[ChartLine]:
    """A line for each chosen slice of a metric in one window; `PANE` for single panes."""
    answer = history(excerpt.snapshot, metric, window, excerpt.selection.segment or None)
    lines = []
    for series in answer.series:
        if excerpt.shows(series.labels):
            name = slice_name(series.labels.values())
            points = ((at, value) for at, value, _ in series.points)
            lines.append(line(name, excerpt.places.get(name, len(excerpt.places)), points))
    return lines


def all_lines(excerpt: Excerpt, metric: str) -> dict[str, list[ChartLine]]:
    """The charts of a metric shown alone, by title: slices side by side, panes, each slice."""
    by_window = {
        window: window_lines(excerpt, metric, window) for window in _windows_of(excerpt, metric)
    }
    slices = by_window.get(excerpt.window, [])
    charts = {f"{window_name(excerpt.window)}, side by side": slices}
    if panes := [entry for entry in window_lines(excerpt, metric, PANE) if entry.points]:
        charts["each short span alone"] = panes
    if len(by_window) > 1:
        for entry in slices[:MOST]:
            charts[f"{entry.name}, all windows"] = [
                line(window_name(window), number, _points(lines, entry.name))
                for number, (window, lines) in enumerate(by_window.items())
            ]
    return charts


def _dash(number: int) -> tuple[int, ...]:
    return _DASHES[number % len(_DASHES)]


def side_by_side(excerpt: Excerpt, metric: str) -> Drawing:
    """The chosen slices of a metric in the chosen window."""
    title = f"{metric}, {window_name(excerpt.window)}"
    return drawing(title, window_lines(excerpt, metric, excerpt.window))


def _windows_of(excerpt: Excerpt, metric: str) -> list[str]:
    """The windows that a metric has in the chosen segment."""
    snapshot, segment = excerpt.snapshot, excerpt.selection.segment or None
    names = {
        entry.window
        for entry in snapshot.series
        if entry.metric.text == metric and snapshot.families[entry.family].segment == segment
    }
    return [window for window in excerpt.windows if window in names]


def _points(lines: Sequence[ChartLine], name: str) -> Sequence[tuple[float, float | None]]:
    return next((entry.points for entry in lines if entry.name == name), ())


def _in_words(entry: ChartLine) -> str:
    values = [value for _, value in entry.points if value is not None]
    if not values:
        return f"{entry.name}: no values"
    between = f"between {figure(min(values))} and {figure(max(values))}"
    return f"{entry.name}: now {figure(values[-1])}, {between}"


def _last(entry: ChartLine) -> float:
    value = entry.points[-1][1] if entry.points else None
    return float("nan") if value is None else value


def _cell(column: Mapping[float, float | None], at: float) -> str:
    if at not in column:
        return ""
    value = column[at]
    return UNDEFINED if value is None else figure(value)
