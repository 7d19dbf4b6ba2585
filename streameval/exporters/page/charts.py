"""Lines over time as data: the server chooses, names and tabulates them, a script draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final

import msgspec

from streameval.events.printable import printable
from streameval.exporters.page.history import PANE, history
from streameval.exporters.page.selection import Excerpt, slice_name, window_name
from streameval.exporters.view import UNDEFINED, figure, moment
from streameval.inference.days import date_of, number_of_day
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import capital

MOST: Final = 8
"""Lines of one chart; the others are counted below it."""

_DASHES: Final = ((), (9, 5), (2, 4), (10, 4, 2, 4))
_STROKES: Final = 8
"""Lines that look unlike: of so many colours, each with one of the dashes."""

DAY_SECONDS: Final = 86_400.0
"""Seconds."""

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

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


class Drawing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data of one chart for the script that draws it.

    Attributes:
        title: what is drawn.
        label: the chart in words, for readers who do not see it.
        note: shown below it; "" for nothing.
        band: time, low and high of an area behind the lines.
        span: first and last time of a marked stretch.
        marks: times with a mark at the top.
        level: value of a dashed line from left to right.
        ends: smallest and largest value of the scale; None: those of the lines.
        logarithmic: whether the scale is.
    """

    title: str
    label: str
    note: str
    lines: Sequence[ChartLine]
    band: Sequence[tuple[float, float, float]] = ()
    span: tuple[float, float] | None = None
    marks: Sequence[float] = ()
    level: float | None = None
    ends: tuple[float, float] | None = None
    logarithmic: bool = False

    def __post_init__(self) -> None:
        for name in ("title", "label", "note"):
            msgspec.structs.force_setattr(self, name, printable(getattr(self, name)))

    def table(self) -> TextTable[float]:
        """The newest values of the lines, by time."""
        times = sorted({at for entry in self.lines for at, _ in entry.points}, reverse=True)
        by_day = all(at % DAY_SECONDS == 0 for at in times)
        first: TextColumn[float] = TextColumn("time", moment)
        if by_day:
            first = TextColumn("day", lambda at: date_of(int(at // DAY_SECONDS)).isoformat())
        columns = [
            TextColumn(entry.name, partial(_cell, dict(entry.points)), "right", is_data=True)
            for entry in self.lines
        ]
        return TextTable([first, *columns], times[:_RECENT], self.title)


def at_day(day: date) -> float:
    """The time of a day, for points of lines."""
    return DAY_SECONDS * number_of_day(day)


def chart_line(name: str, index: int, points: Iterable[tuple[float, float | None]]) -> ChartLine:
    """A line whose colour and dashes follow from a number."""
    stroke = index % _STROKES
    dash = _DASHES[stroke % len(_DASHES)]
    return ChartLine(name=printable(name), stroke=stroke, dash=dash, points=list(points))


def drawing(title: str, lines: Sequence[ChartLine], of: str = "") -> Drawing:
    """A chart of the first lines, described in words.

    `of`: what the words name before the title.
    """
    first = lines[:MOST]
    note = f"Showing {MOST} of {len(lines)} lines." if len(lines) > MOST else ""
    if max((len(entry.points) for entry in first), default=0) < 2:
        note = "Not enough points for a line yet."
    label = f"Over time: {of}{title}. {'; '.join(map(_in_words, first))}."
    return Drawing(title=title, label=label, note=note, lines=first)


def window_lines(excerpt: Excerpt, metric: str, window: str) -> list[ChartLine]:
    """A line for each chosen slice of a metric in one window; `PANE` for single panes."""
    answer = history(excerpt.snapshot, metric, window, excerpt.selection.segment or None)
    lines = []
    for series in answer.series:
        if excerpt.selection.includes(series.labels, excerpt.compared):
            name = slice_name(series.labels.values())
            points = ((at, value) for at, value, _ in series.points)
            lines.append(chart_line(name, excerpt.index_of(series.labels.values()), points))
    return lines


def drawings(excerpt: Excerpt, metric: str) -> list[Drawing]:
    """The charts of a metric shown alone: slices side by side, panes, each slice."""
    families = excerpt.snapshot.families
    names = {
        entry.window
        for entry in excerpt.snapshot.series
        if entry.metric.text == metric
        and (families[entry.family].segment or "") == excerpt.selection.segment
    }
    windows = [window for window in excerpt.windows if window in names]
    by_window = {window: window_lines(excerpt, metric, window) for window in windows}
    slices = by_window.get(excerpt.window, [])
    charts = {f"{capital(window_name(excerpt.window))}, side by side": slices}
    if panes := [entry for entry in window_lines(excerpt, metric, PANE) if entry.points]:
        charts["Each short span alone"] = panes
    if len(by_window) > 1:
        points = {
            window: {entry.name: entry.points for entry in lines}
            for window, lines in by_window.items()
        }
        for entry in slices[:MOST]:
            charts[f"{entry.name}, all windows"] = [
                chart_line(window_name(window), index, by_name.get(entry.name, ()))
                for index, (window, by_name) in enumerate(points.items())
            ]
    return [drawing(title, lines, f"{metric}, ") for title, lines in charts.items()]


def slices_now(excerpt: Excerpt, metric: str) -> Drawing:
    """A metric of the chosen slices in the chosen window, as on its card.

    Raises:
        UnknownHistory: the snapshot has no such metric.
    """
    title = f"{metric}, {window_name(excerpt.window)}"
    return drawing(title, window_lines(excerpt, metric, excerpt.window))


def _in_words(entry: ChartLine) -> str:
    values = [value for _, value in entry.points if value is not None]
    if not values:
        return f"{entry.name}: no values"
    between = f"between {figure(min(values))} and {figure(max(values))}"
    return f"{entry.name}: now {figure(values[-1])}, {between}"


def _cell(column: Mapping[float, float | None], at: float) -> str:
    if at not in column:
        return ""
    value = column[at]
    return UNDEFINED if value is None else figure(value)
