"""The page at /, complete without JavaScript; a small script keeps it up to date."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Final

from streameval.accumulator.comparison import percent
from streameval.catalogue.metric import Metric
from streameval.engine.snapshot import (
    CheckpointHealth,
    Health,
    PartitionHealth,
    Series,
    Snapshot,
)
from streameval.exporters.view import (
    UNDEFINED,
    Division,
    by_slice,
    counted,
    divisions,
    moment,
    span,
)
from streameval.exporters.web.cards import summary, value
from streameval.exporters.web.experiment import section
from streameval.exporters.web.gaps import section as gaps_section
from streameval.exporters.web.health import State
from streameval.exporters.web.markup import Markup, grid, tag

_HERE: Final = Path(__file__).parent
_UPLOT: Final = """<link rel="stylesheet" href="static/uplot/uPlot.min.css">
<script src="static/uplot/uPlot.iife.min.js" defer></script>"""
_DAY: Final = 86_400.0


def page(snapshot: Snapshot | None, state: State, age: int | None = None) -> str:
    """The whole page as HTML.

    `age`: of the snapshot, seconds.
    """
    return _template().substitute(
        title=tag("", f"{_source(snapshot)}: {state.word.lower()}"),
        charts=_charts(),
        state=_state(snapshot, state, age),
        experiment=_experiment(snapshot),
        gaps=_gaps(snapshot),
        metrics=_metrics(snapshot),
        health=_health(snapshot),
    )


def sections(snapshot: Snapshot | None, state: State, age: int | None = None) -> str:
    """The parts of the page that its script takes from the server unchanged."""
    parts = _experiment(snapshot), _gaps(snapshot), _health(snapshot)
    return tag("", _state(snapshot, state, age), *parts)


def _source(snapshot: Snapshot | None) -> str:
    return "streameval" if snapshot is None else snapshot.source


def _state(snapshot: Snapshot | None, state: State, age: int | None) -> Markup:
    read = "" if snapshot is None else f"Snapshot of {moment(snapshot.taken_at)}"
    if snapshot is not None:
        read += "." if age is None else f", {span(age)} old."
    return tag(
        "section",
        tag("h1", _source(snapshot), id="source"),
        tag("p", tag("strong", state.word, kind="pill"), " ", tag("span", state.why)),
        tag("p", _since(snapshot), " ", read, kind="quiet"),
        kind=f"state {state.word.lower().replace(' ', '-')}",
        id="state",
        aria_labelledby="source",
    )


def _experiment(snapshot: Snapshot | None) -> Markup:
    """The experiment with its heading; empty if none is configured."""
    report = None if snapshot is None else snapshot.experiment
    found = () if report is None else (tag("h2", "Experiment", id="compared"), section(report))
    return tag("section", *found, id="experiment", aria_label="Experiment")


def _gaps(snapshot: Snapshot | None) -> Markup:
    """The gaps with their heading; empty if none is configured."""
    gaps = () if snapshot is None else snapshot.gaps
    parts = (tag("h2", "Gaps", id="unequal"), gaps_section(gaps)) if gaps else ()
    return tag("section", *parts, id="gaps", aria_label="Gaps")


def _health(snapshot: Snapshot | None) -> Markup:
    if snapshot is None:
        return tag("div", tag("p", "No data has been read yet."), id="health")
    health = snapshot.health
    return tag("div", _totals(snapshot), _invalid(health), _partitions(health), id="health")


@cache
def _template() -> Template:
    return Template((_HERE / "page.html").read_text(encoding="utf-8"))


@cache
def _charts() -> str:
    """The tags of the chart library; empty in a checkout that was never built."""
    if not (_HERE / "static" / "uplot" / "uPlot.iife.min.js").is_file():
        return ""
    return _UPLOT


def _since(snapshot: Snapshot | None) -> Markup:
    if snapshot is None:
        return tag("", "Values appear when the first records have been read.")
    age = tag("span", span(snapshot.taken_at - snapshot.started_at), kind="age")
    effect = "A restart resets all values."
    if snapshot.counted is not None:
        effect = "Values survive restarts; counters in Prometheus do not."
    return tag("", f"Started {moment(snapshot.started_at)}, ", age, f" ago. {effect}")


def _metrics(snapshot: Snapshot | None) -> Markup:
    """A card for each metric, in the order of the snapshot; each segment has a heading."""
    if snapshot is None or not snapshot.series:
        return tag("p", "No list has been counted yet.", kind="quiet")
    parts = []
    for segment, found in groupby(divisions(snapshot), key=lambda each: each.family.segment):
        if segment is not None:
            parts.append(tag("h3", f"By {segment}", kind="segment"))
        each = [
            _card(metric, series, division)
            for division in found
            for metric, series in division.metrics
        ]
        parts.append(tag("div", *each, kind="cards"))
    return tag("", *parts)


def _card(metric: Metric, series: Sequence[Series], division: Division) -> Markup:
    segment = division.family.segment
    name = metric.text if segment is None else f"{metric.text} by {segment}"
    caption = tag("caption", f"{metric.text} by {division.by}", kind="unseen")
    return tag(
        "article",
        tag("h4" if segment else "h3", metric.text),
        tag("p", summary(metric), kind="quiet"),
        tag(
            "div",
            tag("table", caption, *_rows(division, series)),
            kind="scroll",
            tabindex="0",
            role="region",
            aria_label=name,
        ),
        kind=f"card {'windows' if division.windowed else 'many'}",
    )


def _rows(division: Division, series: Sequence[Series]) -> list[Markup]:
    of_window = {
        window: [entry for entry in series if entry.window == window] for window in division.windows
    }
    longest = {window: _largest(entries) for window, entries in of_window.items()}
    heads = [tag("th", name, scope="col") for name in division.family.label_names]
    heads += [
        _head(window if division.windowed else "value", entries)
        for window, entries in of_window.items()
    ]
    rows = [_window_row(labels, found, longest) for labels, found in by_slice(series).items()]
    return [tag("thead", tag("tr", *heads)), tag("tbody", *rows)]


def _head(window: str, entries: Sequence[Series]) -> Markup:
    """The window's name, and the beginning of its data if it is not yet complete."""
    starts = [entry.since for entry in entries if entry.since is not None]
    since = tag("small", f"since {moment(max(starts))}") if starts else Markup()
    return tag("th", window, since, scope="col", kind="number")


def _window_row(
    labels: tuple[str, ...], found: Mapping[str, Series], longest: Mapping[str, float]
) -> Markup:
    heads = [tag("th", each, scope="row") for each in labels]
    cells = [_cell(found.get(window), largest) for window, largest in longest.items()]
    return tag("tr", *heads, *cells)


def _cell(entry: Series | None, longest: float) -> Markup:
    if entry is None:
        return tag("td")
    count = tag("data", f"{entry.reading.count:,}", value=str(entry.reading.count))
    small = tag("small", "of ", count, title=counted(entry.metric))
    return tag("td", value(entry), _bar(entry, longest), small, kind="one")


def _largest(series: Iterable[Series]) -> float:
    return max((entry.reading.value for entry in series if entry.reading.defined), default=0.0)


def _bar(entry: Series, longest: float) -> Markup:
    """A bar for the value, with `longest` as a full bar; none for a negative value."""
    shown = entry.reading.value if entry.reading.defined else math.nan
    if not (0 <= shown <= longest and 0 < longest < math.inf):
        return Markup()
    return tag("meter", min="0", max=repr(longest), value=repr(shown), aria_hidden="true")


def _totals(snapshot: Snapshot) -> Markup:
    health = snapshot.health
    invalid = sum(health.invalid.values())
    totals = {
        "records read": health.consumed,
        "events": health.valid,
        "invalid": invalid,
        "tombstones": health.tombstones,
        "late": health.late,
        "from the future": health.future,
        "duplicates": health.duplicates,
        "dead letters": health.dead_lettered,
    }
    known = [entry.lag for entry in health.partitions if entry.lag is not None]
    if known:
        totals["records behind"] = sum(known)
    if health.join is not None:
        totals["lists not counted yet"] = health.join.open_lists
    texts = {name: _number(n) for name, n in totals.items() if n is not None}
    if invalid and health.consumed:
        texts["invalid"] += f" ({percent(invalid / health.consumed)})"
    times = [each.event_time for each in health.partitions if each.event_time is not None]
    if times:
        texts["newest event"] = _when(max(times) / 1_000_000, snapshot.taken_at)
    if health.checkpoint is not None:
        saved = health.checkpoint.last_success
        texts["last checkpoint"] = UNDEFINED if saved is None else _when(saved, snapshot.taken_at)
    parts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in texts.items()]
    return tag("dl", *parts, kind="totals")


def _when(seconds: float, now: float) -> str:
    """An age for live data; a date for old events."""
    age = now - seconds
    return f"{span(age)} ago" if age < _DAY else moment(seconds)


def _invalid(health: Health) -> Markup:
    found = {reason: count for reason, count in sorted(health.invalid.items()) if count}
    if not found:
        return Markup()
    rows = [
        tag("tr", tag("th", tag("code", reason), scope="row"), tag("td", _number(count)))
        for reason, count in found.items()
    ]
    return grid("Invalid records by reason", {"reason": "", "records": "number"}, rows)


def _partitions(health: Health) -> Markup:
    if not health.partitions:
        return Markup()
    saved = health.checkpoint
    names = ["next offset", "records behind", "event time", *(["durable to"] if saved else [])]
    rows = [_partition(entry, saved) for entry in health.partitions]
    return grid("Partitions", {"partition": ""} | dict.fromkeys(names, "number"), rows)


def _partition(entry: PartitionHealth, saved: CheckpointHealth | None) -> Markup:
    when, ahead = entry.event_time, " (ahead of this machine)" if entry.ahead else ""
    durable = () if saved is None else (tag("td", _known(saved.offsets.get(entry.partition))),)
    return tag(
        "tr",
        tag("th", str(entry.partition), scope="row"),
        tag("td", _number(entry.position)),
        tag("td", _known(entry.lag)),
        tag("td", UNDEFINED if when is None else moment(when / 1_000_000) + ahead),
        *durable,
    )


def _known(count: int | None) -> str:
    return UNDEFINED if count is None else _number(count)


def _number(count: int) -> str:
    return f"{count:,}"
