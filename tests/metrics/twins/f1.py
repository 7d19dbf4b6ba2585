from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, fraction, over_lists


def f1(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "k",
    beta: float = 1.0,
    empty: str = "skip",
    **how: Any,
) -> float:
    """(1 + beta^2) P R / (beta^2 P + R) of each list; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        items = k if k is not None and denominator == "k" else outcome.length
        precision = fraction(len(outcome.hits), items)
        recall = fraction(len(outcome.hits), outcome.interacted)
        weight = Fraction(beta) ** 2
        if not recall:
            return Fraction(0)
        return (1 + weight) * precision * recall / (weight * precision + recall)

    return over_lists(events, k, per_list, empty=empty, **how)
