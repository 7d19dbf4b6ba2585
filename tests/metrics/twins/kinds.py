"""Twins of metrics of the kinds of items: genres, providers, tiers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from tests.metrics.preparation import AnyEvent, Id, by_type, good, per_event, placed, ranked

Kinds = Mapping[Id, Collection[str]]


@per_event
def exposure_share(
    event: AnyEvent,
    k: int | None,
    *,
    attribute: Kinds,
    among: str = "tier:tail",
    discount: str = "log2",
) -> float | None:
    """What the ranks of one kind are worth, over what all ranks are worth."""
    kind = among.split(":")[1]
    ranks = event.positions or list(range(1, len(event.recommendations) + 1))
    entries = [
        (1 / math.log2(rank + 1) if discount == "log2" else 1.0, item)
        for rank, item in zip(ranks, event.recommendations, strict=True)
        if k is None or rank <= k
    ]
    total = math.fsum(worth for worth, _ in entries)
    part = math.fsum(worth for worth, item in entries if kind in attribute.get(item, ()))
    return part / total if entries else None


@by_type
@per_event
def subtopic_recall(
    event: AnyEvent, k: int | None, *, attribute: Kinds, by: str = "genre"
) -> Fraction | None:
    """Kinds of the hits, over kinds of all items interacted with."""
    assert by
    relevant = _union(attribute, good(event))
    recommended = _union(attribute, good(event) & {*ranked(event, k)})
    return Fraction(len(recommended), len(relevant)) if relevant else None


def _union(attribute: Kinds, items: Collection[Id]) -> set[str]:
    return {kind for item in items for kind in attribute.get(item, ())}


def _amounts(attribute: Kinds, items: Collection[Id]) -> dict[str, Fraction]:
    """Kind -> its number of items, each divided among its kinds."""
    kinds = sorted(_union(attribute, attribute))
    having = [[*attribute.get(item, ())] for item in items]
    return {
        kind: sum((Fraction(1, len(own)) for own in having if kind in own), Fraction(0))
        for kind in kinds
    }


@per_event
def category_diversity(
    event: AnyEvent,
    k: int | None,
    *,
    attribute: Kinds,
    by: str = "genre",
    measure: str = "entropy",
) -> float | None:
    """Entropy of a list's kinds, or their number over the ranks."""
    assert by
    items = placed(event, k)
    amounts = _amounts(attribute, items)
    if not any(amounts.values()):
        return None
    if measure == "distinct":
        return sum(map(bool, amounts.values())) / (k or len(items))
    smoothed = [float(amount) + 1e-6 for amount in amounts.values()]
    return -math.fsum(
        amount / sum(smoothed) * math.log2(amount / sum(smoothed)) for amount in smoothed
    )


@per_event
def miscalibration(
    event: AnyEvent,
    k: int | None,
    *,
    attribute: Kinds,
    by: str = "genre",
    divergence: str = "kl",
) -> float | None:
    """Distance of the distribution of kinds in the history from that in the list."""
    assert by
    if event.history is None:
        return None
    amounts = [_amounts(attribute, items) for items in (event.history, placed(event, k))]
    if not all(sum(each.values()) for each in amounts):
        return None
    p, q = ([float(each[kind] / sum(each.values())) for kind in sorted(each)] for each in amounts)
    if divergence == "hellinger":
        both = zip(p, q, strict=True)
        return math.dist(*zip(*((a**0.5, b**0.5) for a, b in both), strict=True)) / 2**0.5
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    mixed = [0.99 * b + 0.01 * a for a, b in zip(p, q, strict=True)]
    return _kl(p, mixed) if divergence == "kl" else (_kl(p, middle) + _kl(q, middle)) / 2


def _kl(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * math.log2(a / b) for a, b in zip(left, right, strict=True) if a)


@by_type
@per_event
def alpha_ndcg(
    event: AnyEvent, k: int | None, *, attribute: Kinds, by: str = "genre", alpha: float = 0.5
) -> float | None:
    """Gains of new kinds of the hits, discounted, over those of the greedy order."""
    assert by
    relevant = {item for item in good(event) if attribute.get(item)}
    if not relevant:
        return None
    ranks = event.positions or list(range(1, len(event.recommendations) + 1))
    hits: dict[Id, int] = {}
    for rank, item in zip(ranks, event.recommendations, strict=True):
        if item in relevant and (k is None or rank <= k):
            hits[item] = min(rank, hits.get(item, rank))
    order = sorted(hits, key=lambda item: (hits[item], event.recommendations.index(item)))
    ideal: list[Id] = []
    while len(ideal) < min(k or len(relevant), len(relevant)):
        left = sorted(relevant - {*ideal}, reverse=True)
        worth = [_gain(attribute, ideal, item, alpha) for item in left]
        ideal.append(left[worth.index(max(worth))])
    best = _alpha_dcg(attribute, ideal, range(1, len(ideal) + 1), alpha)
    return _alpha_dcg(attribute, order, [hits[item] for item in order], alpha) / best


def _gain(attribute: Kinds, above: Sequence[Id], item: Id, alpha: float) -> float:
    return math.fsum(
        (1 - alpha) ** sum(kind in attribute[other] for other in above) for kind in attribute[item]
    )


def _alpha_dcg(attribute: Kinds, order: Sequence[Id], ranks: Sequence[int], alpha: float) -> float:
    return math.fsum(
        _gain(attribute, order[:index], item, alpha) / math.log2(rank + 1)
        for index, (item, rank) in enumerate(zip(order, ranks, strict=True))
    )


@by_type
def group_disparity(
    events: Sequence[AnyEvent],
    k: int | None,
    *,
    attribute: Kinds,
    by: str = "provider",
    of: str = "exposure",
    over: str = "items",
    measure: str = "ratio",
    discount: str = "log2",
) -> float:
    """What each kind gets, the smallest beside the largest."""
    assert by
    amounts = []
    for kind in sorted(_union(attribute, attribute)):
        items = {item for item, kinds in attribute.items() if kind in kinds}
        counts = _counts(events, k, items, discount)
        counts["items"] = len(items)
        if counts[over]:
            amounts.append(counts[of] / counts[over])
    if len(amounts) < 2 or not any(amounts):
        return math.nan
    if measure == "cv":
        return statistics.pstdev(amounts) / statistics.fmean(amounts)
    least, most = min(amounts), max(amounts)
    return most - least if measure == "difference" else least / most


def _counts(
    events: Sequence[AnyEvent], k: int | None, items: Collection[Id], discount: str
) -> dict[str, float]:
    """What items of one kind get in all lists."""
    shown_at = []
    for event in events:
        ranks = event.positions or list(range(1, len(event.recommendations) + 1))
        both = zip(ranks, event.recommendations, strict=True)
        shown_at += [rank for rank, item in both if item in items and (k is None or rank <= k)]
    worth = [1 / math.log2(rank + 1) if discount == "log2" else 1 for rank in shown_at]
    return {
        "exposure": math.fsum(worth),
        "shown": len(shown_at),
        "hits": sum(len({*ranked(event, k)} & good(event) & {*items}) for event in events),
        "interactions": sum(len(good(event) & {*items}) for event in events),
    }
