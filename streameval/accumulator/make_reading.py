"""Makes readings: means, sums, other summaries, and those that are undefined or refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import cast

from msgspec.structs import replace

from streameval.accumulator.formulas import Summed, number_of
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading, UndefinedReading
from streameval.catalogue.signature import Empty
from streameval.catalogue.summary import summary
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Distribution

LEVELS = ("mean", "median", "quantile", "maximum")
"""Summary statistics that `finish` applies to; others are widths, not values."""


def mean_reading(
    metric: Metric, total: float, count: int, lists: int, note: str | None = None
) -> Reading:
    """The reading of a mean; undefined if nothing is in it."""
    value = total / count if count else math.nan
    return Reading(
        metric=metric.text, value=value, count=count, lists=lists, total=total, note=note
    )


def sum_reading(metric: Metric, total: float, lists: int, note: str | None = None) -> Reading:
    """The reading of a sum over lists; undefined without lists."""
    value = float(total) if lists else math.nan
    return Reading(
        metric=metric.text, value=value, count=lists, lists=lists, total=float(total), note=note
    )


def values_reading(metric: Metric, values: Summed, lists: int) -> Reading:
    """The reading of the values of lists or events; another summary needs their distribution."""
    if metric.is_mean or metric.definition.over is not None:
        return mean_reading(metric, values.total, values.count, lists)
    distribution = cast("Distribution", values)
    value = summary(distribution, metric.values, metric.rules)
    statistic = metric.values["statistic"]
    finish = metric.definition.finish if statistic in LEVELS else None
    if finish and not math.isnan(value):
        value = number_of(metric, finish(value), "a number from finish=, too")
    return Reading(
        metric=metric.text,
        value=value,
        count=values.count,
        lists=lists,
        estimated=distribution.estimated and statistic in ("median", "quantile", "maximum"),
    )


def event_reading(metric: Metric, values: Summed, below: float | None = None) -> Reading:
    """The reading of a metric of events; `below`: the sum that divides a ratio."""
    lists, rule = values.lists, metric.rules["undefined"]
    if metric.definition.over is None:
        if values.undefined and rule == "error":
            return refused_reading(metric, values.count, lists, values.undefined)
        if lists and values.count < int(metric.rules["least"]):
            return refused_reading(metric, values.count, lists, lists)
        if values.undefined and rule == "nan":
            return mean_reading(metric, math.nan, values.count, lists)
    reading = values_reading(metric, values, lists)
    if below is None:
        return reading
    value = (reading.total or 0.0) / below if below and reading.defined else math.nan
    return replace(reading, value=value, total=None, weight=below)


def refused_reading(metric: Metric, count: int, lists: int, refusing: int) -> Reading:
    """The reading of a metric whose convention raises an error on some lists."""
    problem = f"{metric.convention or 'its definition'} raises an error on {refusing} of the lists"
    return undefined_reading(metric, count, lists, problem)


def undefined_reading(metric: Metric, count: int, lists: int, problem: str) -> Reading:
    """The reading of a metric whose value raises an error."""
    return UndefinedReading(
        metric=metric.text, value=math.nan, count=count, lists=lists, problem=problem
    )


def with_refusals(
    metric: Metric,
    rules: Mapping[Empty, IntArray],
    readings: Iterable[Reading],
    evidence: Iterable[tuple[int, int]],
) -> list[Reading]:
    """The readings; without value where a rule makes the mean undefined, or refuses a list.

    `evidence`: count and lists of those without value.
    """
    rows = zip(readings, evidence, rules["error"].tolist(), rules["nan"].tolist(), strict=True)
    return [
        refused_reading(metric, *counts, refused)
        if refused
        else mean_reading(metric, math.nan, *counts)
        if undefined
        else reading
        for reading, counts, refused, undefined in rows
    ]
