"""Confidence bounds of entropy and Gini coefficient from a random sample of the items.

K(c) is the number of items counted at least c times. Entropy and the Gini coefficient are functions
of K: the sum over items of n ln(n) is the sum over c of K(c) times c ln(c) - (c - 1) ln(c - 1), and
the sum over pairs of items of min(n, m) is the sum over c of K(c)^2. The sampled items are known
exactly. For the others, U(c) = K(c) - sampled(c) lies between two bounds at each c, and its sum
over c, the total of their counts, is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.sampling import WIDTH, bounds_of

_PER_DOUBLING: Final = 8
_STEPS: Final = 60


class Band:
    """Bounds of U(c) on segments (first, last] of c, on which sampled(c) is constant.

    They hold together at a confidence of 99.9 %: they bound binomial counts at points that do not
    depend on the data, and between two points U does not increase.

    Args:
        counts: counts of the sampled items, ascending.
        share: sampled share of all items.
        rest: upper bound of the total count of the other items.

    Attributes:
        length: integers in each segment.
        sampled: sampled(c) on each segment.
        low: lower bound of U(c) on each segment, non-increasing.
        high: upper bound of U(c) on each segment, non-increasing.
    """

    def __init__(self, counts: IntArray, share: float, rest: int) -> None:
        points = np.unique(np.ceil(2.0 ** (np.arange(64 * _PER_DOUBLING) / _PER_DOUBLING)))
        points = points[points <= max(rest, 1)]
        sampled = counts.size - np.searchsorted(counts, points)
        width = WIDTH + math.log(points.size + 1)
        bounds = np.array([bounds_of(count, share, width) for count in sampled.tolist()])
        low = np.append(np.maximum.accumulate((bounds[:, 0] - sampled)[::-1])[::-1], 0.0)
        high = np.minimum.accumulate(bounds[:, 1] - sampled)
        edges = np.unique(np.concatenate([points, points - 1, counts, [rest]]))
        self.last = edges[edges > 0].astype(np.float64)
        self.first = np.concatenate([[0.0], self.last[:-1]])
        self.length = self.last - self.first
        self.sampled = counts.size - np.searchsorted(counts, self.last).astype(np.float64)
        possible = self.last <= rest
        self.low = low[np.searchsorted(points, self.last)] * possible
        self.high = high[np.searchsorted(points, self.last, side="right") - 1] * possible

    def filled(self, rest: float, *, rising: bool) -> FloatArray:
        """Fill segments one by one up to `high` until U(c) sums to `rest`; the amounts above `low`.

        Args:
            rest: the sum of U(c).
            rising: whether to start with small c.
        """
        order = slice(None, None, 1 if rising else -1)
        room = (self.length * (self.high - self.low))[order]
        left = rest - float(self.length @ self.low)
        taken: FloatArray = np.clip(left - (np.cumsum(room) - room), 0.0, room)
        return taken[order]

    def even(self, rest: float) -> FloatArray:
        """K(c) on each segment, as even as the bounds and the sum `rest` of U(c) allow."""
        largest = float((self.sampled + self.high).max())
        level = _crossing(lambda level: float(self.length @ self._at(level)) - rest, largest)
        return self.sampled + self._at(level)

    def _at(self, level: float) -> FloatArray:
        amount: FloatArray = np.clip(level - self.sampled, self.low, self.high)
        return amount


def logarithms(counts: IntArray, share: float, rest: int) -> tuple[float, float]:
    """Bounds of the sum of n ln(n) over all items, where n is an item's count.

    Example:
        >>> logarithms(np.array([1, 1, 2]), 1.0, 0)
        (1.3862943611198906, 1.3862943611198906)
    """
    total = float(counts @ np.log(counts))
    if not rest:
        return total, total
    band = Band(counts, share, rest)
    room = np.maximum(band.high - band.low, np.finfo(np.float64).tiny)
    total += float(band.low @ (_weight(band.last) - _weight(band.first)))
    # The weight of a unit of U(c) increases with c.
    least = _weight(band.first + band.filled(rest, rising=True) / room) - _weight(band.first)
    most = _weight(band.last) - _weight(band.last - band.filled(rest, rising=False) / room)
    return total + float(room @ least), total + float(room @ most)


def evenness(counts: IntArray, share: float, least: int, most: int) -> tuple[float, float]:
    """Bounds of the sum of min(n, m) over pairs of items divided by the sum of n over items.

    Example:
        >>> evenness(np.array([1, 1, 2]), 1.0, 0, 0)
        (2.5, 2.5)
    """
    total = float(counts.sum())
    band = Band(counts, share, most)
    start = float(band.length @ (band.sampled + band.low) ** 2)
    # A square lies below its chord, and the slope of the chord does not increase with c.
    slope = 2.0 * band.sampled + band.low + band.high

    def lowest(rest: float) -> float:
        return float(band.length @ band.even(rest) ** 2) / (total + rest)

    def highest(rest: float) -> float:
        return (start + float(slope @ band.filled(rest, rising=True))) / (total + rest)

    sure, possible = float(band.length @ band.low), float(band.length @ band.high)
    ends = min(max(least, sure), possible), max(min(most, possible), sure)
    return _minimum(lowest, *ends), -_minimum(lambda rest: -highest(rest), *ends)


def _weight(count: FloatArray) -> FloatArray:
    return np.asarray(count * np.log(np.maximum(count, 1e-300)))


def _crossing(rising: Callable[[float], float], high: float) -> float:
    """The largest argument from 0 to high at which an increasing function is at most 0."""
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) <= 0.0 else (low, middle)
    return low


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The minimum of a unimodal function, by ternary search."""
    for _ in range(_STEPS if high > low else 0):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if function(left) <= function(right) else (left, high)
    return min(function(low), function(high))
