"""Definition of a metric for readers: in a line, or in full from its docstring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Definition, Metric
from streameval.catalogue.signature import ParameterValue
from streameval.catalogue.systems import step_of
from streameval.exporters.view import range_text, summary_of, unit_of_count

_DIRECTIONS: Final = {
    True: "Higher is better.",
    False: "Lower is better.",
    None: "Neither direction is better.",
}


class MetricDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one metric.

    Attributes:
        metric: text in the configuration.
        name: name without convention, parameters and cut-off.
        k: cut-off; None for the whole list.
        convention: name of the convention.
        system: the system whose convention it is.
        parameters: parameters given in the text.
        summary: definition in one line.
        text: the rest of the definition.
        formula: formula as text.
        range: smallest and largest possible value; None: no limit.
        higher_is_better: direction; None if neither is better.
        counts: unit of the count.
        mean: whether it is a mean, whose totals and counts can be added.
        source: source of the formula.
    """

    metric: str
    name: str
    k: int | None
    convention: str | None
    system: str | None
    parameters: Mapping[str, ParameterValue]
    summary: str
    text: str
    formula: str | None
    range: tuple[float | None, float | None]
    higher_is_better: bool | None
    counts: str
    mean: bool
    source: str


def limits(definition: Definition) -> tuple[float | None, float | None]:
    """Smallest and largest possible value; None: no limit."""
    low, high = (None if math.isinf(bound) else bound for bound in definition.bounds)
    return low, high


def definition(metric: Metric) -> MetricDefinition:
    """The definition of one metric, from its own docstring, and what its convention does otherwise.

    Example:
        >>> from streameval.catalogue import parse
        >>> definition(parse("ndcg@10")).formula
        'ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)'
        >>> definition(parse("torchmetrics:map@10")).text.rpartition(chr(10))[2]
        'As in torchmetrics 1.9.0: The sum is divided by the hits.'
    """
    entry = metric.definition
    # What follows the first line, without the example; formulas are indented.
    _, *blocks = entry.documentation.partition("\n\nExample:\n")[0].split("\n\n")
    indented = [block for block in blocks if block.startswith("    ")]
    text = "\n\n".join(" ".join(block.split()) for block in blocks if block not in indented)
    lines = [line.removeprefix("    ") for block in indented for line in block.splitlines()]
    convention = CONVENTIONS.get(metric.convention or "")
    step = step_of(metric.convention or "", metric.name)
    if convention is not None and step:
        text = f"{text}\n\nAs in {convention.system}: {step}."
    return MetricDefinition(
        metric=metric.text,
        name=entry.name,
        k=metric.k,
        convention=metric.convention,
        system=None if convention is None else convention.system,
        parameters=metric.options,
        summary=entry.summary,
        text=text,
        formula="\n".join(lines) or None,
        range=limits(entry),
        higher_is_better=metric.higher_is_better,
        counts=unit_of_count(metric),
        mean=metric.is_mean,
        source=entry.source,
    )


def facts(metric: MetricDefinition) -> Iterator[tuple[str, str]]:
    """The definition of a metric besides its text: name and fact, which may be empty."""
    yield "Range", range_text(*metric.range)
    yield "Direction", _DIRECTIONS[metric.higher_is_better]
    yield "Denominator", metric.counts
    yield "Convention", metric.system or ""
    parameters = (f"{name} = {value}" for name, value in metric.parameters.items())
    yield "Parameters", ", ".join(parameters)
    yield "Source", metric.source


def metric_summary(metric: Metric) -> str:
    """Definition of a metric in a line, and the direction in which it is better."""
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
