from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, over_lists


def hit_rate(events: Sequence[Shown], k: int | None, *, empty: str = "zero", **how: Any) -> float:
    """1 for a list with a hit, else 0; averaged over lists."""
    return over_lists(events, k, lambda outcome: Fraction(bool(outcome.hits)), empty=empty, **how)
