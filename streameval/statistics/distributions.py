"""How often each value of a per-list metric occurred: exact up to a cap, then in narrow bins."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.errors import StateVersionError, UnlikeStateError
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.exact import ExactSum, ratio

VERSION = 1
CAP = 65_536
_BIN_SHIFT = 41
"""A bin keeps sign, exponent and the top 11 bits of the mantissa: values within 1 part in 2048."""

Quantile: TypeAlias = Literal["lower", "linear"]


class Distribution:
    """Counts of the distinct values of one per-list metric, with the exact sum of all of them.

    Up to `cap` distinct values every value is kept; beyond, all values are binned by the leading
    bits of their float (`estimated` says so). Sums stay exact on both sides. The content is a
    function of the multiset of values alone.

    Example:
        >>> values = Distribution()
        >>> values.add(np.array([0.5, 1.0]), np.array([3, 1]))
        >>> values.count, values.total, values.quantile(0.5)
        (4, 2.5, 0.5)
    """

    __slots__ = ("_counts", "_squares", "_sum", "cap", "estimated")

    def __init__(self, cap: int = CAP) -> None:
        self.cap = cap
        self.estimated = False
        self._counts: dict[int, int] = {}
        self._sum = ExactSum()
        self._squares = ExactSum()

    def add(self, values: FloatArray, counts: IntArray) -> None:
        """Count each value (finite, shape (n,)) as often as its count (shape (n,)) says."""
        values = values + 0.0
        self._sum.add(values, counts)
        self._squares.add_squares(values, counts)
        keys = values.view(np.int64)
        self._count(keys >> _BIN_SHIFT if self.estimated else keys, counts)

    def merge(self, other: Distribution) -> None:
        """Add another distribution.

        Raises:
            UnlikeStateError: it has another cap.
        """
        if other.cap != self.cap:
            raise UnlikeStateError("distribution cap", self.cap, other.cap)
        if other.estimated and not self.estimated:
            self._bin()
        keys = np.fromiter(other._counts.keys(), np.int64, len(other._counts))
        counts = np.fromiter(other._counts.values(), np.int64, len(other._counts))
        binned = self.estimated and not other.estimated
        self._count(keys >> _BIN_SHIFT if binned else keys, counts)
        self._sum.merge(other._sum)
        self._squares.merge(other._squares)

    @property
    def count(self) -> int:
        """How many values were added."""
        return sum(self._counts.values())

    @property
    def total(self) -> float:
        """The exact sum of the values, rounded once."""
        return self._sum.value

    @property
    def exact_total(self) -> ExactSum:
        """The exact sum itself, for adding to it before rounding."""
        return self._sum

    def quantile(self, q: float, method: Quantile = "lower") -> float:
        """The value below which a share q (0 to 1) of all values lies; NaN without values.

        Args:
            q: the share.
            method: "lower" gives a value that occurred (rank ceil(q n)); "linear" interpolates
                between neighbours as numpy does by default.
        """
        total = self.count
        if not total:
            return math.nan
        ordered = sorted((self._value(key), count) for key, count in self._counts.items())
        if method == "lower":
            return _at(ordered, max(0, math.ceil(q * total) - 1))
        place = q * (total - 1)
        low, high = _at(ordered, math.floor(place)), _at(ordered, math.ceil(place))
        return low + (high - low) * (place - math.floor(place))

    @property
    def standard_error(self) -> float:
        """Sample standard deviation over the square root of the count; NaN below two values."""
        n = self.count
        if n < 2:
            return math.nan
        # In integers, where a small difference of large sums loses nothing.
        spread = n * self._squares.scaled * ExactSum.ONE - self._sum.scaled**2
        scale = ExactSum.ONE**2 * n * n * (n - 1)
        return ratio(math.isqrt(spread * scale), scale)

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        return {
            "version": VERSION,
            "cap": self.cap,
            "estimated": int(self.estimated),
            "counts": [list(item) for item in sorted(self._counts.items())],
            "sum": hex(self._sum.scaled),
            "squares": hex(self._squares.scaled),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: it has another cap.
        """
        if state["version"] != VERSION:
            raise StateVersionError("distribution", state["version"], VERSION)
        if state["cap"] != self.cap:
            raise UnlikeStateError("distribution cap", self.cap, state["cap"])
        self.estimated = bool(state["estimated"])
        self._counts = dict(state["counts"])
        self._sum = ExactSum(int(state["sum"], 16))
        self._squares = ExactSum(int(state["squares"], 16))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def _count(self, keys: IntArray, counts: IntArray) -> None:
        distinct, place = np.unique(keys, return_inverse=True)
        sums = np.zeros(distinct.size, np.int64)
        np.add.at(sums, place, counts)
        known = self._counts
        for key, count in zip(distinct.tolist(), sums.tolist(), strict=True):
            known[key] = known.get(key, 0) + count
        if len(known) > self.cap and not self.estimated:
            self._bin()

    def _bin(self) -> None:
        self.estimated = True
        binned: dict[int, int] = {}
        for key, count in self._counts.items():
            binned[key >> _BIN_SHIFT] = binned.get(key >> _BIN_SHIFT, 0) + count
        self._counts = binned

    def _value(self, key: int) -> float:
        middle = (key << _BIN_SHIFT) | (1 << (_BIN_SHIFT - 1)) if self.estimated else key
        return float(np.int64(middle).view(np.float64))


def _at(ordered: list[tuple[float, int]], place: int) -> float:
    for value, count in ordered:
        if place < count:
            return value
        place -= count
    return ordered[-1][0]
