"""From statistics to a Reading: where a formula meets its evidence."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from streameval.context import Catalog, Context
from streameval.errors import NotKeptError, UndefinedMetricError
from streameval.evidence import Evidence
from streameval.formulas import called, check_inputs
from streameval.metric import Metric
from streameval.plan import check_depth, exposed, name_of, need
from streameval.population import counted, missed, spoiling
from streameval.reading import Bounded, Reading, UndefinedReading
from streameval.statistics.distributions import Distribution
from streameval.statistics.hittables import HitTables
from streameval.summary import summary

_SUSPICIOUS = 1_000
"""So many lists with interactions and not one hit: the ids are probably of two kinds."""

_LEVELS = ("mean", "median", "quantile")
"""Statistics in the unit of the values; what lies between values goes through no root."""


def answer(metric: Metric, evidence: Evidence, context: Context) -> Reading:
    """The reading of a metric.

    Raises:
        CutoffExceedsDepthError: the cut-off lies beyond the ranks kept.
        NotKeptError: a statistic that it needs was not kept.
        MissingInputError: it needs a catalogue, popularity or similarity, and there is none.
    """
    check_inputs(metric, context)
    if metric.definition.reads in ("hits", "lists"):
        return _of_lists(metric, evidence, context)
    if metric.definition.reads == "event":
        return _of_events(metric, evidence)
    return _of_slice(metric, evidence, context)


def rests_on(metric: Metric, evidence: Evidence) -> frozenset[str]:
    """Names of the statistics that the reading of a metric rests on.

    Raises:
        CutoffExceedsDepthError: the cut-off lies beyond the ranks kept.
        NotKeptError: a statistic that it needs was not kept.
    """
    if metric.definition.reads == "event":
        _check_values(metric, evidence)
        return frozenset({f"events:{metric.per_list}"})
    names = {name_of(_options(metric, evidence))}
    if metric.needs_values:
        _check_values(metric, evidence)
        names.add(f"values:{metric.per_list}")
    elif metric.text in evidence.graded:
        names.add(f"graded:{metric.text}")
    return frozenset(names)


def advice(
    metrics: Sequence[Metric], evidence: Evidence, context: Context, lists: int
) -> str | None:
    """A sentence when the lists counted look as if they were not what was meant."""
    for hits in evidence.hits:
        tables = hits.tables()
        engaged = tables.count - tables.without_interactions
        if engaged >= _SUSPICIOUS and not tables.hits:
            return (
                f"{engaged:,} lists with interactions and not one hit: do recommendations "
                "and interactions name items in the same way?"
            )
    if lists >= _SUSPICIOUS and evidence.without_scores:
        return f"{lists:,} lists and not one with scores, which auc and the like are made of"
    return _overfull(metrics, evidence, context.catalog)


def _overfull(metrics: Sequence[Metric], evidence: Evidence, catalog: Catalog | None) -> str | None:
    """A sentence when more items were shown than there are; then coverage is above 1."""
    for metric in metrics:
        if isinstance(catalog, int) and metric.definition.name == "item_coverage":
            exposures = evidence.exposures(metric.k, exposed(metric))
            distinct = 0 if exposures is None else exposures.distinct(metric.k)
            if distinct > catalog:
                return (
                    f"{distinct:,.0f} distinct items, and catalog = {catalog:,}: is the catalogue "
                    "larger, or does a list of ids stand in one id?"
                )
    return None


def _options(metric: Metric, evidence: Evidence) -> Hashable:
    """Which of the statistics kept a metric reads."""
    if metric.definition.reads in ("exposures", "users"):
        exposures = evidence.exposures(metric.k, exposed(metric))
        if exposures is None:
            raise NotKeptError(metric.text, "what it needs was not counted at that cut-off")
        return exposures.options
    ranked = metric.definition.reads in ("hits", "lists")
    if ranked:
        check_depth(metric, evidence.plan.depth)
    options = need(metric, evidence.plan.depth)
    if options not in evidence.statistics:
        problem = "what it needs was not counted at that cut-off"
        refused = "hits are not counted in that way here"
        raise NotKeptError(metric.text, refused if ranked else problem)
    return options


def _check_values(metric: Metric, evidence: Evidence) -> None:
    of_events = metric.definition.reads == "event"
    kept = evidence.plan.events if of_events else evidence.plan.values
    if metric.per_list not in {each.per_list for each in kept}:
        how = "event by event" if of_events else "list by list"
        raise NotKeptError(metric.text, f"its values were not kept, {how}")


def _of_lists(metric: Metric, evidence: Evidence, context: Context) -> Reading:
    tables = evidence.statistics[_options(metric, evidence)].tables()
    if refusing := spoiling(metric, tables, "error"):
        return _refused(metric, counted(metric, tables), tables.count, refusing)
    if spoiling(metric, tables, "nan"):
        return _mean(metric, math.nan, counted(metric, tables), tables.count)
    if metric.needs_values:
        _check_values(metric, evidence)
        return _of_values(metric, evidence.values[metric.per_list], tables.count)
    total, left_out = _total(metric, tables, evidence, context)
    if metric.definition.per == "total":
        return _sum(metric, total, tables.count)
    return _mean(metric, total, _denominator(metric, tables) - left_out, tables.count)


def _of_events(metric: Metric, evidence: Evidence) -> Reading:
    _check_values(metric, evidence)
    name, events = metric.per_list, evidence.events
    values, lists = events.distribution(name), events.lists(name)
    if values.undefined and metric.values["undefined"] == "error":
        return _refused(metric, values.count, lists, values.undefined)
    if lists and values.count < int(metric.values["least"]):
        return _refused(metric, values.count, lists, lists)
    if values.undefined and metric.values["undefined"] == "nan":
        return _mean(metric, math.nan, values.count, lists)
    return _of_values(metric, values, lists)


def _of_slice(metric: Metric, evidence: Evidence, context: Context) -> Reading:
    statistic = evidence.statistics[_options(metric, evidence)]
    lists = statistic.lists
    try:
        found = called(metric, statistic, context)
    except UndefinedMetricError as error:
        return _undefined(metric, lists, lists, error.why)
    bounded = found if isinstance(found, Bounded) else Bounded(found, found, found)
    return Reading(
        metric=metric.text,
        value=_summed_up(metric, bounded.value),
        count=lists,
        lists=lists,
        estimated=getattr(statistic, "estimated", False),
        low=bounded.low if bounded.low < bounded.high else None,
        high=bounded.high if bounded.low < bounded.high else None,
    )


def _summed_up(metric: Metric, value: float) -> float:
    """What is asked of a property of all lists: a single value, its own median."""
    if metric.values.get("statistic", "mean") in _LEVELS:
        return value
    single = Distribution()
    single.add(np.array([value]), np.array([1]))
    return summary(single, metric.values)


def _mean(metric: Metric, total: float, count: int, lists: int) -> Reading:
    value = total / count if count else math.nan
    return Reading(metric=metric.text, value=value, count=count, lists=lists, total=total)


def _sum(metric: Metric, total: float, lists: int) -> Reading:
    value = float(total) if lists else math.nan
    return Reading(metric=metric.text, value=value, count=lists, lists=lists, total=float(total))


def _of_values(metric: Metric, values: Distribution, lists: int) -> Reading:
    if metric.is_mean:
        return _mean(metric, values.total, values.count, lists)
    value = summary(values, metric.values)
    statistic = metric.values["statistic"]
    finish = metric.definition.finish if statistic in _LEVELS else None
    return Reading(
        metric=metric.text,
        value=finish(value) if finish and not math.isnan(value) else value,
        count=values.count,
        lists=lists,
        estimated=values.estimated and statistic in ("median", "quantile"),
    )


def _refused(metric: Metric, count: int, lists: int, refusing: int) -> Reading:
    problem = f"{metric.convention or 'its definition'} raises an error on {refusing} of the lists"
    return _undefined(metric, count, lists, problem)


def _undefined(metric: Metric, count: int, lists: int, problem: str) -> Reading:
    return UndefinedReading(
        metric=metric.text, value=math.nan, count=count, lists=lists, problem=problem
    )


def _denominator(metric: Metric, tables: HitTables) -> int:
    if metric.definition.per == "item":
        return _shown(metric, tables)
    return counted(metric, tables)


def _total(
    metric: Metric, tables: HitTables, evidence: Evidence, context: Context
) -> tuple[float, int]:
    """The sum over all lists, and how many of them turned out to have no value."""
    by_list = metric.needs_gains and tables.graded > 0
    total: float = called(metric, tables.view(graded=not by_list), context)
    if not by_list:
        return total, 0
    kept = evidence.graded.get(metric.text)
    if kept is None:
        raise NotKeptError(metric.text, "lists with gains came, and its values were not kept")
    left_out = kept.undefined + missed(metric, tables, kept.count + kept.undefined)
    return math.fsum((total, kept.total)), left_out


def _shown(metric: Metric, tables: HitTables) -> int:
    rank = int(metric.values.get("rank", 0))
    if not rank:
        return tables.items_shown(metric.k)
    last = rank if metric.k is None else min(rank, metric.k)
    above = rank - 1 if metric.k is None else min(rank - 1, metric.k)
    return tables.items_shown(last) - (tables.items_shown(above) if above else 0)
