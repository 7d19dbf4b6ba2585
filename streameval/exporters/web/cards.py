"""One card a metric: a column for each slice or each window, or a row where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from streameval.exporters.divisions import Division, divisions
from streameval.exporters.figures import counted
from streameval.exporters.web.markup import Markup, tag
from streameval.exporters.web.values import bar, count, most, value
from streameval.exporters.web.windows import window_rows
from streameval.metric import Metric
from streameval.pipeline.snapshot import Series, Snapshot

_COLUMNS = 4
"""Slices that stand side by side; more stand below each other."""


def cards(snapshot: Snapshot) -> Markup:
    """Every metric of a snapshot, in its order; segments under headings of their own."""
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
    names = division.family.label_names
    few = len(series) <= _COLUMNS
    if division.windowed:
        kind, rows = "windows", window_rows(division, series)
    elif few:
        kind, rows = "few", _side_by_side(series, names)
    else:
        kind, rows = "many", _below_each_other(series, names)
    segment = division.family.segment
    name = metric.text if segment is None else f"{metric.text} by {segment}"
    caption = tag("caption", f"{metric.text} by {division.by}", kind="unseen")
    return tag(
        "article",
        tag("h4" if segment else "h3", metric.text),
        tag("p", _summary(metric), kind="quiet"),
        tag(
            "div",
            tag("table", caption, *rows),
            kind="scroll",
            tabindex="0",
            role="region",
            aria_label=name,
        ),
        kind=f"card {kind}",
    )


def _summary(metric: Metric) -> str:
    direction = {True: " Higher is better.", False: " Lower is better.", None: ""}
    return metric.definition.summary + direction[metric.definition.higher_is_better]


def _side_by_side(series: Sequence[Series], names: Sequence[str]) -> list[Markup]:
    longest = most(series)
    values = [tag("td", value(entry), bar(entry, longest)) for entry in series]
    counts = [tag("td", count(entry)) for entry in series]
    unit = counted(series[0].metric)
    return [
        tag("thead", *_heads(series, names)),
        tag(
            "tbody",
            tag("tr", tag("th", "value", scope="row"), *values, kind="values"),
            tag("tr", tag("th", unit, scope="row"), *counts, kind="counts"),
        ),
    ]


def _heads(series: Sequence[Series], names: Sequence[str]) -> list[Markup]:
    rows = zip(*(entry.labels for entry in series), strict=True)
    return [
        tag("tr", tag("th", name, scope="row"), *(tag("th", each, scope="col") for each in values))
        for name, values in zip(names, rows, strict=True)
    ]


def _below_each_other(series: Sequence[Series], names: Sequence[str]) -> list[Markup]:
    longest = most(series)
    heads = [tag("th", name, scope="col") for name in names]
    units = ("value", counted(series[0].metric))
    numbers = [tag("th", unit, scope="col", kind="number") for unit in units]
    rows = [_row(entry, longest) for entry in series]
    return [tag("thead", tag("tr", *heads, *numbers)), tag("tbody", *rows)]


def _row(entry: Series, longest: float) -> Markup:
    heads = [tag("th", each, scope="row") for each in entry.labels]
    found = tag("td", value(entry), bar(entry, longest), kind="one")
    return tag("tr", *heads, found, tag("td", count(entry)))
