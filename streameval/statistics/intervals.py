"""Confidence intervals: settings, sums by user group, and results."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
import numpy as np

from streameval.events.errors import MetricError
from streameval.events.ids import is_number
from streameval.events.problems import percentage_hint
from streameval.events.spelling import suggestion
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray

IntervalKind: TypeAlias = Literal["anytime", "fixed", "pointwise"]
"""Valid at every look; for one planned look; for a single window, never for alerts."""

Method: TypeAlias = Literal["anytime", "fixed"]
"""Valid at every look, or for one planned look."""

GroupCount: TypeAlias = Literal[16, 32, 64, 128, 256, 512, 1024]

UNIT: Final = 2.0**-32
"""Unit of a numerator: the value of a list is rounded to it once, so that sums are exact."""

BOUNDED: Final = 2.0
WEIGHTED: Final = 1024.0
"""Larger values are summed exactly. Smaller ones are rounded to UNIT, and 2^30 of bounded metrics
fit, or 2^21 lists of the largest weight."""

LARGEST_OF_USER: Final = 2.0**20
"""Largest value of a list in a mean over users: 2^11 such lists of a user fit."""


class Intervals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of confidence intervals, computed from user buckets.

    Attributes:
        groups: number of user buckets.
        confidence: share of experiments whose interval covers the truth.
        precision: relative half width at which an anytime interval is tightest.

    Raises:
        MetricError: a value is not allowed.

    Example:
        >>> Intervals(confidence=0.9).groups
        256
    """

    groups: GroupCount = 256
    confidence: Annotated[float, msgspec.Meta(gt=0.5, lt=1.0)] = 0.95
    precision: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.02

    def __post_init__(self) -> None:
        # msgspec checks constraints when it decodes, not when Python code creates a Struct.
        groups: Any = self.groups
        if not isinstance(groups, Integral) or groups not in get_args(GroupCount):
            choices = ", ".join(map(str, get_args(GroupCount)))
            raise MetricError(f"Intervals(groups={self.groups!r}): choose one of {choices}.")
        if not _is_confidence(self.confidence):
            allowed = "give a share above 0.5 and below 1, for example 0.95"
            hint = percentage_hint(self.confidence, _is_confidence)
            raise MetricError(f"Intervals(confidence={self.confidence!r}): {allowed}{hint}.")
        if not _is_precision(self.precision):
            allowed = "give a relative half width above 0 and up to 1, for example 0.02"
            hint = percentage_hint(self.precision, _is_precision)
            raise MetricError(f"Intervals(precision={self.precision!r}): {allowed}{hint}.")


def _is_confidence(value: Any) -> bool:
    return is_number(value) and 0.5 < value < 1.0


def _is_precision(value: Any) -> bool:
    return is_number(value) and 0.0 < value <= 1.0


def check_method(method: str, methods: Sequence[str]) -> None:
    """Refuse an unknown method of intervals or comparisons.

    Raises:
        MetricError: the method is unknown.
    """
    if method not in methods:
        hint = suggestion(str(method), methods) or f" Choose {' or '.join(map(repr, methods))}."
        raise MetricError(f"unknown method={method!r}.{hint}")


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A confidence interval of the true mean.

    Attributes:
        low: lower bound, in the metric's unit.
        high: upper bound.
        confidence: how often such an interval covers the truth.
        kind: the method: "fixed", "anytime" or "pointwise".
        groups: effective number of user buckets.

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("hit_rate@1", intervals=Intervals())
        >>> for user in range(2_000):
        ...     accumulator.update(["a"], ["a"] if user % 2 else [], user=f"u{user}")
        >>> interval = accumulator.interval("hit_rate@1", "fixed")
        >>> round(interval.low, 3), round(interval.high, 3), interval.kind
        (0.478, 0.522, 'fixed')
    """

    low: float
    high: float
    confidence: float
    kind: IntervalKind
    groups: float


class GroupSums(NamedTuple):
    """Numerators and denominators of a mean in one slice, by event day and user group.

    Attributes:
        days: days since 1970-01-01, ascending; [0] if events have no time; shape (D,).
        numerators: sums of the values of lists, in the metric's unit; shape (D, G).
        denominators: lists, items for a metric per item, or weights of a ratio; shape (D, G).
    """

    days: IntArray
    numerators: FloatArray
    denominators: IntArray | FloatArray

    def rows(self, days: IntArray | BoolArray | slice) -> GroupSums:
        """The sums of some of the days, by their index."""
        return GroupSums(self.days[days], self.numerators[days], self.denominators[days])


def ratio_of(above: GroupSums, below: GroupSums) -> GroupSums:
    """The sums of a ratio of two means of the same lists, without days of the denominator 0.

    Example:
        >>> lists, days = np.full((2, 2), 4), np.array([7, 8])
        >>> weights = GroupSums(days, np.array([[1.5, 2.5], [0.0, 0.0]]), lists)
        >>> ratio_of(GroupSums(days, np.array([[1.0, 2.0], [0.0, 0.0]]), lists), weights)
        GroupSums(days=array([7]), numerators=array([[1., 2.]]), denominators=array([[1.5, 2.5]]))
    """
    days, upper, lower = np.intersect1d(above.days, below.days, return_indices=True)
    divisors = below.numerators[lower]
    some: BoolArray = np.asarray(divisors.any(axis=1))
    return GroupSums(days, above.numerators[upper], divisors).rows(some)


class Audience(NamedTuple):
    """The users of one slice with small hashes, and its lists by day.

    Attributes:
        hashes: all 64-bit hashes of user ids below the threshold, ascending; shape (n,).
        first: day of the first list of each user, since 1970-01-01; shape (n,).
        last: day of the last list of each user; shape (n,).
        threshold: 2^64 if `hashes` has all users.
        days: days with lists, ascending; shape (D,).
        list_counts: number of lists of each day; shape (D,).
        nameless: lists of each day without a user id; shape (D,).
    """

    hashes: np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]
    first: IntArray
    last: IntArray
    threshold: int
    days: IntArray
    list_counts: IntArray
    nameless: IntArray

    @property
    def users(self) -> float:
        """Number of distinct users; an estimate if the threshold is below 2^64."""
        return self.hashes.size * (2**64 / self.threshold)

    @property
    def lists(self) -> int:
        """Number of lists."""
        return int(self.list_counts.sum())

    @property
    def anonymous(self) -> int:
        """Lists without a user id, which are grouped by the id of their event, if it has one."""
        return int(self.nameless.sum())

    def below(self, threshold: int) -> Audience:
        """The users with hashes below a threshold, which is not above that of the audience."""
        if threshold >= self.threshold:
            return self
        below = slice(0, int(np.searchsorted(self.hashes, np.uint64(threshold))))
        return self._replace(
            hashes=self.hashes[below],
            first=self.first[below],
            last=self.last[below],
            threshold=threshold,
        )

    def since(self, day: int | None) -> Audience:
        """The users who came on a day or later, and the lists from then on; None: all."""
        return self if day is None else self._only(self.last >= day, self.days >= day)

    def until(self, day: int | None) -> Audience:
        """The users who came on a day or earlier, and the lists up to then; None: all."""
        return self if day is None else self._only(self.first <= day, self.days <= day)

    def _only(self, users: BoolArray, days: BoolArray) -> Audience:
        return self._replace(
            hashes=self.hashes[users],
            first=self.first[users],
            last=self.last[users],
            days=self.days[days],
            list_counts=self.list_counts[days],
            nameless=self.nameless[days],
        )


NOBODY: Final = Audience(
    np.zeros(0, np.uint64),
    first=np.zeros(0, np.int64),
    last=np.zeros(0, np.int64),
    threshold=2**64,
    days=np.zeros(0, np.int64),
    list_counts=np.zeros(0, np.int64),
    nameless=np.zeros(0, np.int64),
)
"""The audience of a variant that never ran."""
