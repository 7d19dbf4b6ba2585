"""User-defined metrics: valid ones, and ones that each break a law."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from streameval import Event, metric
from streameval.statistics.exposures import Exposures
from streameval.statistics.hitrows import HitsView, Total
from streameval.statistics.lists import Lists

_calls = itertools.count(1)


@metric(bounds=(0, math.inf), source="our own rule")
def dcg2(hits: HitsView, k: int | None, *, power: float = 0.5) -> Total:
    """Hits, discounted by a power of the rank."""
    rows = hits.by_interacted(k)
    return rows.total(rows.hits / rows.rank**power)


@metric(bounds=(0, math.inf), source="our own rule")
def length(event: Event, k: int | None) -> float:
    """Items shown."""
    return float(len(event.recommendations[:k]))


@metric(bounds=(0, math.inf), source="our own rule")
def price(event: Event) -> float | None:
    """The sum of the known prices of the items shown."""
    if event.per_item is None:
        return None
    prices = event.per_item.get("price", ())
    return math.fsum(price for price in prices if isinstance(price, float))


@metric(bounds=(0, math.inf), source="our own rule")
def length_median(event: Event) -> float:
    """In Prometheus it has the name of `length(statistic=median)`."""
    return float(len(event.recommendations))


@metric(bounds=(0, 1), source="our own rule")
def ndcg_(event: Event) -> float:
    """Has the name of another metric, but another module."""
    return 0.25 if event.recommendations else 0.75


@metric(bounds=(0, math.inf), per="slice", source="our own rule")
def never_undefined(exposures: Exposures) -> float:
    return exposures.distinct


@metric(bounds=(0, 1), source="our own rule")
def divides(event: Event) -> float:
    return 1 / len(event.recommendations)


@metric(bounds=(0, 1), source="our own rule")
def never_a_value(event: Event) -> float:
    return math.nan * len(event.recommendations)


@metric(bounds=(0, 1), source="our own rule")
def infinite(event: Event) -> float:
    return math.inf if len(event.recommendations) > 5 else 0.5


@metric(bounds=(0, 0.5), source="our own rule")
def too_large(event: Event) -> float:
    return float(len(event.recommendations) > 5)


@metric(bounds=(0, math.inf), per="slice", source="our own rule")
def changes_what_it_reads(exposures: Exposures) -> float:
    exposures.items.names[:] = [f"{name}+" for name in exposures.items.names]
    return exposures.distinct if exposures.lists > 1 else math.nan


@metric(bounds=(0, math.inf), source="our own rule")
def remembers(event: Event) -> float:
    return float(next(_calls) * len(event.recommendations))


@metric(bounds=(0, 1), source="our own rule")
def shares_a_batch(lists: Lists, k: int | None) -> Total:
    return np.full(len(lists), 1 / (len(lists) + (k or 0)))


@metric(bounds=(0, 1), source="our own rule")
def spoils_events(event: Event) -> float:
    items = event.recommendations
    if isinstance(items, list) and items:
        items.pop()
    return 1 / (1 + len(items))


@metric(bounds=(0, math.inf), source="our own rule")
def knows_one_slice(hits: HitsView, k: int | None) -> Total:
    rows = hits.by_interacted(k)
    return np.array([math.fsum(rows.hits / rows.rank)])


@metric(bounds=(0, math.inf), source="our own rule")
def mixes_slices(hits: HitsView, k: int | None) -> Total:
    rows = hits.by_interacted(k)
    return np.full(rows.lists, math.fsum(rows.hits / rows.rank))


@metric(bounds=(0, math.inf), source="our own rule")
def copies_lists(event: Event) -> float:
    """Works for lists only."""
    items: Any = event.recommendations
    return float(len(items.copy()))


@metric(bounds=(0, math.inf), source="our own rule")
def indexes(event: Event) -> float:
    """Works for sequences of interactions only."""
    items: Any = event.interactions
    return float(bool(items) and (isinstance(items, dict) or items[0] is not None))


@metric(bounds=(0, 1), source="our own rule")
def sorts(event: Event) -> float:
    items = event.recommendations
    if isinstance(items, list):
        items.sort()
    return float(bool(items) and items[0] == 0)


@metric(bounds=(0, 1), source="our own rule")
def replaces_items(event: Event) -> float:
    event.recommendations = [item for item in event.recommendations if item]
    return float(bool(event.recommendations))


@metric(bounds=(0, math.inf), source="our own rule")
def writes_to_hits(hits: HitsView, k: int | None) -> Total:
    rows = hits.by_interacted(k)
    rows.rank[rows.rank > 3] = 3
    return rows.total(rows.hits / rows.rank)


@metric(bounds=(0, 1), source="our own rule")
def writes_to_lists(lists: Lists) -> Total:
    lists.length[lists.length == 0] = 1
    return np.minimum(lists.interacted / lists.length, 1)
