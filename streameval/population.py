"""Which lists a mean is over."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np

from streameval.catalogue.metric import Metric
from streameval.statistics.arrays import IntArray
from streameval.statistics.hits import HitsOfCells
from streameval.statistics.lists import Lists

Fate: TypeAlias = Literal["count", "skip", "nan", "error"]
"""What a kind of list does to a mean: it counts, is left out, or leaves no value at all."""

_KINDS = [(items, interactions) for items in (True, False) for interactions in (True, False)]


def fate(metric: Metric, *, items: bool, interactions: bool) -> Fate:
    """What lists with or without items, and with or without interactions, do to the mean."""
    of_list = metric.values.get("empty_list", "any")
    of_interactions = metric.values.get("empty", "zero")
    rule = (
        of_list if not items and of_list != "any" else "zero" if interactions else of_interactions
    )
    fates: dict[object, Fate] = {"zero": "count", "skip": "skip", "nan": "nan", "error": "error"}
    return fates[rule]


def counted(metric: Metric, hits: HitsOfCells) -> IntArray:
    """How many lists of each cell the mean is over."""
    return _having(metric, hits, "count")


def spoiling(metric: Metric, hits: HitsOfCells, how: Literal["nan", "error"]) -> IntArray:
    """How many lists of each cell leave the mean without a value."""
    refused = hits.refused if how == "error" else 0
    return _having(metric, hits, how) + refused


def missed(metric: Metric, hits: HitsOfCells, valued: IntArray) -> IntArray:
    """How many lists with gains the mean is without, as values were kept only after them.

    Where empty lists are left out, too many by at most as many as there are of those.

    Args:
        metric: whose mean it is.
        hits: of all lists.
        valued: how many lists with gains have been valued.
    """
    kept = fate(metric, items=False, interactions=True) == "count"
    empty = 0 if kept else hits.having(items=False, interactions=True)
    return np.asarray(np.maximum(hits.graded - empty - valued, 0))


def counting(metric: Metric, lists: Lists) -> IntArray:
    """How often each distinct list counts in the mean: 0 where it is left out; shape (n,)."""
    count = lists.count.copy()
    for items, interactions in _KINDS:
        if fate(metric, items=items, interactions=interactions) != "count":
            here = (lists.length > 0) == items
            count[here & ((lists.interacted > 0) == interactions)] = 0
    return np.asarray(count)


class Shown(Protocol):
    """Lists, or cells of them, that show items."""

    def items(self, k: int | None) -> IntArray:
        """How many items were shown up to rank k."""


def items_shown(metric: Metric, hits: Shown) -> IntArray:
    """How many items of each owner a mean per item is over."""
    rank = int(metric.values.get("rank", 0))
    if not rank:
        return hits.items(metric.k)
    last = rank if metric.k is None else min(rank, metric.k)
    above = rank - 1 if metric.k is None else min(rank - 1, metric.k)
    return hits.items(last) - (hits.items(above) if above else 0)


def _having(metric: Metric, hits: HitsOfCells, wanted: Fate) -> IntArray:
    found = np.zeros(hits.cells, np.int64)
    for items, interactions in _KINDS:
        if fate(metric, items=items, interactions=interactions) == wanted:
            found += hits.having(items=items, interactions=interactions)
    return found
