from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, fraction, over_lists


def r_precision(
    events: Sequence[Shown], k: int | None, *, empty: str = "skip", **how: Any
) -> float:
    """Hits among the first R of R relevant items; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        among = [rank for rank, _ in outcome.hits if rank <= outcome.interacted]
        return fraction(len(among), outcome.interacted)

    return over_lists(events, k, per_list, empty=empty, **how)
