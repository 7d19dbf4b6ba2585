"""Twins of metrics of the scores and outcomes of items."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from tests.metrics.preparation import (
    AnyEvent,
    Number,
    Twin,
    by_type,
    gains_of,
    mean,
    over_events,
    pairs_in_order,
)

_Outcomes: TypeAlias = Sequence[tuple[float, bool]]
"""A score, and whether its item is positive."""


def _samples(event: AnyEvent) -> list[tuple[float, float | None]]:
    """Score and gain of every scored item of one list; None without an interaction."""
    if event.scores is None:
        return []
    gains = gains_of(event.interactions)
    pairs = zip(event.recommendations, event.scores, strict=True)
    return [(float(score), gains.get(item)) for item, score in pairs]


def _outcomes(event: AnyEvent, *, positive: str = "relevant", single: bool = False) -> _Outcomes:
    return [
        (
            float(np.float32(score)) if single else score,
            gain is not None and (gain == 1 if positive == "one" else gain > 0),
        )
        for score, gain in _samples(event)
    ]


def _per_sample(**of: Any) -> Callable[[Callable[..., Number | None]], Twin]:
    """A metric from its value of each scored item, averaged; None is left out."""

    def averaged(value: Callable[..., Number | None]) -> Twin:
        @by_type
        @wraps(value)
        def twin(
            events: Sequence[AnyEvent], _: int | None, *, outcome: str = "relevant", **how: Any
        ) -> float:
            pairs = [pair for event in events for pair in _samples(event)]
            values = [value(score, gain, outcome) for score, gain in pairs]
            return over_events(values, events, **how, **of)

        return twin

    return averaged


@_per_sample()
def mae(score: float, rating: float | None, _: str) -> Fraction | None:
    """|score - rating| of every rated item."""
    return None if rating is None else abs(Fraction(score) - Fraction(rating))


@_per_sample(finish=math.sqrt)
def rmse(score: float, rating: float | None, _: str) -> Number | None:
    """Root of the mean of (score - rating)^2 of every rated item."""
    if rating is None:
        return None
    square = (Fraction(score) - Fraction(rating)) ** 2
    return square if square <= sys.float_info.max else math.inf


@_per_sample()
def log_loss(score: float, gain: float | None, outcome: str) -> float:
    """-ln of the predicted probability of the outcome."""
    chance = min(max(score, 1e-15), 1 - 1e-15)
    share = (gain or 0.0) if outcome == "gain" else float((gain or 0.0) > 0)
    return -share * math.log(chance) - (1 - share) * math.log(1 - chance)


def _pooled(value: Callable[..., float]) -> Twin:
    """A metric of the items of all lists together."""

    @by_type
    @wraps(value)
    def twin(
        events: Sequence[AnyEvent],
        _: int | None,
        *,
        positive: str = "relevant",
        single: bool = False,
        **how: Any,
    ) -> float:
        lists = [_outcomes(event, positive=positive, single=single) for event in events]
        return value([score_pair for scored in lists for score_pair in scored], **how)

    return twin


@_pooled
def auc(outcomes: _Outcomes) -> float:
    """Pairs in the right order over all pairs."""
    right, pairs = pairs_in_order(outcomes)
    return right / pairs if pairs else math.nan


@by_type
def gauc(
    events: Sequence[AnyEvent], _: int | None, *, weight: str = "positives", **how: Any
) -> float:
    """Pairs in the right order over all pairs of each list; averaged with a weight."""
    areas, weights = [], []
    for outcomes in [_outcomes(event, **how) for event in events]:
        right, pairs = pairs_in_order(outcomes)
        if pairs:
            areas.append(right / pairs)
            weights.append(sum(good for _, good in outcomes) if weight == "positives" else 1)
    weighted = math.fsum(area * factor for area, factor in zip(areas, weights, strict=True))
    return weighted / sum(weights) if weights else math.nan


@_pooled
def expected_calibration_error(outcomes: _Outcomes, *, bins: int = 10) -> float:
    """|share of positives - mean score| of each bin, weighted by its items."""
    clipped = [(min(max(score, 0.0), 1.0), good) for score, good in outcomes]
    error = Fraction(0)
    for number in range(1, bins + 1):
        low, high = (number - 1) / bins, number / bins
        inside = [
            (Fraction(score), good)
            for score, good in clipped
            if low < score <= high or (number == 1 and score == 0)
        ]
        expected = sum((score for score, _ in inside), Fraction(0))
        error += abs(sum(good for _, good in inside) - expected)
    return float(error / len(outcomes)) if outcomes else math.nan


@_pooled
def normalised_entropy(outcomes: _Outcomes) -> float:
    """Mean log loss of the scores over the mean log loss of the share of positives."""
    share = mean([float(good) for _, good in outcomes])
    if math.isnan(share) or share in (0.0, 1.0):
        return math.nan

    def lost(chance: float, *, good: bool) -> float:
        chance = min(max(chance, 1e-15), 1 - 1e-15)
        return -math.log(chance) if good else -math.log(1 - chance)

    loss = mean([lost(score, good=good) for score, good in outcomes])
    return loss / mean([lost(share, good=good) for _, good in outcomes])
