"""One card a metric: a table with a column for each slice, or a row where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from streameval.exporters.figures import counted, figure
from streameval.exporters.web.markup import Markup, tag
from streameval.metric import Metric
from streameval.pipeline.snapshot import Series, Snapshot
from streameval.reading import UndefinedReading

_COLUMNS = 4
"""Slices that stand side by side; more stand below each other."""


def cards(snapshot: Snapshot) -> Markup:
    """Every metric of a snapshot, in its order."""
    groups = groupby(snapshot.series, key=lambda entry: entry.metric)
    parts = [_card(metric, list(series), snapshot.label_names) for metric, series in groups]
    return tag("div", *parts, kind="cards")


def _card(metric: Metric, series: Sequence[Series], names: Sequence[str]) -> Markup:
    few = len(series) <= _COLUMNS
    rows = _side_by_side(series, names) if few else _below_each_other(series, names)
    caption = tag("caption", f"{metric.text} by {', '.join(names) or 'nothing'}", kind="unseen")
    table = tag("table", caption, *rows)
    return tag(
        "article",
        tag("h3", metric.text),
        tag("p", _summary(metric), kind="quiet"),
        tag("div", table, kind="scroll", tabindex="0", role="region", aria_label=metric.text),
        kind="card few" if few else "card many",
    )


def _summary(metric: Metric) -> str:
    direction = {True: " Higher is better.", False: " Lower is better.", None: ""}
    return metric.definition.summary + direction[metric.definition.higher_is_better]


def _side_by_side(series: Sequence[Series], names: Sequence[str]) -> list[Markup]:
    most = _most(series)
    values = [tag("td", _value(entry), _bar(entry, most)) for entry in series]
    counts = [tag("td", _count(entry)) for entry in series]
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
    most = _most(series)
    heads = [tag("th", name, scope="col") for name in names]
    units = ("value", counted(series[0].metric))
    numbers = [tag("th", unit, scope="col", kind="number") for unit in units]
    rows = [_row(entry, most) for entry in series]
    return [tag("thead", tag("tr", *heads, *numbers)), tag("tbody", *rows)]


def _row(entry: Series, most: float) -> Markup:
    heads = [tag("th", value, scope="row") for value in entry.labels]
    value = tag("td", _value(entry), _bar(entry, most), kind="one")
    return tag("tr", *heads, value, tag("td", _count(entry)))


def _most(series: Sequence[Series]) -> float:
    return max((entry.reading.value for entry in series if entry.reading.defined), default=0.0)


def _value(entry: Series) -> Markup:
    reading = entry.reading
    if not reading.defined:
        why = reading.problem if isinstance(reading, UndefinedReading) else "No evidence yet"
        return tag("span", figure(math.nan), kind="undefined", title=why)
    about = "~" if reading.estimated else ""
    return tag("data", about + figure(reading.value), value=repr(reading.value))


def _count(entry: Series) -> Markup:
    return tag("data", f"{entry.reading.count:,}", value=str(entry.reading.count))


def _bar(entry: Series, most: float) -> Markup:
    value = entry.reading.value if entry.reading.defined else math.nan
    if not (0 <= value <= most and 0 < most < math.inf):
        return Markup()
    return tag("meter", min="0", max=repr(most), value=repr(value), aria_hidden="true")
