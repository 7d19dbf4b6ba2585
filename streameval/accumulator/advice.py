"""Warnings about what was counted: ids that never match, missing scores, types or items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from streameval.accumulator.table import Table
from streameval.statistics.arrays import IntArray
from streameval.statistics.exposures import ItemsShown
from streameval.statistics.hits import Hits
from streameval.statistics.scores import RankSumsOfLists, ScoredItems
from streameval.statistics.statistic import Statistic

S = TypeVar("S", bound=Statistic)

_SUSPICIOUS = 1_000
"""With this many lists with interactions and no hit, the ids probably do not match."""

_FEWEST_ITEMS = 10
"""Fewer items outside the catalogue may simply be new."""


def advice(table: Table, cells: IntArray, before: int | IntArray = 0) -> list[str | None]:
    """For each cell, a warning if its lists look wrong; otherwise None.

    `before`: lists counted before some statistic began.
    """
    sentences: list[str | None] = [None] * cells.size
    lacking = (*_unscored(table, cells, before), *_untyped(table, cells, before))
    for at, sentence in (*_catalogue_mismatches(table, cells), *lacking):
        sentences[at] = sentence
    for hits in _of_kind(table, Hits):
        view = hits.view(cells)
        engaged = view.count - view.without_interactions
        for at in np.flatnonzero((engaged >= _SUSPICIOUS) & (view.hits == 0)).tolist():
            sentences[at] = (
                f"{int(engaged[at]):,} lists with interactions and no hit: do "
                "recommendations and interactions use the same ids?"
            )
    return sentences


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
    kept = [(hits.options.type, hits.view(cells)) for hits in _of_kind(table, Hits)]
    engaged = {name: view.count - view.without_interactions for name, view in kept if name}
    if not engaged:
        return
    # Without a metric of all types, a list may have interactions that are not kept.
    of_any = [view.count - view.without_interactions for name, view in kept if not name]
    lists = np.min([table.lists(cells) - before, *of_any[:1]], axis=0)
    typed = np.sum([*engaged.values()], axis=0)
    asked = ", ".join(sorted(engaged))
    for at in np.flatnonzero((lists >= _SUSPICIOUS) & (typed == 0)).tolist():
        which = "with interactions" if of_any else "counted"
        yield (
            at,
            (
                f"{int(lists[at]):,} lists {which}, and no interaction of type {asked}: do the "
                "events have types? Columns and tables cannot have them"
            ),
        )


def _catalogue_mismatches(table: Table, cells: IntArray) -> Iterator[tuple[int, str]]:
    """Cells with more items shown than the catalogue has, or with no item of the catalogue."""
    catalog = table.context.catalog
    if not catalog:
        return
    for shown in _of_kind(table, ItemsShown):
        for at, exposures in enumerate(shown.view(cells) if shown.options.of == "items" else ()):
            if not isinstance(catalog, int):
                enough = exposures.distinct >= min(_FEWEST_ITEMS, len(catalog))
                if enough and not exposures.meets(catalog):
                    none = f"{exposures.distinct:,.0f} distinct items, and none is in the catalogue"
                    yield (
                        at,
                        f"{none} of {len(catalog):,}: do lists and catalogue use the same ids?",
                    )
            elif exposures.distinct > catalog:
                shared = f"{exposures.distinct:,.0f} distinct items, and catalog = {catalog:,}"
                yield at, f"{shared}: is the catalogue larger, or is a whole list one id?"


def _of_kind(table: Table, kind: type[S]) -> list[S]:
    return [statistic for statistic in table.statistics.values() if isinstance(statistic, kind)]
