"""From statistics to a Reading: where a formula meets its evidence."""

from __future__ import annotations

import math

from streameval.errors import MissingInputError, NotKeptError
from streameval.evidence import Evidence
from streameval.metric import Catalog, Metric
from streameval.plan import check_depth, hits_options
from streameval.population import counted, spoiling
from streameval.reading import Reading, UndefinedReading
from streameval.statistics.hittables import HitTables
from streameval.summary import summary


def answer(metric: Metric, evidence: Evidence, catalog: Catalog | None) -> Reading:
    """The reading of a metric.

    Raises:
        CutoffExceedsDepthError: the cut-off lies beyond the ranks kept.
        NotKeptError: a statistic that it needs was not kept.
        MissingInputError: it needs a catalogue and there is none.
    """
    if metric.definition.reads == "exposures":
        return _of_exposures(metric, evidence, catalog)
    return _of_lists(metric, evidence)


def check_inputs(metric: Metric, catalog: Catalog | None) -> None:
    """Refuse a metric whose inputs are not there.

    Raises:
        MissingInputError: it needs a catalogue and there is none.
    """
    if "catalog" in metric.definition.inputs and catalog is None:
        remedy = "give catalog= the number of items there are, or their ids"
        raise MissingInputError(metric.text, "a catalogue", remedy)


def _of_lists(metric: Metric, evidence: Evidence) -> Reading:
    check_depth(metric, evidence.plan.depth)
    hits = evidence.hits.get(hits_options(metric, evidence.plan.depth))
    if hits is None:
        raise NotKeptError(metric.text, "hits are not counted in that way here")
    tables = hits.tables()
    if metric.definition.per == "list":
        if refusing := spoiling(metric, tables, "error"):
            return _undefined(metric, tables, refusing)
        if spoiling(metric, tables, "nan"):
            return _reading(metric, tables, math.nan, counted(metric, tables))
    if metric.needs_values:
        return _of_values(metric, tables, evidence)
    total, left_out = _total(metric, tables, evidence)
    return _reading(metric, tables, total, _denominator(metric, tables) - left_out)


def _reading(metric: Metric, tables: HitTables, total: float, count: int) -> Reading:
    return Reading(
        metric=metric.text,
        value=total / count if count else math.nan,
        count=count,
        lists=tables.count,
        total=total,
    )


def _undefined(metric: Metric, tables: HitTables, refusing: int) -> Reading:
    return UndefinedReading(
        metric=metric.text,
        value=math.nan,
        count=counted(metric, tables),
        lists=tables.count,
        problem=f"{metric.convention or 'it'} raises an error on {refusing} of these lists",
    )


def _of_values(metric: Metric, tables: HitTables, evidence: Evidence) -> Reading:
    values = evidence.values.get(metric.per_list)
    if values is None:
        raise NotKeptError(metric.text, "its values were not kept, list by list")
    if metric.is_mean:
        return _reading(metric, tables, values.total, values.count)
    return Reading(
        metric=metric.text,
        value=summary(values, metric.values),
        count=values.count,
        lists=tables.count,
        estimated=values.estimated,
    )


def _denominator(metric: Metric, tables: HitTables) -> int:
    if metric.definition.per == "item":
        return tables.items_shown(metric.k)
    return counted(metric, tables)


def _total(metric: Metric, tables: HitTables, evidence: Evidence) -> tuple[float, int]:
    """The sum over all lists, and how many of them turned out to have no value."""
    by_list = metric.needs_gains and tables.graded > 0
    function = metric.definition.function
    inputs = [metric.k] if "k" in metric.definition.inputs else []
    view = tables.view(graded=not by_list)
    total: float = function(view, *inputs, **metric.values_for(function))
    if not by_list:
        return total, 0
    kept = evidence.graded.get(metric.text)
    if kept is None:
        raise NotKeptError(metric.text, "lists with gains came, and its values were not kept")
    return math.fsum((total, kept.total)), kept.undefined


def _of_exposures(metric: Metric, evidence: Evidence, catalog: Catalog | None) -> Reading:
    check_inputs(metric, catalog)
    exposures = evidence.exposures
    if exposures is None or not exposures.covers(metric.k):
        raise NotKeptError(metric.text, "items shown were not counted at that cut-off")
    given = {"k": metric.k, "catalog": catalog}
    inputs = [given[name] for name in metric.definition.inputs]
    function = metric.definition.function
    value = function(exposures, *inputs, **metric.values_for(function))
    return Reading(
        metric=metric.text,
        value=value if exposures.lists else math.nan,
        count=exposures.lists,
        lists=exposures.lists,
        estimated=exposures.estimated,
    )
