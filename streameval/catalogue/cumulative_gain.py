"""Discounts and gains of the DCG family (Järvelin and Kekäläinen, 2002)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np

from streameval.catalogue.signature import Percentiles, Span
from streameval.events.gains import LARGEST_GAIN
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.hitrows import Total

Gain: TypeAlias = Literal["linear", "exp2", "binary"]
"""The value of a gain g: g, 2^g - 1, or 1."""

GainDiscount: TypeAlias = Literal["log2", "log2_rank", "ln"]
"""The divisor of the gain at a rank: log2(rank + 1), max(1, log2(rank)), or ln(rank + 1)."""

Base: TypeAlias = Annotated[float, Span(1.001, 1000)]
"""Base of the logarithm; values are log2(base) times those of base 2."""

ValueCap: TypeAlias = Annotated[float, Span(0, sys.float_info.max), Percentiles(50, 100)]
"""Largest value of a list; 0 for none. Where arms are compared, a percentile of all their lists."""

_LARGEST: Final = math.log2(LARGEST_GAIN)
"""The largest exponent of a gain."""

_TABLED = 65_536
"""Largest rank whose discount is cached; a huge position must not fill the memory."""

# The math module, because the last bit of numpy's logarithm depends on the processor.
_DIVISORS: Mapping[GainDiscount, Callable[[int], float]] = {
    "log2": lambda rank: math.log2(rank + 1),
    "log2_rank": lambda rank: max(1.0, math.log2(rank)),
    "ln": lambda rank: math.log(rank + 1),
}
_TABLES: dict[GainDiscount, tuple[FloatArray, FloatArray]] = {
    kind: (np.full(1, math.nan), np.zeros(1)) for kind in _DIVISORS
}
"""Discounts by rank, and ideal DCGs by number of relevant items."""


def discount(rank: IntArray, kind: GainDiscount = "log2") -> FloatArray:
    """The discounted value of a gain of 1 at these ranks, from 1.

    Example:
        >>> discount(np.array([1, 3])).tolist()
        [1.0, 0.5]
    """
    if rank.max(initial=0) > _TABLED:
        return np.array([1.0 / _DIVISORS[kind](r) for r in rank.tolist()])
    discounts, _ = _tables(int(rank.max(initial=0)), kind)
    return discounts[rank]


def ideal(relevant: IntArray, kind: GainDiscount = "log2") -> FloatArray:
    """DCG of a list that starts with this many relevant items of gain 1.

    Example:
        >>> ideal(np.array([0, 1])).tolist()
        [0.0, 1.0]
    """
    _, ideals = _tables(int(relevant.max(initial=0)), kind)
    return ideals[relevant]


def gain_value(gain: FloatArray, kind: Gain) -> FloatArray:
    """The value of each gain, capped at the largest gain, 2^1000.

    Example:
        >>> gain_value(np.array([1.0, 2.0]), "exp2").tolist()
        [1.0, 3.0]
    """
    if kind == "binary":
        return np.ones_like(gain)
    if kind == "linear":
        return gain.clip(max=LARGEST_GAIN)
    return np.array([_exp2(min(g, _LARGEST)) for g in gain.tolist()])


def cap_values(values: Total, cap: float) -> Total:
    """The values of lists, of which larger ones count as the cap; with 0 there is none.

    Example:
        >>> cap_values(np.array([3.0, 250.0]), 100.0).tolist()
        [3.0, 100.0]
    """
    return np.minimum(values, cap) if cap else values


def _exp2(gain: float) -> float:
    # For gains below 1, 2^g - 1 would lose digits.
    return math.exp2(gain) - 1.0 if gain >= 1.0 else math.expm1(gain * math.log(2.0))


def _tables(rank: int, kind: GainDiscount) -> tuple[FloatArray, FloatArray]:
    """Discounts and ideal DCGs, at least up to this rank."""
    tables = _TABLES[kind]
    if rank >= tables[0].size:
        discounts = [1.0 / _DIVISORS[kind](r) for r in range(1, 2 * rank + 1)]
        ideals = accumulate(discounts, initial=0.0)
        # Replaced as a whole, because several threads may read metrics.
        tables = _TABLES[kind] = np.array([math.nan, *discounts]), np.array([*ideals])
    return tables
