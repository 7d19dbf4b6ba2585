from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, fraction, over_lists


def precision(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "k",
    empty: str = "zero",
    **how: Any,
) -> float:
    """Hits over k, or over the items there are; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        items = k if k is not None and denominator == "k" else outcome.length
        return fraction(len(outcome.hits), items)

    return over_lists(events, k, per_list, empty=empty, **how)
