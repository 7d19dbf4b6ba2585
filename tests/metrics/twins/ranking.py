"""Twins of metrics of the ranks and gains of hits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from tests.metrics.preparation import (
    AnyEvent,
    Outcome,
    Reader,
    by_type,
    fraction,
    gains_of,
    once,
    per_event,
    per_list,
    placed,
)


@per_list(empty="zero")
def hit_rate(outcome: Outcome, _: int | None) -> Fraction:
    """1 for a list with a hit, else 0."""
    return Fraction(bool(outcome.hits))


@per_list(empty="zero")
def precision(outcome: Outcome, k: int | None, *, denominator: str = "k") -> Fraction:
    """Hits over k, or over the items there are."""
    items = k if k is not None and denominator == "k" else outcome.length
    return fraction(len(outcome.hits), items)


@per_list(empty="skip")
def recall(outcome: Outcome, k: int | None, *, denominator: str = "interacted") -> Fraction:
    """Hits over the items interacted with."""
    relevant = outcome.interacted
    most = min(k or relevant, relevant) if denominator == "ideal" else relevant
    return fraction(len(outcome.hits), most)


@per_list(empty="skip")
def r_precision(outcome: Outcome, _: int | None) -> Fraction:
    """Hits among the first R of R relevant items."""
    among = [rank for rank, _ in outcome.hits if rank <= outcome.interacted]
    return fraction(len(among), outcome.interacted)


@per_list(empty="skip")
def f1(outcome: Outcome, k: int | None, *, denominator: str = "k", beta: float = 1.0) -> Fraction:
    """(1 + beta^2) P R / (beta^2 P + R)."""
    items = k if k is not None and denominator == "k" else outcome.length
    precision = fraction(len(outcome.hits), items)
    recall = fraction(len(outcome.hits), outcome.interacted)
    weight = Fraction(beta) ** 2
    if not recall:
        return Fraction(0)
    return (1 + weight) * precision * recall / (weight * precision + recall)


@per_list(empty="zero")
def mrr(outcome: Outcome, _: int | None) -> Fraction:
    """1 over the rank of the first hit, 0 without one."""
    return Fraction(1, outcome.hits[0][0]) if outcome.hits else Fraction(0)


def _precisions(outcome: Outcome) -> list[Fraction]:
    """Precision at each hit."""
    return [Fraction(hits, rank) for hits, (rank, _) in enumerate(outcome.hits, start=1)]


@per_list(empty="skip")
def map_(
    outcome: Outcome, k: int | None, *, denominator: str = "ideal", normalizer: int = 0
) -> Fraction:
    """Average precision: precision at each hit, over the hits there could be."""
    cut = normalizer or k
    possible = outcome.interacted
    if cut and denominator != "interacted":
        possible = cut if denominator == "k" else min(cut, possible)
    if denominator == "shown":
        possible = min(possible, outcome.length)
    if denominator == "hits":
        possible = len(outcome.hits)
    return sum(_precisions(outcome), Fraction(0)) / max(1, possible)


@per_list(empty="skip", finish=math.exp)
def gm_map(outcome: Outcome, k: int | None, *, denominator: str = "ideal") -> float:
    """The product of average precisions, at least 1e-5 each, to the power of 1 / lists."""
    most = {"ideal": min(k or outcome.interacted, outcome.interacted), "k": k}
    possible = most.get(denominator) or outcome.interacted or 1
    return math.log(max(float(sum(_precisions(outcome), Fraction(0)) / possible), 1e-5))


@per_list(empty="skip")
def iprec_at_recall(
    outcome: Outcome, _: int | None, *, recall: float = 0.5, reached: str = "nearest"
) -> Fraction:
    """The best precision at any hit from the one on that reaches the recall."""
    least = int(recall * outcome.interacted + (0.9 if reached == "up" else 0.5))
    return max(_precisions(outcome)[max(0, least - 1) :], default=Fraction(0))


@per_list(empty="skip")
def roc_auc(outcome: Outcome, _: int | None) -> Fraction:
    """Pairs of a hit and another item above it, of all such pairs."""
    ranks = [rank for rank, _ in outcome.hits]
    above = sum(rank - index for index, rank in enumerate(ranks, start=1))
    pairs = len(ranks) * (outcome.length - len(ranks))
    return max(Fraction(0), 1 - Fraction(above, max(1, pairs))) if ranks else Fraction(0)


def _gain(grade: float, gain: str) -> float:
    """2^g - 1, g, or 1."""
    if gain == "exp2":
        return math.expm1(min(grade, 1000.0) * math.log(2))
    return min(float(grade), 2.0**1000) if gain == "linear" else 1.0


def _cumulated(hits: Sequence[tuple[int, float]], gain: str, by: str) -> float:
    """Worth of each (rank, gain) over the discount of its rank, summed."""
    divisors = {
        "log2": lambda rank: math.log2(rank + 1),
        "ln": lambda rank: math.log(rank + 1),
        "log2_rank": lambda rank: max(1.0, math.log2(rank)),
    }
    return math.fsum(_gain(grade, gain) / divisors[by](rank) for rank, grade in hits)


def _ranked(gains: Sequence[float]) -> list[tuple[int, float]]:
    return list(enumerate(gains, start=1))


@per_list(empty="zero")
def dcg(
    outcome: Outcome,
    _: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    base: float = 2.0,
    cap: float = 0.0,
) -> float:
    """Worth of each hit over its discount, summed; at most the cap."""
    cumulated = math.log2(base) * _cumulated(outcome.hits, gain, discount_by)
    return min(cumulated, cap or math.inf)


@per_list(empty="skip")
def ideal_dcg(
    outcome: Outcome,
    k: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    base: float = 2.0,
) -> float:
    """DCG of the relevant items in their best order."""
    return math.log2(base) * _cumulated(_ranked(outcome.gains[:k]), gain, discount_by)


@per_list(empty="skip")
def ndcg(
    outcome: Outcome,
    k: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    best: str = "cut",
    digits: int = 0,
    worthless: str = "skip",
) -> float:
    """DCG of the list over DCG of the relevant items in their best order."""
    most = len(outcome.gains) if k is None or best == "whole" else k
    order = outcome.gains[: min(most, outcome.length) if best == "list" else most]
    cumulated = _cumulated(outcome.hits, gain, discount_by)
    ideal = _cumulated(_ranked(order), gain, discount_by)
    if best == "ranks" and k is not None:
        ideal = _cumulated(_ranked([1.0] * k), "linear", discount_by)
    if not order:
        value = 0.0
    elif ideal:
        value = cumulated / ideal
    elif worthless == "zero" and not cumulated:
        value = 0.0
    else:
        value = math.copysign(math.inf, cumulated) if cumulated else math.nan
    if not digits:
        return value
    rounded = round(float(np.float32(0.0 if math.isnan(value) else value)), digits)
    return float(np.float32(rounded))


@per_list(empty="zero")
def err(outcome: Outcome, _: int | None, *, max_grade: float = 1.0) -> float:
    """1 / rank where the user is satisfied, times the chance to get there and to be satisfied."""
    chances = [_gain(min(gain, max_grade), "exp2") / 2**max_grade for _, gain in outcome.hits]
    there = accumulate(chances, lambda before, satisfied: before * (1 - satisfied), initial=1.0)
    ranks = [rank for rank, _ in outcome.hits]
    return sum(
        reached * satisfied / rank
        for reached, satisfied, rank in zip(there, chances, ranks, strict=False)
    )


@per_list(empty="zero")
def rbp(
    outcome: Outcome,
    _: int | None,
    *,
    p: float = 0.8,
    gain: str = "binary",
    max_grade: float = 1.0,
) -> float:
    """Chance that the user looks at each hit, by what it is worth, over the items looked at."""
    total = _gain(max_grade, gain) or 1.0
    looked = [
        _gain(min(grade, max_grade or grade), gain) / total * math.pow(p, rank - 1)
        for rank, grade in outcome.hits
    ]
    return (1 - p) * math.fsum(looked)


@per_list(empty="zero", relevant="all")
def value_per_list(outcome: Outcome, _: int | None, *, cap: float = 0.0) -> float:
    """Sum of the gains of the items shown, with their signs, at most the cap."""
    worth = math.fsum(min(gain, 2.0**1000) for _, gain in outcome.hits)
    return min(worth, cap or math.inf)


def ctr(events: Sequence[AnyEvent], k: int | None, *, rank: int = 0, **reading: Any) -> float:
    """All hits over all items shown, or those at one rank."""
    outcomes = Reader(k, **reading).outcomes(events)
    impressions = [at for outcome in outcomes for at in outcome.ranks if rank in (0, at)]
    hit_ranks = [at for outcome in outcomes for at, _ in outcome.hits if rank in (0, at)]
    return len(hit_ranks) / len(impressions) if impressions else math.nan


def debiased_ctr(
    events: Sequence[AnyEvent],
    k: int | None,
    examination: Sequence[float],
    *,
    floor: float = 0.0,
    **reading: Any,
) -> float:
    """Each hit by the chance that users look at its rank, over all items shown."""
    outcomes = Reader(k, **reading).outcomes(events)
    shown = sum(len(outcome.ranks) for outcome in outcomes)
    corrected = [
        1 / max(_chance(examination, at), floor) for outcome in outcomes for at, _ in outcome.hits
    ]
    return math.fsum(corrected) / shown if shown else math.nan


@per_list(empty="zero")
def debiased_dcg(
    outcome: Outcome, _: int | None, *, examination: Sequence[float], floor: float = 0.0
) -> float:
    """Each hit by the chance that users look at its rank, discounted."""
    return math.fsum(
        1 / max(_chance(examination, at), floor) / math.log2(at + 1) for at, _ in outcome.hits
    )


def _chance(examination: Sequence[float], rank: int) -> float:
    return examination[min(rank, len(examination)) - 1]


def hits(events: Sequence[AnyEvent], k: int | None, **reading: Any) -> float:
    """Number of hits."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(len(outcome.hits) for outcome in outcomes)) if events else math.nan


def relevant(events: Sequence[AnyEvent], k: int | None, **reading: Any) -> float:
    """Number of relevant items."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(outcome.interacted for outcome in outcomes)) if events else math.nan


def retrieved(events: Sequence[AnyEvent], k: int | None, **reading: Any) -> float:
    """Number of items in the lists."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(len(outcome.ranks) for outcome in outcomes)) if events else math.nan


def _labels(event: AnyEvent, relevant: str, repeats: str) -> tuple[list[bool], int]:
    """Whether each item shown is relevant, by rank, and how many relevant items were missed."""
    gains = gains_of(event.interactions)
    liked = {item for item, gain in gains.items() if relevant == "all" or gain > 0}
    items = placed(event, None) if repeats == "every" else once(placed(event, None))
    return [item in liked for item in items], len(liked - {*items})


def _pairs(
    event: AnyEvent, k: int | None, most: int | None, *, relevant: str, repeats: str, short: str
) -> Fraction | None:
    """Right pairs of the first `most` relevant items and the first k others, over all pairs."""
    labels, missed = _labels(event, relevant, repeats)
    others = [index for index, good in enumerate(labels) if not good]
    if short == "skip" and k is not None and missed and len(others) < k:
        return None
    k = k or len(others) or 1
    negatives = (others + [len(labels)] * k)[:k]
    good = [index for index, is_good in enumerate(labels) if is_good][:most]
    expected = sum(labels) + missed if most is None else min(most, sum(labels) + missed)
    right = sum(index < other for index in good for other in negatives)
    return Fraction(right, expected * k) if expected else None


@by_type
@per_event
def partial_auc(
    event: AnyEvent,
    k: int | None,
    *,
    relevant: str = "positive",
    repeats: str = "first",
    short: str = "count",
) -> Fraction | None:
    """Pairs of any relevant item and one of the first k others."""
    return _pairs(event, k, None, relevant=relevant, repeats=repeats, short=short)


@by_type
@per_event
def pap(
    event: AnyEvent,
    k: int | None,
    *,
    relevant: str = "positive",
    repeats: str = "first",
    short: str = "count",
) -> Fraction | None:
    """Pairs of one of the first k relevant items and one of the first k others."""
    return _pairs(event, k, k, relevant=relevant, repeats=repeats, short=short)
