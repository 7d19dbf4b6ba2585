"""Summary statistics of values, as in a textbook."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

Number: TypeAlias = Fraction | float


class RefusedError(Exception):
    """No value, because the convention's system raises an error."""


def summary_of(
    values: Sequence[Number],
    *,
    statistic: str = "mean",
    q: float = 0.5,
    method: str = "linear",
    confidence: float = 0.95,
    deviation: str = "double",
    finish: Callable[[float], float] = float,
) -> float:
    """The chosen summary statistic of the defined values."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    if statistic == "mean":
        return finish(mean(known))
    if statistic in ("median", "quantile"):
        return finish(
            _quantile(
                sorted(known),
                Fraction(str(q)) if statistic == "quantile" else Fraction(1, 2),
                method,
            )
        )
    error = _standard_error(known, deviation)
    wide = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    return error if statistic == "standard_error" else error * wide


def mean(values: Sequence[Number]) -> float:
    if not values:
        return math.nan
    if any(math.isinf(value) for value in values):
        return float(sum(map(float, values)))
    return float(sum(map(_exact, values)) / len(values))


def _quantile(ordered: Sequence[Number], q: Fraction, method: str) -> float:
    if method == "lower":
        return float(ordered[max(1, math.ceil(q * len(ordered))) - 1])
    return float(np.quantile(np.array([float(value) for value in ordered]), float(q)))


def _standard_error(values: Sequence[Number], deviation: str) -> float:
    if len(values) < 2:
        return 0.0 if deviation == "single" else math.nan
    if any(math.isinf(value) for value in values):
        return math.nan
    spread = float(statistics.stdev(map(_exact, values)))
    if deviation == "single":
        with np.errstate(over="ignore"):
            spread = float(np.float32(spread))
    return spread / math.sqrt(len(values))


def _exact(value: Number) -> Fraction:
    return Fraction(value)
