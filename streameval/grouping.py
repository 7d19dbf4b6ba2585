"""Lists by the group of their user: what each adds to the numerator and denominator of a mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.formulas import called, values_of
from streameval.population import counting, items_shown
from streameval.statistics.arrays import IntArray
from streameval.statistics.groups import Summed, Values
from streameval.statistics.lists import POSITIONED, GradedLists, Lists


def summed(metric: Metric, column: int, context: Context) -> Summed:
    """How the lists of a metric that reads hits or lists are summed.

    Args:
        metric: one that has intervals.
        column: its place among the metrics that are summed.
        context: what its values are made with.
    """
    per_item = metric.definition.per == "item"
    return Summed(
        column,
        bounded(metric),
        partial(_of_items if per_item else _of_lists, metric, context),
        partial(_at_ranks, metric) if per_item else np.zeros_like,
    )


def bounded(metric: Metric) -> bool:
    """Whether both ends of the metric's range are finite."""
    return all(map(math.isfinite, metric.definition.bounds))


def of_event(found: float | Iterable[float] | None) -> tuple[float, int]:
    """What the value of an event, or several, adds to numerator and denominator.

    Example:
        >>> of_event(None), of_event(0.5), of_event([1.0, math.nan, 2.0])
        ((0.0, 0), (0.5, 1), (3.0, 2))
    """
    values = () if found is None else (found,) if isinstance(found, (int, float)) else found
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite), len(finite)


def _of_lists(metric: Metric, context: Context, lists: Lists) -> Values:
    graded = isinstance(lists, GradedLists) and metric.needs_gains
    values = (
        values_of(metric, lists)
        if graded or metric.needs_values
        else np.asarray(called(metric, lists, context), np.float64)
    )
    # A list without a value, or with an infinite one, is in no mean that has an interval.
    counts = counting(metric, lists) * np.isfinite(values)
    return np.where(counts > 0, values, 0.0), counts


def _of_items(metric: Metric, context: Context, lists: Lists) -> Values:
    counts = np.where(lists.kind & POSITIONED, 0, items_shown(metric, lists))
    return np.asarray(called(metric, lists, context), np.float64), counts


class _Placed(NamedTuple):
    """Items at ranks of their own, each as if it were a list."""

    rank: IntArray

    def items(self, k: int | None) -> IntArray:
        return (self.rank <= (np.iinfo(np.int64).max if k is None else k)).astype(np.int64)


def _at_ranks(metric: Metric, ranks: IntArray) -> IntArray:
    return items_shown(metric, _Placed(ranks))
