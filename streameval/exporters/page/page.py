"""The page at /, complete without JavaScript, and a snapshot as one file to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from streameval.catalogue.metric import Metric
from streameval.engine.analysis import installed
from streameval.engine.snapshot import PartitionHealth, Snapshot, StoredPartition
from streameval.engine.windows.times import SECOND
from streameval.exporters.page.charts import (
    DAY_SECONDS,
    ChartLine,
    Drawing,
    chart_line,
    drawing,
    drawings,
)
from streameval.exporters.page.definition import definition
from streameval.exporters.page.selection import (
    Excerpt,
    Selection,
    excerpt,
    slice_name,
    window_name,
)
from streameval.exporters.page.state import State
from streameval.exporters.page.templates import render, safe
from streameval.exporters.view import ESTIMATE_WARNING, UNDEFINED, has_estimates, moment, span
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import percent

STATIC: Final = Path(__file__).parent.parent / "web" / "static"
"""Style sheet, scripts and the library of charts."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

PageSpan: TypeAlias = tuple[int | None, Snapshot]
"""The start of a span of event time, microseconds since the epoch, and its readings."""


def page(snapshot: Snapshot | None, state: State, selection: Selection, age: str = "") -> str:
    """The whole page as HTML.

    `age`: of the snapshot, in words, if it is worth one.
    """
    values = _values(snapshot, state, selection, age)
    return render("exporters/page/page.html", **values, has_charts=bool(_library()))


def body(snapshot: Snapshot | None, state: State, selection: Selection, age: str = "") -> str:
    """All of the page that changes; the script replaces it as a whole."""
    return render("exporters/page/main.html", **_values(snapshot, state, selection, age))


def document(
    title: str,
    spans: Sequence[PageSpan],
    about: Mapping[str, str] = _NOTHING,
    begin: str | None = None,
) -> str:
    """One HTML file with verdicts, checks and values, which loads nothing from elsewhere.

    Several spans give each metric a chart and a table over time; the cards show the last one.

    `title`: the heading, for example the name of the file that was evaluated. `spans`: at least
    one, in the order of time; a start of None stands for all time. `about`: how it was made, name
    and text. `begin`: the start of the last span as text.
    """
    _, last = spans[-1]
    analyses, parts = list(_analyses(last)), list(_parts(spans))
    has_charts = len(spans) > 1 or any("<figure" in content for _, _, content in analyses)
    return render(
        "exporters/page/document.html",
        title=title,
        about=about,
        style=safe("\n".join(_texts("page.css", "uplot/uPlot.min.css"))),
        trouble=last.health.trouble,
        estimate_warning=_estimate_warning(last),
        headlines=_headlines(last),
        analyses=[part for part in analyses if part[2]],
        begin=begin,
        parts=parts,
        version=version("streameval"),
        library=safe(_library()),
        script=safe("".join(_texts("chart.js"))) if has_charts and _library() else "",
    )


def _values(
    snapshot: Snapshot | None, state: State, selection: Selection, age: str
) -> dict[str, Any]:
    """Variables of the templates of the page."""
    part = None if snapshot is None or not snapshot.series else excerpt(snapshot, selection)
    source = "streameval" if snapshot is None else snapshot.source
    view = f"{selection.view}, " if selection.view else ""
    return {
        "title": f"{view}{source}: {state.word.lower()}",
        "snapshot": snapshot,
        "state": state,
        "age": age,
        "estimate_warning": _estimate_warning(snapshot),
        "headlines": _headlines(snapshot),
        "analyses": list(_analyses(snapshot)),
        "excerpt": part,
        "selection": selection if part is None else part.selection,
        "totals": () if snapshot is None else _totals(snapshot),
        "tables": () if snapshot is None else _pipeline_tables(snapshot),
        **(_single_metric(part) if part is not None and selection.view else {}),
    }


def _totals(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Name and text of each count."""
    health, now = snapshot.health, snapshot.taken_at
    invalid = sum(health.invalid.values())
    share = f" ({percent(invalid / health.consumed)})" if invalid and health.consumed else ""
    lags = [entry.lag for entry in health.partitions if entry.lag is not None]
    counts = {
        "records read": health.consumed,
        "events": health.valid,
        "invalid": invalid,
        "deletions (no value)": health.tombstones,
        "too late for a window": health.late,
        "dated in the future": health.future,
        "duplicates": health.duplicates,
        "dead letters": health.dead_lettered,
        "records behind": sum(lags) if lags else None,
        "lists not counted yet": None if health.join is None else health.join.open_lists,
    }
    for name, count in counts.items():
        if count is not None:
            yield name, f"{count:,}{share if name == 'invalid' else ''}"
    times = [entry.event_time for entry in health.partitions if entry.event_time is not None]
    if times:
        yield "newest event", _when(max(times), now)
    if health.checkpoint is not None:
        saved = health.checkpoint.last_success
        yield "last checkpoint", UNDEFINED if saved is None else _when(saved, now)


def _pipeline_tables(snapshot: Snapshot) -> Iterator[TextTable[Any]]:
    """Invalid records by reason, checkpoints, and the progress of each partition."""
    health = snapshot.health
    reasons: list[TextColumn[tuple[str, int]]] = [
        TextColumn("reason", lambda row: row[0]),
        TextColumn("records", lambda row: f"{row[1]:,}", "right"),
    ]
    invalid = [(reason, count) for reason, count in sorted(health.invalid.items()) if count]
    yield TextTable(reasons, invalid, "Invalid records by reason")
    checkpoints: list[TextColumn[StoredPartition]] = [
        TextColumn("partition", lambda entry: str(entry.log)),
        TextColumn("written", lambda entry: _time(entry.written_at), "right"),
        TextColumn("records without checkpoint", lambda entry: _count(entry.lag), "right"),
        TextColumn("problem", lambda entry: entry.problem or ""),
    ]
    yield TextTable(checkpoints, snapshot.stored, "Checkpoints")
    ahead = " (ahead of this machine)"
    progress: list[TextColumn[PartitionHealth]] = [
        TextColumn("partition", lambda entry: str(entry.log)),
        TextColumn("next offset", lambda entry: f"{entry.position:,}", "right"),
        TextColumn("records behind", lambda entry: _count(entry.lag), "right"),
        TextColumn(
            "event time",
            lambda entry: _time(entry.event_time) + ahead * bool(entry.ahead),
            "right",
        ),
    ]
    if health.checkpoint is not None:
        progress.append(TextColumn("saved up to", lambda entry: _count(entry.durable), "right"))
    yield TextTable(progress, health.partitions, "Partitions")


def _time(seconds: float | None) -> str:
    return UNDEFINED if seconds is None else moment(seconds)


def _count(count: int | None) -> str:
    return UNDEFINED if count is None else f"{count:,}"


def _when(seconds: float, now: float) -> str:
    """An age for live data; a date for old events."""
    age = now - seconds
    return f"{span(age)} ago" if age < DAY_SECONDS else moment(seconds)


def _single_metric(part: Excerpt) -> dict[str, Any]:
    """Variables of the view of one metric."""
    text = part.selection.view
    metric = next((metric for metric in part.rows if metric.text == text), None)
    if metric is None:
        return {"metric": None}
    return {
        "metric": metric,
        "definition": definition(metric),
        "drawings": drawings(part, metric.text),
    }


def _estimate_warning(snapshot: Snapshot | None) -> str:
    """The sentence about estimates; empty without any."""
    metrics = () if snapshot is None else (entry.metric for entry in snapshot.series)
    return ESTIMATE_WARNING if has_estimates(metrics) else ""


def _headlines(snapshot: Snapshot | None) -> list[tuple[str, str]]:
    """The lines above all, each with its tone."""
    findings = () if snapshot is None else snapshot.findings
    return [line for analysis, report in findings for line in analysis.headlines(report)]


def _analyses(snapshot: Snapshot | None) -> Iterator[tuple[str, str, str]]:
    """Name, title and HTML of each analysis; empty without a report, for the script to fill."""
    findings = () if snapshot is None else snapshot.findings
    for analysis in installed():
        report = analysis.report_in(findings)
        content = "" if report is None else safe(analysis.section(report))
        yield analysis.name, analysis.title, content


class _Part(NamedTuple):
    """The cards of a segment in a window of a file, each with its chart if there are spans."""

    title: str
    excerpt: Excerpt
    drawings: Mapping[Metric, Drawing | None]
    over_time: bool


def _parts(spans: Sequence[PageSpan]) -> Iterator[_Part]:
    _, last = spans[-1]
    for segment in dict.fromkeys(family.segment or "" for family in last.families):
        for window in excerpt(last, Selection(segment=segment)).windows:
            selection = Selection(segment=segment, window=window)
            part = excerpt(last, selection)
            if not part.rows:
                continue
            words = [f"By {segment}"] if segment else []
            words += [window_name(window)] if len(part.windows) > 1 else []
            excerpts = [(at, excerpt(snapshot, selection)) for at, snapshot in spans]
            several = len(spans) > 1
            charts = {
                metric: drawing(metric.text, _lines(metric, excerpts)) if several else None
                for metric in part.rows
            }
            yield _Part(", ".join(words), part, charts, several)


def _lines(metric: Metric, excerpts: Sequence[tuple[int | None, Excerpt]]) -> list[ChartLine]:
    """A line for each slice over several spans."""
    points: dict[str, list[tuple[float, float | None]]] = {}
    for start, of_span in excerpts:
        for entry, _ in of_span.rows.get(metric, ()):
            value = entry.reading.value if entry.reading.defined else None
            points.setdefault(slice_name(entry.labels), []).append(((start or 0) / SECOND, value))
    return [chart_line(name, index, points[name]) for index, name in enumerate(sorted(points))]


def _library() -> str:
    """The library of charts; empty in a checkout that was never built."""
    return "".join(_texts("uplot/uPlot.iife.min.js"))


@cache
def _texts(*names: str) -> list[str]:
    """The texts of static files that exist."""
    paths = [STATIC / name for name in names]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
