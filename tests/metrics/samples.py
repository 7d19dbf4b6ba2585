"""Scored items with their outcome."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.metrics.preparation import Shown, gains_of

Sample = tuple[float, float | None]
"""A score, and the gain of the item; None where nothing was done with it."""


def samples_of(event: Shown) -> list[Sample]:
    """Every scored item of one list."""
    if event.scores is None:
        return []
    gains = gains_of(event.interactions)
    pairs = zip(event.recommendations, event.scores, strict=True)
    return [(float(score), gains.get(item)) for item, score in pairs]


def outcomes_of(event: Shown, positive: str, *, single: bool) -> list[tuple[float, bool]]:
    """Every scored item of one list, and whether it is positive."""
    return [
        (float(np.float32(score)) if single else score, _positive(gain, positive))
        for score, gain in samples_of(event)
    ]


def pairs_in_order(outcomes: Sequence[tuple[float, bool]]) -> tuple[float, int]:
    """Pairs of a positive scored above a negative, ties one half; and how many pairs there are."""
    positives = [score for score, good in outcomes if good]
    negatives = [score for score, good in outcomes if not good]
    right = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    return right, len(positives) * len(negatives)


def _positive(gain: float | None, positive: str) -> bool:
    if gain is None:
        return False
    return gain == 1 if positive == "one" else gain > 0
