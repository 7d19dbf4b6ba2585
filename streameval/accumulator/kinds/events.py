"""Values of events: what metrics of `event` read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import cast

from streameval.accumulator.counting import CountedBatch
from streameval.accumulator.inputs import InputIdentities, metric_inputs
from streameval.accumulator.kinds.spec import CountedTable, PlanLimits, StatisticSpec, not_kept
from streameval.accumulator.make_reading import event_reading
from streameval.catalogue import denominator, parse
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import OF_WEIGHTS, Values, ValuesOptions
from streameval.statistics.vocabulary import Items


class EventValuesSpec(StatisticSpec, frozen=True, kw_only=True):
    """Values of events."""

    metric: Metric

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return event_values_name(self.metric)

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 3, self.metric.per_list

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return (f"values of {self.metric.per_list}",)

    @property
    def formulas(self) -> tuple[Metric, ...]:
        """See `StatisticSpec`."""
        return (self.metric,)

    def inputs(self, context: Context) -> InputIdentities:
        """See `StatisticSpec`."""
        return metric_inputs(self.metric, context)

    def make(self, items: Items, _context: Context) -> Values:
        """See `StatisticSpec`."""
        return Values(OF_WEIGHTS if self.metric.definition.weighted else ValuesOptions(), items)

    def count(self, statistic: Values, counting: CountedBatch) -> None:
        """See `StatisticSpec`."""
        statistic.add_events(counting.cells, counting.results(self.metric))


def specs(metric: Metric, _limits: PlanLimits) -> Iterator[StatisticSpec]:
    """The statistic that a metric of events reads."""
    yield EventValuesSpec(metric=metric.as_per_list)


def names(metric: Metric, table: CountedTable) -> frozenset[str]:
    """The name of the statistic that a metric reads.

    Raises:
        NotKeptError: it was not kept.
    """
    event_values(metric, table)
    return frozenset({event_values_name(metric)})


def read(
    metric: Metric, table: CountedTable, cells: IntArray, _method: object = None
) -> list[Reading]:
    """The readings of a metric in each of these cells; raises what `names` raises."""
    values, below = event_values(metric, table).view(cells), denominator(metric)
    sums = [] if below is None else [each.total for each in event_values(below, table).view(cells)]
    return [event_reading(metric, *pair) for pair in zip_longest(values, sums)]


def event_values(metric: Metric, table: CountedTable) -> Values:
    """The values of a metric of events.

    Raises:
        NotKeptError: they were not kept.
    """
    statistic = table.statistics.get(event_values_name(metric))
    if statistic is None:
        raise not_kept(metric, "its values were not kept, event by event")
    return cast("Values", statistic)


def event_values_name(metric: Metric) -> str:
    """The name of the values of events in saved states."""
    return f"events:{metric.per_list}"


def is_overlap(metric: Metric) -> bool:
    """True if a metric has a value for lists that were not shown only."""
    # A pickled definition is a copy; its function is not.
    return metric.definition.function is parse("overlap").definition.function


def overlap_metric(specs: Iterable[StatisticSpec]) -> Metric | None:
    """The metric that tells which lists were shown, of the deepest cut-off; None without one."""
    metrics = (spec.metric for spec in specs if isinstance(spec, EventValuesSpec))
    overlaps = [metric for metric in metrics if is_overlap(metric)]
    return max(overlaps, key=lambda metric: metric.k or math.inf, default=None)
