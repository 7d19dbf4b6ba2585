from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, over_lists


def mrr(events: Sequence[Shown], k: int | None, *, empty: str = "zero", **how: Any) -> float:
    """1 over the rank of the first hit, 0 without one; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        return Fraction(1, outcome.hits[0][0]) if outcome.hits else Fraction(0)

    return over_lists(events, k, per_list, empty=empty, **how)
