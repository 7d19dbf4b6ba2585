from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, fraction, over_lists


def f1(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "k",
    empty: str = "skip",
    **how: Any,
) -> float:
    """2 P R / (P + R) of each list; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        items = k if k is not None and denominator == "k" else outcome.length
        precision = fraction(len(outcome.hits), items)
        recall = fraction(len(outcome.hits), outcome.interacted)
        return 2 * precision * recall / (precision + recall) if recall else Fraction(0)

    return over_lists(events, k, per_list, empty=empty, **how)
