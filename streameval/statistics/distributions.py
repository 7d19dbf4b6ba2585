"""How often each value of a per-list metric occurred: exact up to a cap, then in narrow bins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.errors import StateVersionError, UnlikeStateError
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.bins import binned, middles, ordered, unordered
from streameval.statistics.exact import ExactSum, ratio
from streameval.statistics.packing import (
    Count,
    array_of,
    columns_of,
    integers,
    packed,
    sorted_counts,
)

VERSION = 1
CAP = 65_536
Quantile: TypeAlias = Literal["lower", "linear"]
_Head: TypeAlias = tuple[Count, bool, Count, tuple[Count, Count], str, str]
_Saved: TypeAlias = tuple[_Head, Ext, Ext]


class Distribution:
    """Counts of the distinct values of one per-list metric, with the exact sum of all of them.

    Up to `cap` distinct values every value is kept; beyond, all values are binned by the leading
    bits of their float (`estimated` says so). Sums stay exact on both sides. The content is a
    function of the multiset of values alone. NaN is no value and only counted as such.

    Attributes:
        cap: most distinct values kept.
        estimated: whether values are binned.
        undefined: how many were NaN.

    Example:
        >>> values = Distribution()
        >>> values.add(np.array([0.5, 1.0]), np.array([3, 1]))
        >>> values.count, values.total, values.quantile(0.5)
        (4, 2.5, 0.5)
    """

    __slots__ = ("_counts", "_infinite", "_squares", "_sum", "cap", "estimated", "undefined")

    def __init__(self, cap: int = CAP) -> None:
        self.cap = cap
        self.estimated = False
        self.undefined = 0
        self._infinite = [0, 0]
        self._counts: dict[int, int] = {}
        self._sum = ExactSum()
        self._squares = ExactSum()

    def add(self, values: FloatArray, counts: IntArray) -> None:
        """Count each value (shape (n,)) as often as its count (shape (n,)) says."""
        finite = np.isfinite(values)
        self.undefined += int(counts[np.isnan(values)].sum())
        self._infinite[0] += int(counts[values == math.inf].sum())
        self._infinite[1] += int(counts[values == -math.inf].sum())
        values, counts = values[finite] + 0.0, counts[finite]
        self._sum.add(values, counts)
        self._squares.add_squares(values, counts)
        self._count(binned(values) if self.estimated else ordered(values), counts)

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
        if self.estimated and not other.estimated:
            keys = binned(unordered(keys))
        if keys.size:
            self._count(keys, counts)
        self.undefined += other.undefined
        self._infinite = [sum(pair) for pair in zip(self._infinite, other._infinite, strict=True)]
        self._sum.merge(other._sum)
        self._squares.merge(other._squares)

    @property
    def count(self) -> int:
        """How many values were added."""
        return sum(self._counts.values()) + sum(self._infinite)

    @property
    def total(self) -> float:
        """The exact sum of the values, rounded once."""
        if any(self._infinite):
            above, below = self._infinite
            return math.nan if above and below else math.inf if above else -math.inf
        return self._sum.value

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
        above, below = self._infinite
        known = [(-math.inf, below), *self._values(), (math.inf, above)]
        if method == "lower":
            return _at(known, max(0, math.ceil(q * total) - 1))
        place = q * (total - 1)
        low, high = _at(known, math.floor(place)), _at(known, math.ceil(place))
        return low if low == high else low + (high - low) * (place - math.floor(place))

    @property
    def standard_error(self) -> float:
        """Sample standard deviation over the square root of the count; NaN below two values."""
        n = self.count
        if n < 2 or any(self._infinite):
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
            "undefined": self.undefined,
            "infinite": list(self._infinite),
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
        self.undefined = state["undefined"]
        self._infinite = list(state["infinite"])
        self._counts = dict(state["counts"])
        self._sum = ExactSum(int(state["sum"], 16))
        self._squares = ExactSum(int(state["squares"], 16))

    def copy(self) -> Distribution:
        """An independent one with the same content."""
        twin = Distribution(self.cap)
        twin.estimated, twin.undefined = self.estimated, self.undefined
        twin._infinite = self._infinite.copy()
        twin._counts = self._counts.copy()
        twin._sum, twin._squares = self._sum.copy(), self._squares.copy()
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        sums = hex(self._sum.scaled), hex(self._squares.scaled)
        yield array_of(3)
        yield packed((self.cap, self.estimated, self.undefined, self._infinite, *sums))
        for column in sorted_counts(self._counts):
            yield packed(integers(column))

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            UnlikeStateError: it has another cap.
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        head, *columns = msgspec.msgpack.decode(saved, type=_Saved)
        cap, estimated, undefined, infinite, total, squares = head
        keys, counts = columns_of(columns, columns=2)
        if cap != self.cap:
            raise UnlikeStateError("distribution cap", self.cap, cap)
        self.estimated, self.undefined = estimated, undefined
        self._infinite = list(infinite)
        self._counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        self._sum, self._squares = ExactSum(int(total, 16)), ExactSum(int(squares, 16))

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
        keys = np.fromiter(self._counts.keys(), np.int64, len(self._counts))
        counts = np.fromiter(self._counts.values(), np.int64, len(self._counts))
        self._counts = {}
        self._count(binned(unordered(keys)), counts)

    def _values(self) -> list[tuple[float, int]]:
        keys = np.fromiter(sorted(self._counts), np.int64, len(self._counts))
        values = middles(keys) if self.estimated else unordered(keys)
        counts = [self._counts[key] for key in keys.tolist()]
        return list(zip(values.tolist(), counts, strict=True))


def _at(known: list[tuple[float, int]], place: int) -> float:
    for value, count in known:
        if place < count:
            return value
        place -= count
    return known[-1][0]
