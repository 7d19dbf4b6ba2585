"""Statistics whose view of a cell is the argument of metrics: those of `BY_CELL`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.counting import CountedBatch
from streameval.accumulator.formulas import call_metric, number_of
from streameval.accumulator.inputs import InputIdentities, identities
from streameval.accumulator.kinds.spec import (
    CountedTable,
    PlanLimits,
    StatisticSpec,
    name_of,
    not_kept,
)
from streameval.accumulator.make_reading import LEVELS, mean_reading, undefined_reading
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Bounded, Reading
from streameval.catalogue.summary import summary
from streameval.events.errors import UndefinedMetricError
from streameval.events.ids import IdKind
from streameval.statistics.arrays import IntArray
from streameval.statistics.asked import CellOptions, cell_options
from streameval.statistics.distributions import Distribution
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items


class CellSpec(StatisticSpec, frozen=True, kw_only=True):
    """A statistic of `BY_CELL`, by its options."""

    options: CellOptions

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return name_of(self.options)

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 0, str(self.options)

    @property
    def reads_lists(self) -> bool:
        """See `StatisticSpec`."""
        return self.options.recommended is None

    @property
    def recommended(self) -> slice | None:
        """See `StatisticSpec`."""
        return self.options.recommended

    def inputs(self, context: Context) -> InputIdentities:
        """See `StatisticSpec`."""
        of_users = context.of_users if self.options.keeps_users else {}
        return identities(context, self.options.inputs) | of_users

    def make(self, items: Items, context: Context) -> Statistic:
        """See `StatisticSpec`."""
        return self.options.make(items, dict(context.attributes))

    def count(self, statistic: Statistic, counting: CountedBatch) -> None:
        """See `StatisticSpec`."""
        lists = counting.part_of_users if self.options.keeps_users else counting.part()
        statistic.count(lists, counting.cells)

    def user_ids(self, statistic: Statistic) -> IdKind | None:
        """See `StatisticSpec`."""
        return self.options.user_ids(statistic)


def specs(metric: Metric, limits: PlanLimits) -> Iterator[StatisticSpec]:
    """The statistic that a metric reads."""
    yield CellSpec(options=cell_options(metric.reads).asked_by(metric, limits.max_items))


def names(metric: Metric, table: CountedTable) -> frozenset[str]:
    """The name of the statistic that a metric reads.

    Raises:
        NotKeptError: it was not kept.
    """
    (spec,) = specs(metric, table.limits)
    _statistic(metric, table)
    return frozenset({spec.name})


def read(
    metric: Metric, table: CountedTable, cells: IntArray, _method: object = None
) -> list[Reading]:
    """The readings of a metric in each of these cells; raises what `names` raises."""
    return [_reading(metric, view, table) for view in _statistic(metric, table).view(cells)]


def _statistic(metric: Metric, table: CountedTable) -> Statistic:
    (spec,) = specs(metric, table.limits)
    statistic = table.statistics.get(spec.name)
    if statistic is None:
        raise not_kept(metric, "it was not counted at that cut-off")
    return statistic


def _reading(metric: Metric, view: Any, table: CountedTable) -> Reading:
    lists, context = view.lists, table.context
    if metric.attribute is not None and hasattr(view, "by"):
        if (problem := view.by_problem) is not None:
            reading = mean_reading(metric, math.nan, lists, lists, problem)
            return replace(reading, total=None, estimated=True)
        attribute = dict(context.attributes)[metric.attribute]
        view = view.by(attribute.of)
        context = replace(context, catalog=frozenset(attribute.values))
    try:
        result = call_metric(metric, view, context)
    except UndefinedMetricError as error:
        return undefined_reading(metric, lists, lists, error.why)
    three = result if isinstance(result, Bounded) else [result] * 3
    expected = "a number, or Bounded(value, low, high)"
    value, low, high = (number_of(metric, number, expected) for number in three)
    if metric.values.get("statistic", "mean") not in LEVELS:
        value = summary(Distribution.of_all(np.array([value])), metric.values, metric.rules)
    return Reading(
        metric=metric.text,
        value=value,
        count=lists,
        lists=lists,
        estimated=getattr(view, "estimated", False),
        low=low if low < high else None,
        high=high if low < high else None,
    )
