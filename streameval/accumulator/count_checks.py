"""Checks of counts: warnings about the events behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from streameval.accumulator.event_checks import DataQualityWarning
from streameval.accumulator.make_reading import LEVELS
from streameval.accumulator.overlap import biases
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.statistics.arrays import IntArray
from streameval.statistics.exposures import ItemsShown
from streameval.statistics.hits import Hits
from streameval.statistics.scores import RankSumsOfLists, ScoredItems
from streameval.statistics.statistic import Statistic

S = TypeVar("S", bound=Statistic)

_SUSPICIOUS: Final = 1_000
"""With this many lists with interactions and no hit, the ids probably do not match."""

_FEWEST_OUTSIDE: Final = 10
"""Fewer items outside the catalogue may simply be new."""

_ROUNDING: Final = 1e-9
"""Relative difference to the end of a range that rounding may make."""


def cell_advice(
    table: Table, cells: IntArray, metrics: Iterable[Metric], before: int | IntArray = 0
) -> list[DataQualityWarning | None]:
    """A warning for each cell whose lists or values look wrong; None for the others.

    `metrics`: those read from the table. `before`: lists counted before some statistic began.
    """
    advices: list[DataQualityWarning | None] = [None] * cells.size
    for at, out_of_range in _out_of_range(table, cells, metrics):
        advices[at] = out_of_range
    for at, sentence in _catalogue_mismatches(table, cells):
        advices[at] = DataQualityWarning(("catalogue",), sentence)
    unshown = biases(table, cells)
    for kind, sentences in (
        ("scores", _unscored(table, cells, before)),
        ("types", _untyped(table, cells, before)),
        ("ids", _without_hit(table, cells)),
    ):
        for at, sentence in sentences:
            # The list of a ranker that was not shown has no scores, and may well have no hit.
            if unshown[at] is None:
                advices[at] = DataQualityWarning((kind,), sentence)
    return advices


def fewest_lists(metrics: Iterable[Metric], context: Context) -> int:
    """Number of lists from which `cell_advice` can find something."""
    always = context.catalog is not None or any(map(_has_range, metrics))
    return 0 if always else _SUSPICIOUS


def _has_range(metric: Metric) -> bool:
    """True if a metric may leave the range that it declares: a user's own, or a convention.

    The plain metrics of the catalogue keep theirs by law.
    """
    low, high = metric.definition.bounds
    summary = metric.values.get("statistic", "mean")
    return bool(metric.prefix or metric.options) and summary in LEVELS and high - low < math.inf


def _out_of_range(
    table: Table, cells: IntArray, metrics: Iterable[Metric]
) -> Iterator[tuple[int, DataQualityWarning]]:
    """Cells in which a metric leaves the range that it declares."""
    for metric in filter(_has_range, metrics):
        low, high = metric.definition.bounds
        slack = _ROUNDING * max(abs(low), abs(high))
        for at, reading in enumerate(readings_of(metric, table, cells)):
            if reading.defined and not low - slack <= reading.value <= high + slack:
                text = f"{metric.text} is {reading.value:.6g}, outside {low:g} to {high:g}"
                yield (
                    at,
                    DataQualityWarning(("range", metric), f"{text}, the range that it declares"),
                )


def _without_hit(table: Table, cells: IntArray) -> Iterator[tuple[int, str]]:
    """Cells with many interactions, none of which is with an item shown."""
    for hits in _of_kind(table, Hits):
        view = hits.view(cells)
        engaged = view.count - view.without_interactions
        for at in np.flatnonzero((engaged >= _SUSPICIOUS) & (view.hits == 0)).tolist():
            problem = f"{int(engaged[at]):,} lists with interactions and no hit"
            yield at, f"{problem}: do recommendations and interactions use the same ids?"


def _unscored(table: Table, cells: IntArray, before: int | IntArray) -> Iterator[tuple[int, str]]:
    """Cells without any score, although a metric needs scores."""
    lists = table.lists(cells) - before
    needing = [*_of_kind(table, ScoredItems), *_of_kind(table, RankSumsOfLists)]
    scored = [[scores.lists for scores in scorer.view(cells)] for scorer in needing]
    for at in np.flatnonzero(lists >= _SUSPICIOUS).tolist() if needing else ():
        if not any(cell_scores[at] for cell_scores in scored):
            problem = "lists without scores, which auc and similar metrics need"
            yield at, f"{int(lists[at]):,} {problem}"


def _untyped(table: Table, cells: IntArray, before: int | IntArray) -> Iterator[tuple[int, str]]:
    """Cells with interactions, none of a type that a metric asks for."""
    views = [(hits.options.type, hits.view(cells)) for hits in _of_kind(table, Hits)]
    engaged = [(name, view.count - view.without_interactions) for name, view in views]
    typed = [lists for name, lists in engaged if name]
    if not typed:
        return
    # Without a metric of all types, a list may have interactions that are not kept.
    of_any = [lists for name, lists in engaged if not name][:1]
    lists = np.min([table.lists(cells) - before, *of_any], axis=0)
    names = ", ".join(sorted({name for name, _ in engaged if name}))
    which = "with interactions" if of_any else "counted"
    for at in np.flatnonzero((lists >= _SUSPICIOUS) & (np.sum(typed, axis=0) == 0)).tolist():
        problem = f"{int(lists[at]):,} lists {which}, and no interaction of type {names}"
        yield at, f"{problem}: do the events have types? Columns and tables cannot have them"


def _catalogue_mismatches(table: Table, cells: IntArray) -> Iterator[tuple[int, str]]:
    """Cells with more items shown than the catalogue has, or with no item of the catalogue."""
    catalog = table.context.catalog
    of_items = [part for part in _of_kind(table, ItemsShown) if part.options.of == "items"]
    for at, exposures in chain(*(enumerate(s.view(cells)) for s in of_items if catalog)):
        distinct = f"{exposures.distinct:,.0f} distinct items, and"
        if isinstance(catalog, int):
            if exposures.distinct > catalog:
                remedy = "is the catalogue larger, or is a whole list one id?"
                yield at, f"{distinct} catalog = {catalog:,}: {remedy}"
        elif catalog:
            enough = exposures.distinct >= min(_FEWEST_OUTSIDE, len(catalog))
            if enough and not exposures.meets(catalog):
                none = f"none is in the catalogue of {len(catalog):,}"
                yield at, f"{distinct} {none}: do lists and catalogue use the same ids?"


def _of_kind(table: Table, kind: type[S]) -> list[S]:
    return [statistic for statistic in table.statistics.values() if isinstance(statistic, kind)]
