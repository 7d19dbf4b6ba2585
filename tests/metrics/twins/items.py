"""Twins of metrics of the items and users of all lists together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from tests.metrics.preparation import AnyEvent, Id, RefusedError, good, mean, summary_of


def _placed(event: AnyEvent, k: int | None) -> list[Id]:
    """The item at every rank up to k."""
    ranks = event.positions or range(1, len(event.recommendations) + 1)
    pairs = zip(ranks, event.recommendations, strict=True)
    return [item for rank, item in pairs if k is None or rank <= k]


def _recommended(events: Sequence[AnyEvent], k: int | None) -> list[Id]:
    return [item for event in events for item in _placed(event, k)]


def distinct_items(events: Sequence[AnyEvent], k: int | None, **how: Any) -> float:
    """Size of the union of what was shown."""
    value = float(len(set(_recommended(events, k)))) if events else math.nan
    return summary_of([value], **how)


def item_coverage(
    events: Sequence[AnyEvent],
    k: int | None,
    *,
    catalog: int | Collection[Id],
    unknown: str = "ignore",
    percent_digits: int = -1,
    no_lists: str = "undefined",
    padding: int = 0,
    **how: Any,
) -> float:
    """Items shown over items there are; of a catalogue of ids, only its own items."""
    if not events and no_lists == "undefined":
        return math.nan
    recommended = set(_recommended(events, k))
    if isinstance(catalog, int):
        share = len(recommended) / (catalog + padding)
    else:
        listed = recommended if unknown == "count" else recommended & set(catalog)
        share = len(listed) / (len(set(catalog)) + padding)
    value = share if percent_digits < 0 else round(100 * share, percent_digits)
    return summary_of([value], **how)


def gini(
    events: Sequence[AnyEvent],
    k: int | None,
    *,
    catalog: int | Collection[Id],
    over: str = "shown",
    unknown: str = "ignore",
    padding: int = 0,
    **how: Any,
) -> float:
    """Mean difference of any two items' exposures, over twice their mean."""
    recommended = _recommended(events, k)
    if over == "catalog" and unknown == "ignore" and not isinstance(catalog, int):
        recommended = [item for item in recommended if item in catalog]
    counts = [recommended.count(item) for item in set(recommended)]
    if over == "catalog":
        items = catalog if isinstance(catalog, int) else len(set(catalog))
        counts += [0] * (items + padding - len(counts))
    if not sum(counts):
        return math.nan
    apart = sum(abs(count - other) for count in counts for other in counts)
    return summary_of([Fraction(apart, 2 * len(counts) * sum(counts))], **how)


def shannon_entropy(
    events: Sequence[AnyEvent],
    k: int | None,
    *,
    unit: str = "bits",
    divisor: str = "one",
    **how: Any,
) -> float:
    """Sum of -p log p."""
    recommended = _recommended(events, k)
    if not recommended:
        return math.nan
    shares = [count / len(recommended) for count in Counter(recommended).values()]
    entropy = -math.fsum(share * math.log(share) for share in shares)
    entropy /= len(shares) if divisor == "items" else 1
    return summary_of([entropy / math.log(2) if unit == "bits" else entropy], **how)


def personalization(events: Sequence[AnyEvent], k: int | None, *, unlike: str = "take") -> float:
    """1 minus the cosine of any two lists, as vectors of 0 and 1; averaged over pairs."""
    lists = [event.recommendations[:k] for event in events]
    if unlike == "refuse" and lists:
        repeats = any(len(set(items)) < len(items) for items in lists)
        if repeats or not all(lists) or len(lists) == 1 or len(set(map(len, lists))) > 1:
            raise RefusedError
    kinds = [set(items) for items in lists if items]
    cosines = [
        len(left & other) / math.sqrt(len(left) * len(other))
        for left, other in combinations(kinds, 2)
    ]
    return 1 - mean(cosines)


def users_covered(events: Sequence[AnyEvent], k: int | None, *, having: str = "item") -> float:
    """Size of the set of users with something at a rank up to k."""

    def is_covered(event: AnyEvent) -> bool:
        relevant = good(event)
        return any(having == "item" or item in relevant for item in _placed(event, k))

    with_user = [event for event in events if event.user is not None]
    return (
        float(len({event.user for event in with_user if is_covered(event)}))
        if with_user
        else math.nan
    )
