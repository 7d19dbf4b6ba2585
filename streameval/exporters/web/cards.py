"""The values of each metric in one window as HTML; the page's script adds charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from streameval.accumulator.comparison import percent
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import UndefinedReading
from streameval.engine.snapshot import Series, Snapshot
from streameval.exporters.view import (
    certainty,
    comparison,
    counted,
    differences,
    figure,
    moment,
)
from streameval.exporters.web.answers import Definition, definition
from streameval.exporters.web.markup import Markup, tag

_DIRECTIONS = {
    True: "Higher is better.",
    False: "Lower is better.",
    None: "Neither direction is better.",
}


def cards(snapshot: Snapshot, window: str, segment: str | None) -> Markup:
    """A section for each metric: summary, a row for each slice, and since when it is complete.

    `window`: like "5m", or "lifetime". `segment`: None for the series without one.
    """
    rows: dict[Metric, list[tuple[Series, float | None]]] = {}
    for entry, by in zip(snapshot.series, differences(snapshot), strict=True):
        if entry.window == window and snapshot.families[entry.family].segment == segment:
            rows.setdefault(entry.metric, []).append((entry, by))
    names = sorted({_name(entry) for entries in rows.values() for entry, _ in entries})
    places = {name: place for place, name in enumerate(names)}
    variants = comparison(snapshot)
    control = None if variants is None else variants.control
    return tag("", *(_card(snapshot, each, rows[each], places, control) for each in rows))


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
    if reading.no_interval is not None:
        unseen = tag("span", f": {reading.no_interval}", kind="unseen")
        parts += [" ", tag("small", "no interval", unseen, title=reading.no_interval)]
    return tag("span", *parts)


def summary(metric: Metric) -> str:
    """What a metric is, and in which direction it is better."""
    return f"{metric.definition.summary} {_DIRECTIONS[metric.definition.higher_is_better]}"


def _card(
    snapshot: Snapshot,
    metric: Metric,
    entries: Sequence[tuple[Series, float | None]],
    places: Mapping[str, int],
    control: str | None,
) -> Markup:
    first, _ = entries[0]
    heads = (
        tag("th", " · ".join(snapshot.families[first.family].label_names) or "slice", scope="col"),
        tag("th", counted(metric), scope="col", kind="number"),
        tag("th", "value", scope="col", kind="number"),
    )
    table = tag(
        "table",
        tag("caption", f"{metric.text}, {_window(first.window)}", kind="unseen"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *(_row(entry, by, places, control) for entry, by in entries)),
        kind="variants",
    )
    caption = f"{metric.text}, {_window(first.window)}"
    return tag(
        "section",
        tag("p", summary(metric), kind="quiet"),
        tag("div", table, kind="scroll", tabindex="0", role="region", aria_label=caption),
        _since([entry for entry, _ in entries]),
        _definition(definition(metric)),
        data_metric=metric.text,
        data_version=str(snapshot.version),
    )


def _definition(metric: Definition) -> Markup:
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


def _row(entry: Series, by: float | None, places: Mapping[str, int], control: str | None) -> Markup:
    name, count = _name(entry), entry.reading.count
    unit = tag("span", f" {counted(entry.metric)}", kind="unseen")
    difference = (
        "" if by is None else tag("div", _difference(entry, by, control), kind="difference")
    )
    return tag(
        "tr",
        tag("th", f" {name}", scope="row"),
        tag("td", tag("data", f"{count:,}", value=str(count)), unit, kind="count"),
        tag("td", tag("div", value(entry), kind="value"), difference),
        data_name=name,
        data_place=str(places[name]),
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
    return "\N{MINUS SIGN}" if number < 0 else "+"


def _since(entries: Sequence[Series]) -> Markup:
    begun = [entry.since for entry in entries if entry.since is not None]
    return tag("p", f"Complete from {moment(max(begun))}.", kind="quiet") if begun else Markup()


def _name(entry: Series) -> str:
    return " · ".join(entry.labels) or "all lists"


def _window(window: str) -> str:
    return "all time" if window == "lifetime" else f"last {window}"
