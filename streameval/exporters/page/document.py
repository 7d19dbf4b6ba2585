"""A snapshot as one self-contained HTML file, to send to a colleague."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import TypeAlias

from streameval.catalogue.metric import Metric
from streameval.engine.snapshot import Snapshot
from streameval.engine.windows.times import SECOND
from streameval.exporters.page.cards import card, caution
from streameval.exporters.page.charts import ChartLine, Drawing, drawing, line, over_time
from streameval.exporters.page.markup import Markup, tag
from streameval.exporters.page.page import STATIC
from streameval.exporters.page.selection import (
    Excerpt,
    Selection,
    excerpt,
    slice_name,
    window_name,
)
from streameval.exporters.view import moment

Span: TypeAlias = tuple[int | None, Snapshot]
"""The start of a span of event time, microseconds since the epoch, and its readings."""


def document(title: str, spans: Sequence[Span]) -> str:
    """One HTML file with verdicts, checks and values, which loads nothing from elsewhere.

    Several spans give each metric a chart and a table over time; the cards show the last one.

    `title`: the heading, for example the name of the file that was evaluated. `spans`: at least
    one, in the order of time; a start of None stands for all time.
    """
    start, last = spans[-1]
    parts = [tag("h1", title)]
    if last.health.trouble:
        parts.append(tag("p", last.health.trouble, kind="alarm"))
    parts.append(caution(last))
    for analysis, report in last.findings:
        content = (tag("h2", analysis.title), Markup(analysis.section(report)))
        parts.append(tag("section", *content, id=analysis.name))
    if last.series:
        heading = "Metrics" if start is None else f"Metrics, from {moment(start / SECOND)}"
        parts += [tag("h2", heading), *_metrics(spans)]
    return _template().substitute(
        title=tag("title", title),
        style=_style(),
        main=tag("main", *parts),
        version=version("streameval"),
        scripts=_scripts() if len(spans) > 1 else "",
    )


def _metrics(spans: Sequence[Span]) -> Iterator[Markup]:
    """The cards of each segment in each window."""
    _, last = spans[-1]
    for segment in dict.fromkeys(family.segment or "" for family in last.families):
        for window in excerpt(last, Selection(segment=segment)).windows:
            chosen_as = Selection(segment=segment, window=window)
            chosen = excerpt(last, chosen_as)
            if not chosen.rows:
                continue
            words = [f"By {segment}"] if segment else []
            words += [window_name(window)] if len(chosen.windows) > 1 else []
            if words:
                yield tag("h3", ", ".join(words), kind="segment")
            excerpts = [(at, excerpt(snapshot, chosen_as)) for at, snapshot in spans]
            lines = {metric: _lines(metric, excerpts) for metric in chosen.rows}
            yield tag("div", *_cards(chosen, lines), kind="cards")
            if len(spans) > 1:
                yield _table(lines)


def _cards(chosen: Excerpt, lines: Mapping[Metric, Sequence[ChartLine]]) -> Iterator[Markup]:
    for metric, of_metric in lines.items():
        points: Drawing | None = drawing(metric.text, of_metric) if of_metric else None
        yield card(chosen, metric, points)


def _table(lines: Mapping[Metric, Sequence[ChartLine]]) -> Markup:
    tables = (over_time(metric.text, of_metric) for metric, of_metric in lines.items())
    return tag("details", tag("summary", "Values over time as a table"), *tables, kind="card")


def _lines(metric: Metric, excerpts: Sequence[tuple[int | None, Excerpt]]) -> list[ChartLine]:
    """A line for each slice over several spans; none for a single one."""
    if len(excerpts) < 2:
        return []
    points: dict[str, list[tuple[float, float | None]]] = {}
    for start, of_span in excerpts:
        for entry, _ in of_span.rows.get(metric, ()):
            value = entry.reading.value if entry.reading.defined else None
            points.setdefault(slice_name(entry.labels), []).append(((start or 0) / SECOND, value))
    return [line(name, number, points[name]) for number, name in enumerate(sorted(points))]


@cache
def _template() -> Template:
    return Template((Path(__file__).parent / "document.html").read_text(encoding="utf-8"))


def _style() -> str:
    return "\n".join(_texts("page.css", "uplot/uPlot.min.css"))


def _scripts() -> str:
    """The library of charts and our script; neither in a checkout that was never built."""
    library = _texts("uplot/uPlot.iife.min.js")
    if not library:
        return ""
    (script,) = _texts("chart.js")
    return f'<script>{library[0]}</script>\n<script type="module">{script}\ndrawAll();</script>'


@cache
def _texts(*names: str) -> list[str]:
    """The texts of static files that exist."""
    paths = [STATIC / name for name in names]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
