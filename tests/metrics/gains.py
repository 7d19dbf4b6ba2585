"""Gains and discounts of cumulated gain, by their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence


def worth(found: float, gain: str) -> float:
    """2^g - 1, g, or 1."""
    if gain == "exp2":
        return math.expm1(min(found, 1000.0) * math.log(2))
    return min(float(found), 2.0**1000) if gain == "linear" else 1.0


def discounted(hits: Sequence[tuple[int, float]], gain: str, by: str) -> list[float]:
    """Worth of each (rank, gain) over the discount of its rank."""
    divisors = {
        "log2": lambda rank: math.log2(rank + 1),
        "ln": lambda rank: math.log(rank + 1),
        "log2_rank": lambda rank: max(1.0, math.log2(rank)),
    }
    return [worth(found, gain) / divisors[by](rank) for rank, found in hits]


def ranked(gains: Sequence[float]) -> list[tuple[int, float]]:
    return list(enumerate(gains, start=1))
