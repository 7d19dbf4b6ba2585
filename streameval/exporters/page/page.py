"""The page at /, complete without JavaScript; a small script keeps it up to date."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template
from typing import Final

from streameval.engine.analysis import installed
from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.cards import alone, caution, overview
from streameval.exporters.page.markup import Markup, tag
from streameval.exporters.page.pipeline import pipeline
from streameval.exporters.page.selection import Excerpt, Selection, excerpt, filters
from streameval.exporters.page.state import State
from streameval.exporters.view import moment, span

STATIC: Final = Path(__file__).parent.parent / "web" / "static"
"""Style sheet, scripts and the library of charts."""

_UPLOT: Final = """<link rel="stylesheet" href="static/uplot/uPlot.min.css">
<script src="static/uplot/uPlot.iife.min.js" defer></script>"""


def page(snapshot: Snapshot | None, state: State, selection: Selection, age: str = "") -> str:
    """The whole page as HTML.

    `age`: of the snapshot, in words, if it is worth one.
    """
    return _template().substitute(
        title=tag("title", _title(snapshot, state, selection)),
        charts=_charts(),
        main=body(snapshot, state, selection, age),
    )


def body(snapshot: Snapshot | None, state: State, selection: Selection, age: str = "") -> Markup:
    """All of the page that changes; the script replaces it as a whole."""
    chosen = None if snapshot is None or not snapshot.series else excerpt(snapshot, selection)
    return tag(
        "main",
        _state(snapshot, state, age),
        caution(snapshot),
        *_analyses(snapshot),
        _metrics(chosen),
        _pipeline(snapshot),
        data_title=_title(snapshot, state, selection),
        data_link=(selection if chosen is None else chosen.selection).link(),
    )


def _title(snapshot: Snapshot | None, state: State, selection: Selection) -> str:
    source = "streameval" if snapshot is None else snapshot.source
    alone_prefix = f"{selection.view}, " if selection.view else ""
    return f"{alone_prefix}{source}: {state.word.lower()}"


def _state(snapshot: Snapshot | None, state: State, age: str) -> Markup:
    read = "" if snapshot is None else f"Values as of {moment(snapshot.taken_at)}"
    if snapshot is not None and snapshot.stored_at is not None:
        read = ""
    elif snapshot is not None:
        read += f", {age} old." if age else "."
    return tag(
        "section",
        tag("h1", "streameval" if snapshot is None else snapshot.source, id="source"),
        tag("p", tag("strong", state.word, kind="pill"), " ", tag("span", state.why)),
        *_stored(snapshot),
        tag("p", _since(snapshot), " ", read, kind="quiet"),
        kind=f"state {state.word.lower().replace(' ', '-')}",
        id="state",
        aria_labelledby="source",
    )


def _stored(snapshot: Snapshot | None) -> Iterator[Markup]:
    """A line about values that are not counted by this process yet."""
    if snapshot is not None and snapshot.stored_at is not None:
        saved = f"These are the values of the checkpoint of {moment(snapshot.stored_at)}"
        yield tag("p", f"{saved}; newer ones follow when reading begins.", kind="alarm")


def _since(snapshot: Snapshot | None) -> Markup:
    if snapshot is None:
        return tag("", "Values appear when the first records have been read.")
    age = tag("span", span(snapshot.taken_at - snapshot.started_at), kind="age")
    effect = "A restart begins again without values."
    if snapshot.counted is not None:
        effect = "Values survive a restart; counters in Prometheus begin again at 0."
    return tag("", f"Started {moment(snapshot.started_at)}, ", age, f" ago. {effect}")


def _analyses(snapshot: Snapshot | None) -> Iterator[Markup]:
    """A section for each analysis; empty without a report, for the script to fill."""
    findings = () if snapshot is None else snapshot.findings
    for analysis in installed():
        report = analysis.report_in(findings)
        parts = (
            () if report is None else (tag("h2", analysis.title), Markup(analysis.section(report)))
        )
        yield tag("section", *parts, id=analysis.name, aria_label=analysis.title)


def _metrics(chosen: Excerpt | None) -> Markup:
    heading = tag("h2", "Metrics", id="metrics")
    if chosen is None:
        nothing = tag("p", "No list has been counted yet.", kind="quiet")
        return tag("section", heading, nothing, aria_labelledby="metrics")
    shown = alone(chosen) if chosen.selection.view else overview(chosen)
    return tag(
        "section",
        heading,
        filters(chosen),
        tag("div", shown, id="live", data_version=str(chosen.snapshot.version)),
        tag("p", _charts_note(chosen.snapshot), kind="quiet moving-only"),
        aria_labelledby="metrics",
    )


def _charts_note(snapshot: Snapshot) -> str:
    clock = "the time of events"
    if snapshot.past.clock is None:
        clock = "the time since this process started"
    return (
        f"Charts show {clock}, in UTC. Differences between values may be chance; only a verdict "
        "says which are real."
    )


def _pipeline(snapshot: Snapshot | None) -> Markup:
    return tag(
        "section",
        tag("h2", "Pipeline", id="pipeline"),
        tag("p", "Counts since this process started.", kind="quiet"),
        pipeline(snapshot),
        aria_labelledby="pipeline",
    )


@cache
def _template() -> Template:
    return Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))


@cache
def _charts() -> str:
    """The tags of the chart library; empty in a checkout that was never built."""
    return _UPLOT if (STATIC / "uplot" / "uPlot.iife.min.js").is_file() else ""
