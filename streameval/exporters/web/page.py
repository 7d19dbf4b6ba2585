"""The page at /: whole without scripts, kept moving by a small one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

from streameval.exporters.figures import moment, span
from streameval.exporters.web.cards import cards
from streameval.exporters.web.health import pipeline
from streameval.exporters.web.markup import tag
from streameval.exporters.web.state import State
from streameval.pipeline.snapshot import Snapshot

_HERE = Path(__file__).parent
_UPLOT = """<link rel="stylesheet" href="static/uplot/uPlot.min.css">
<script src="static/uplot/uPlot.iife.min.js" defer></script>"""


def page(snapshot: Snapshot | None, state: State) -> str:
    """The whole page as HTML.

    Args:
        snapshot: what is shown; None before the first.
        state: what is said of it.
    """
    source = "streameval" if snapshot is None else snapshot.source
    return _template().substitute(
        title=tag("", f"{source}: {state.word.lower()}"),
        source=tag("", source),
        mood=state.word.lower().replace(" ", "-"),
        word=state.word,
        why=tag("", state.why),
        charts=_charts(),
        since=_since(snapshot),
        read="" if snapshot is None else f"Read at {moment(snapshot.taken_at)}.",
        metrics=_metrics(snapshot),
        pipeline=tag("p", "Nothing was read yet.") if snapshot is None else pipeline(snapshot),
    )


@cache
def _template() -> Template:
    return Template((_HERE / "page.html").read_text(encoding="utf-8"))


@cache
def _charts() -> str:
    """What draws them; nothing where the package was not built, as in a bare checkout."""
    if not (_HERE / "static" / "uplot" / "uPlot.iife.min.js").is_file():
        return ""
    return _UPLOT


def _since(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "Values appear as soon as the first records are read."
    age = tag("span", span(snapshot.taken_at - snapshot.started_at), kind="age")
    start = f"{moment(snapshot.started_at)}, {age} ago"
    kept = snapshot.counted is not None
    if kept:
        return f"Values outlive a restart; the last was {start}."
    return f"Values are since start: {start}."


def _metrics(snapshot: Snapshot | None) -> str:
    if snapshot is None or not snapshot.series:
        return tag("p", "No list was counted yet.", kind="quiet")
    return cards(snapshot)
