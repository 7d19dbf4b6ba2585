from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Reader, Shown, mean_over_lists


def hit_rate(
    events: Sequence[Shown], k: int | None, *, empty: str = "zero", **reading: Any
) -> float:
    """1 for a list with a hit, else 0; averaged over lists."""
    outcomes = Reader(k, **reading).outcomes(events)
    return mean_over_lists(outcomes, empty, lambda outcome: Fraction(bool(outcome.hits)))
