"""What the cards of metrics say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streameval.catalogue.metric import Metric
from streameval.engine.snapshot import Series
from streameval.exporters.page.definition import MetricDefinition
from streameval.exporters.view import certainty, figure, remarks, summary_of
from streameval.inference.words import percent

_DIRECTIONS: Final = {
    True: "Higher is better.",
    False: "Lower is better.",
    None: "Neither direction is better.",
}


def summary(metric: Metric) -> str:
    """What a metric is, and in which direction it is better."""
    sentences = [
        summary_of(metric).replace("`", ""),
        _DIRECTIONS[metric.definition.higher_is_better],
    ]
    if metric.among:
        among = f"Only items of {metric.among} count, at the ranks that they were shown at."
        sentences.append(among)
    if metric.definition.reads == "exposures" and metric.attribute is not None:
        sentences.append(f"It counts the {metric.attribute} of items instead of items.")
    return " ".join([*sentences, *(f"{sentence}." for sentence in metric.naming)])


def beside(entry: Series) -> list[str]:
    """What stands beside a value: its certainty, and what must be said of it."""
    return [*filter(None, [certainty(entry.reading)]), *remarks(entry.metric, entry.reading)]


def difference_text(entry: Series, by: float, control: str) -> str:
    """The difference with its sign, without a verdict: it may be due to chance."""
    if by == 0:
        return f"same as {control}"
    before = entry.reading.value - by
    share = "" if before == 0 else f" ({percent(by / before, '+')})"
    return f"{'-' if by < 0 else '+'}{figure(abs(by))}{share} vs {control}"


def facts(metric: MetricDefinition) -> Iterator[tuple[str, str]]:
    """The definition of a metric besides its text: name and fact, which may be empty."""
    low, high = ("any" if bound is None else f"{bound:g}" for bound in metric.range)
    limits = "any number" if metric.range == (None, None) else f"{low} to {high}"
    if metric.range[0] is not None and metric.range[1] is None:
        limits = f"{low} or more"
    yield "Range", limits
    yield "Direction", _DIRECTIONS[metric.higher_is_better]
    yield "Denominator", metric.counts
    yield "Convention", metric.system or ""
    parameters = (f"{name} = {value}" for name, value in metric.parameters.items())
    yield "Parameters", ", ".join(parameters)
    yield "Source", metric.source
