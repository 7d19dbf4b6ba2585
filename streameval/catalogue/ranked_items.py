"""The items of a list up to a rank, with rules for repeated items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from streameval.catalogue.context import Catalog
from streameval.catalogue.items import Attribute
from streameval.events import Event, Id
from streameval.statistics.scores import relevant_items


def first_distinct_items(event: Event, k: int | None) -> list[Id]:
    """The distinct items of a list up to rank k, by rank.

    Example:
        >>> event = Event(recommendations=["a", "b", "a"], interactions=[], positions=[3, 1, 2])
        >>> first_distinct_items(event, 2)
        ['b', 'a']
    """
    return list(dict.fromkeys(items_with_repeats(event, k)))


def items_with_repeats(event: Event, k: int | None) -> list[Id]:
    """The items of a list up to rank k, by rank, as often as the list has them."""
    return [item for _, item in ranked_items(event, k)]


def ranked_items(event: Event, k: int | None) -> list[tuple[int, Id]]:
    """Rank and item of each entry of a list up to rank k, by rank.

    Example:
        >>> event = Event(recommendations=["a", "b"], interactions=[], positions=[3, 1])
        >>> ranked_items(event, None)
        [(1, 'b'), (3, 'a')]
    """
    items, ranks = event.recommendations, event.positions
    if ranks is None:
        return list(enumerate(items[:k], start=1))
    return [(ranks[index], items[index]) for index in indices_by_rank(event, k)]


def indices_by_rank(event: Event, k: int | None) -> Sequence[int]:
    """The indices in the list of its items up to rank k, by rank."""
    indices, ranks = range(len(event.recommendations)), event.positions
    if ranks is None:
        return indices[:k]
    return sorted((at for at in indices if k is None or ranks[at] <= k), key=ranks.__getitem__)


def amounts_by_kind(items: Iterable[Id], attribute: Attribute) -> dict[str, float]:
    """Value of an attribute -> how many of the items have it; an item of n values counts 1/n each.

    Example:
        >>> amounts_by_kind(["a", "b", "x"], Attribute({"a": ["news", "drama"], "b": "news"}))
        {'drama': 0.5, 'news': 1.5}
    """
    having = [kinds for kinds in map(attribute.of, items) if kinds]
    # Amounts are integers of this unit, so that their sums are exact.
    unit = math.lcm(*set(map(len, having)))
    amounts: dict[str, int] = {}
    for kinds in having:
        share = unit // len(kinds)
        for kind in kinds:
            amounts[kind] = amounts.get(kind, 0) + share
    return {kind: amount / unit for kind, amount in amounts.items()}


def confusion(
    event: Event, k: int | None, catalog: Catalog, unknown: Literal["ignore", "count"]
) -> tuple[int, int, int, int]:
    """The confusion matrix of the first k items of a list, over the items of the catalogue.

    Returns:
        Items shown and interacted with, only shown, only interacted with, and neither; the last is
        below 0 if the catalogue is too small.

    Example:
        >>> event = Event(recommendations=["a", "b"], interactions=["b", "x"])
        >>> confusion(event, 2, 10, "ignore")
        (1, 1, 1, 7)
    """
    relevant, items = relevant_items(event.interactions), first_distinct_items(event, k)
    if unknown == "ignore" and not isinstance(catalog, int):
        items, relevant = [item for item in items if item in catalog], relevant & catalog
    hits, interacted = sum(map(relevant.__contains__, items)), len(relevant)
    size = catalog if isinstance(catalog, int) else len(catalog)
    neither = size - len(items) - interacted + hits
    return hits, len(items) - hits, interacted - hits, neither


Short: TypeAlias = Literal["count", "skip"]
"""A list that shows fewer than k items without interaction, and not every item interacted with: its
missing items count as ranked last, or it is left out."""


def ordered_pairs(
    event: Event, k: int | None, hits: int | None, *, short: Short
) -> tuple[int, int, int] | None:
    """The pairs of a hit and one of the first k other items of a whole list, with the hit first.

    Without k all other items of the list are compared; fewer than k count as if the rest came last.

    Args:
        event: the list.
        k: number of other items.
        hits: how many hits have pairs, the first ones; None for all.
        short: whether a short list is left out.

    Returns:
        The number of these pairs, of the other items that are compared, and of the items interacted
        with, shown or not; None if the list is left out, as one without interactions is.

    Example:
        >>> event = Event(recommendations=["a", "b", "c"], interactions=["b", "x"])
        >>> ordered_pairs(event, None, None, short="count")
        (1, 2, 2)
    """
    relevant, items = relevant_items(event.interactions), first_distinct_items(event, None)
    if not relevant:
        return None
    ranked = [index for index, item in enumerate(items) if item in relevant]
    others = len(items) - len(ranked)
    if short == "skip" and k is not None and others < k and len(ranked) < len(relevant):
        return None
    compared = max(1, others) if k is None else k
    above = [index - number for number, index in enumerate(ranked[:hits])]
    return sum(max(0, compared - before) for before in above), compared, len(relevant)
