"""Hits by rank, and values of lists: what metrics of `hits` and `lists` read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import msgspec
import numpy as np

from streameval.accumulator.counting import CountedBatch
from streameval.accumulator.formulas import (
    array_of,
    call_metric,
    items_recommended,
    list_values,
    lists_by_rule,
    mean_counts,
    ungraded_lists,
)
from streameval.accumulator.inputs import InputIdentities, metric_inputs
from streameval.accumulator.kinds.spec import (
    CountedTable,
    PlanLimits,
    StatisticSpec,
    filter_inputs,
    name_of,
    not_kept,
)
from streameval.accumulator.make_reading import (
    mean_reading,
    sum_reading,
    values_reading,
    with_refusals,
)
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events.errors import NotKeptError
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.distributions import Distribution, Values, ValuesOptions
from streameval.statistics.hits import Hits, HitsOfCells
from streameval.statistics.lists import HitsOptions
from streameval.statistics.vocabulary import Items


class HitsSpec(StatisticSpec, frozen=True, kw_only=True):
    """Hits by rank."""

    options: HitsOptions

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return name_of(self.options)

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 0, str(self.options)

    @property
    def lists(self) -> tuple[HitsOptions, ...]:
        """See `StatisticSpec`."""
        return (self.options,)

    @property
    def reads_lists(self) -> bool:
        """See `StatisticSpec`."""
        return reads_ids(self.options)

    def inputs(self, context: Context) -> InputIdentities:
        """See `StatisticSpec`."""
        return filter_inputs(self.options.among, context)

    def make(self, items: Items, _context: Context) -> Hits:
        """See `StatisticSpec`."""
        return Hits(self.options, items)

    def count(self, statistic: Hits, counting: CountedBatch) -> None:
        """See `StatisticSpec`."""
        if (explicit := counting.ranks(self.options)) is not None:
            rows, ranks = explicit
            statistic.add_ranks(counting.cells[rows], ranks)
        for _, lists in counting.lists(self.options):
            statistic.add(lists)


class ListValuesSpec(StatisticSpec, frozen=True, kw_only=True):
    """Values of lists.

    Attributes:
        options: of the lists.
        only_graded: whether only lists with gains have values, as hits give those of the others.
    """

    metric: Metric
    options: HitsOptions
    only_graded: bool = False

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return values_name(self.metric, only_graded=self.only_graded)

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return (1, self.metric.text) if self.only_graded else (2, self.metric.per_list)

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        if self.only_graded:
            return (f"values of {self.metric.text} with gains",)
        return (f"values of {self.metric.per_list}",)

    @property
    def lists(self) -> tuple[HitsOptions, ...]:
        """See `StatisticSpec`."""
        return (self.options,)

    def inputs(self, context: Context) -> InputIdentities:
        """See `StatisticSpec`."""
        return metric_inputs(self.metric, context)

    def make(self, items: Items, _context: Context) -> Values:
        """See `StatisticSpec`."""
        return Values(ValuesOptions(), items)

    def count(self, statistic: Values, counting: CountedBatch) -> None:
        """See `StatisticSpec`."""
        for _, lists in counting.lists(self.options):
            if lists.is_graded or not self.only_graded:
                values = list_values(self.metric, lists, counting.context)
                statistic.add(lists.cell, values, mean_counts(self.metric, lists))


def specs(metric: Metric, limits: PlanLimits) -> Iterator[StatisticSpec]:
    """The statistics that a metric of hits or lists reads."""
    options = hits_options(metric, limits.depth)
    yield HitsSpec(options=options)
    if metric.needs_values:
        yield ListValuesSpec(metric=metric.as_per_list, options=options)
    elif metric.needs_gains:
        yield ListValuesSpec(metric=metric, options=options, only_graded=True)


def names(metric: Metric, table: CountedTable) -> frozenset[str]:
    """The names of the statistics that a metric reads.

    Raises:
        NotKeptError: one was not kept, or the cut-off exceeds the ranks kept.
    """
    hits_statistic(metric, table)
    names = {name_of(hits_options(metric, table.limits.depth))}
    if metric.needs_values:
        _values(metric, table)
        names.add(values_name(metric))
    elif (graded := values_name(metric, only_graded=True)) in table.statistics:
        names.add(graded)
    return frozenset(names)


def read(
    metric: Metric, table: CountedTable, cells: IntArray, _method: object = None
) -> list[Reading]:
    """The readings of a metric in each of these cells; raises what `names` raises."""
    hits = hits_statistic(metric, table).view(cells)
    lists, rules = hits.count.tolist(), lists_by_rule(metric, hits)
    counts = rules["zero"]
    if metric.needs_values:
        values = zip(_values(metric, table).view(cells), lists, strict=True)
        readings = [values_reading(metric, *pair) for pair in values]
    else:
        is_defined = (rules["nan"] == 0) & (rules["error"] == 0)
        totals, left_out = _total(metric, hits, table, cells, is_defined)
        if metric.definition.per == "total":
            sums = zip(totals.tolist(), lists, strict=True)
            readings = [sum_reading(metric, *pair) for pair in sums]
        else:
            of_items = metric.definition.per == "item"
            in_mean = (items_recommended(metric, hits.items) if of_items else counts) - left_out
            means = zip(totals.tolist(), in_mean.tolist(), lists, strict=True)
            readings = [mean_reading(metric, *each) for each in means]
    evidence = zip(counts.tolist(), lists, strict=True)
    return with_refusals(metric, rules, readings, evidence)


def hits_statistic(metric: Metric, table: CountedTable) -> Hits:
    """The hits that a metric reads.

    Raises:
        NotKeptError: they were not kept, or the cut-off exceeds the ranks kept.
        MetricTextError: a percentile stands for a number of the metric.
    """
    metric.require_numbers()
    check_depth(metric, table.limits.depth)
    statistic = table.statistics.get(name_of(hits_options(metric, table.limits.depth)))
    if statistic is None:
        raise not_kept(metric, "hits were counted with other parameters")
    return cast("Hits", statistic)


def values_name(metric: Metric, *, only_graded: bool = False) -> str:
    """The name of the values of lists in saved states."""
    return f"graded:{metric.text}" if only_graded else f"values:{metric.per_list}"


def hits_options(metric: Metric, depth: int | None) -> HitsOptions:
    """The options of the hits that a metric reads."""
    after_cut = metric.values["repeats"] == "compact_after_cut"
    rows = (metric.values["rows"] or metric.k) if after_cut else None
    values = {**metric.values, **metric.rules, "rows": rows, "depth": depth}
    return msgspec.convert(values, HitsOptions)


def reads_ids(options: HitsOptions) -> bool:
    """True if the ids of lists are read, and not their hits alone."""
    compact = options.repeats.startswith("compact")
    return bool(options.type or options.among or compact) or options.ids != "any"


def check_depth(metric: Metric, depth: int | None) -> None:
    """Refuse a metric whose cut-off exceeds the ranks kept.

    Raises:
        NotKeptError: the cut-off is larger than `depth`.
    """
    if depth is not None and (metric.k is None or metric.k > depth):
        needed = "the whole list" if metric.k is None else f"rank {metric.k}"
        why = f"{needed}, but only the first {depth} ranks are kept"
        raise NotKeptError(
            f"metric {metric.text!r} needs {why}. Name it when you create the Accumulator, or pass "
            "a larger depth=.",
            metric=metric.text,
            why=why,
            k=metric.k,
            depth=depth,
        )


def _values(metric: Metric, table: CountedTable) -> Values:
    statistic = table.statistics.get(values_name(metric))
    if statistic is None:
        raise not_kept(metric, "its values were not kept, list by list")
    return cast("Values", statistic)


def _total(
    metric: Metric, hits: HitsOfCells, table: CountedTable, cells: IntArray, is_defined: BoolArray
) -> tuple[FloatArray, IntArray]:
    """The sum over the lists of each cell, and how many of them have no value."""
    graded = (
        np.flatnonzero((hits.graded > 0) & is_defined) if metric.needs_gains else np.zeros(0, int)
    )
    seen = hits.without_gains if metric.needs_gains else hits
    total = array_of(metric, call_metric(metric, seen, table.context), cells.size)
    left_out = np.zeros(cells.size, np.int64)
    if graded.size:
        stored = table.statistics.get(values_name(metric, only_graded=True))
        if not isinstance(stored, Values):
            raise not_kept(metric, "lists with gains came, and its values were not kept")
        valued = np.zeros(cells.size, np.int64)
        undefined = np.zeros(cells.size, np.int64)
        distributions: list[Distribution] = stored.view(cells[graded])
        for at, values in zip(graded.tolist(), distributions, strict=True):
            total[at] = math.fsum((total[at], values.total))
            valued[at], undefined[at] = values.count + values.undefined, values.undefined
        left_out[graded] = (undefined + ungraded_lists(metric, hits, valued))[graded]
    return total, left_out
