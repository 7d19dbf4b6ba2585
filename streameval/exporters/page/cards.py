"""Cards of metrics: what a metric is, its values by slice, and their charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import UndefinedReading
from streameval.engine.snapshot import Series, Snapshot
from streameval.exporters.page.charts import (
    ChartLine,
    Drawing,
    all_lines,
    chart,
    drawing,
    legend,
    over_time,
    swatch,
)
from streameval.exporters.page.definition import MetricDefinition, definition
from streameval.exporters.page.markup import Markup, tag
from streameval.exporters.page.selection import (
    Excerpt,
    Selection,
    labels_of,
    slice_name,
    window_name,
)
from streameval.exporters.view import (
    CAUTION,
    certainty,
    figure,
    has_estimates,
    moment,
    remarks,
    summary_of,
    unit_of_count,
)
from streameval.inference.words import percent

_DIRECTIONS = {
    True: "Higher is better.",
    False: "Lower is better.",
    None: "Neither direction is better.",
}


def overview(excerpt: Excerpt) -> Markup:
    """A card for each chosen metric, with a chart of the chosen window."""
    chosen = excerpt.selection
    metrics = [metric for metric in excerpt.rows if _is_chosen(metric, chosen)]
    if not metrics:
        return tag("p", "No data for this selection yet.", kind="quiet")
    articles = (
        card(
            excerpt, metric, f"points{chosen.link(view=metric.text)}", chosen.link(view=metric.text)
        )
        for metric in metrics
    )
    return tag("div", *articles, kind="cards")


def card(excerpt: Excerpt, metric: Metric, points: Drawing | str | None, link: str = "") -> Markup:
    """One metric: what it is, a row for each slice, and a chart.

    `points`: data of the chart, or its address; None for no chart. `link`: the metric alone.
    """
    name = tag("a", metric.text, href=link, data_page="") if link else metric.text
    return tag(
        "article",
        tag("h3", name),
        tag("p", summary(metric), kind="quiet"),
        values(excerpt, metric),
        Markup() if points is None else chart(points),
        kind="card",
        id=f"card-{metric.text}",
    )


def alone(excerpt: Excerpt) -> Markup:
    """One metric with its definition, and its windows over time."""
    text = excerpt.selection.view
    metric = next((metric for metric in excerpt.rows if metric.text == text), None)
    every = excerpt.selection.link(view="")
    back = tag("a", "\N{LEFTWARDS ARROW} All metrics", href=every, data_page="")
    if metric is None:
        return tag("", tag("p", back), tag("p", "No data for this selection yet.", kind="quiet"))
    charts = all_lines(excerpt, text)
    return tag(
        "",
        tag("p", back),
        tag("h3", text, kind="large", tabindex="-1"),
        _definition(definition(metric)),
        tag(
            "div",
            tag("h4", f"Now: {window_name(excerpt.window)}"),
            values(excerpt, metric),
            kind="card",
        ),
        tag(
            "div",
            *(_panel(text, title, lines) for title, lines in charts.items()),
            kind="cards wide",
        ),
        tag(
            "details",
            tag("summary", "Values over time as a table"),
            *(over_time(title, lines) for title, lines in charts.items()),
            kind="card",
        ),
    )


def values(excerpt: Excerpt, metric: Metric) -> Markup:
    """The table of a metric: a row for each slice, and since when the values are complete."""
    entries, caption = excerpt.rows[metric], f"{metric.text}, {window_name(excerpt.window)}"
    first, _ = entries[0]
    heads = (
        tag("th", " · ".join(labels_of(excerpt.snapshot, first)) or "slice", scope="col"),
        tag("th", unit_of_count(metric), scope="col", kind="number"),
        tag("th", "value", scope="col", kind="number"),
    )
    table = tag(
        "table",
        tag("caption", caption, kind="unseen"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *(_row(excerpt, entry, by) for entry, by in entries)),
        kind="variants",
    )
    return tag(
        "",
        tag("div", table, kind="scroll", tabindex="0", role="region", aria_label=caption),
        _since([entry for entry, _ in entries]),
    )


def value(entry: Series) -> Markup:
    """A value with its certainty, or a dash with the reason in words."""
    reading = entry.reading
    if not reading.defined:
        why = reading.problem if isinstance(reading, UndefinedReading) else "No data yet"
        unseen = tag("span", f" {why}", kind="unseen")
        return tag("span", figure(math.nan), unseen, kind="undefined", title=why)
    parts: list[str] = [tag("data", figure(reading.value), value=repr(reading.value))]
    if sure := certainty(reading):
        parts += [" ", tag("small", sure)]
    for remark in remarks(entry.metric, reading):
        parts += [" ", tag("small", remark)]
    if reading.no_interval is not None:
        unseen = tag("span", f": {reading.no_interval}", kind="unseen")
        parts += [" ", tag("small", "no interval", unseen, title=reading.no_interval)]
    return tag("span", *parts)


def summary(metric: Metric) -> str:
    """What a metric is, and in which direction it is better."""
    plain = summary_of(metric).replace("`", "")
    said = f"{plain} {_DIRECTIONS[metric.definition.higher_is_better]}"
    if metric.among:
        said = f"{said} Only items of {metric.among} count, at the ranks that they were shown at."
    if metric.definition.reads == "exposures" and metric.attribute is not None:
        said = f"{said} It counts the {metric.attribute} of items instead of items."
    return " ".join([said, *(f"{sentence}." for sentence in metric.naming)])


def _is_chosen(metric: Metric, selection: Selection) -> bool:
    named = not selection.metric or metric.definition.name == selection.metric
    return named and (not selection.k or str(metric.k) == selection.k)


def _panel(metric: str, title: str, lines: Sequence[ChartLine]) -> Markup:
    return tag(
        "article",
        tag("h4", title),
        legend(lines),
        chart(drawing(f"{metric}, {title}", lines), height=240),
        kind="card",
        id=f"chart-{title}",
    )


def _definition(metric: MetricDefinition) -> Markup:
    """What a metric is, for the view of that metric alone."""
    low, high = ("any" if bound is None else f"{bound:g}" for bound in metric.range)
    limits = "any number" if metric.range == (None, None) else f"{low} to {high}"
    if metric.range[0] is not None and metric.range[1] is None:
        limits = f"{low} or more"
    facts = {
        "Range": limits,
        "Direction": _DIRECTIONS[metric.higher_is_better],
        "Denominator": metric.counts,
        "Convention": metric.system,
        "Parameters": ", ".join(f"{name} = {given}" for name, given in metric.parameters.items()),
        "Source": metric.source,
    }
    formula = metric.formula and tag("pre", metric.formula, tabindex="0", aria_label="Formula")
    return tag(
        "div",
        tag("p", metric.summary),
        *(tag("p", text, kind="quiet") for text in metric.text.split("\n\n") if text),
        formula or "",
        tag(
            "dl",
            *(tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items() if text),
            kind="facts",
        ),
        kind="card definition",
    )


def _row(excerpt: Excerpt, entry: Series, by: float | None) -> Markup:
    name, count = slice_name(entry.labels), entry.reading.count
    unit = tag("span", f" {unit_of_count(entry.metric)}", kind="unseen")
    difference = Markup()
    if by is not None:
        difference = tag("div", _difference(entry, by, excerpt.control), kind="difference")
    return tag(
        "tr",
        tag("th", swatch(excerpt.places[name]), f" {name}", scope="row"),
        tag("td", tag("data", f"{count:,}", value=str(count)), unit, kind="count"),
        tag("td", tag("div", value(entry), kind="value"), difference),
    )


def _difference(entry: Series, by: float, control: str | None) -> str:
    """The difference with its sign, without a verdict: it may be due to chance."""
    if by == 0:
        return f"same as {control}"
    before = entry.reading.value - by
    share = "" if before == 0 else f" ({_sign(by / before)}{percent(abs(by / before))})"
    # Without a break before the percent sign on a narrow screen.
    share = share.replace(" %", "\N{NO-BREAK SPACE}%")
    return f"{_sign(by)}{figure(abs(by))}{share} vs {control}"


def _sign(number: float) -> str:
    return "-" if number < 0 else "+"


def _since(entries: Sequence[Series]) -> Markup:
    begun = [entry.since for entry in entries if entry.since is not None]
    return tag("p", f"Complete from {moment(max(begun))}.", kind="quiet") if begun else Markup()


def caution(snapshot: Snapshot | None) -> Markup:
    """The sentence about estimates; empty without any."""
    if snapshot is None or not has_estimates(entry.metric for entry in snapshot.series):
        return Markup()
    return tag("p", tag("strong", "estimate"), ": ", CAUTION, id="estimates")
