"""Intervals: their settings, the sums kept by user group, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.errors import MetricError, suggestion
from streameval.events.ids import is_number
from streameval.statistics.arrays import FloatArray, IntArray

Kind: TypeAlias = Literal["anytime", "fixed", "pointwise"]
"""May be looked at always; one planned look; a single window, never for alerts."""

Groups: TypeAlias = Literal[16, 32, 64, 128, 256, 512, 1024]

UNIT: Final = 2.0**-32
"""One unit of a numerator: each list's value is rounded to it once, so that sums are exact."""


class Intervals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Confidence intervals by user group.

    Attributes:
        groups: number of user groups.
        confidence: share of experiments whose interval covers the truth.
        precision: relative half width at which an anytime interval is tightest.

    Raises:
        MetricError: a value is not allowed.

    Example:
        >>> Intervals(confidence=0.9).groups
        256
    """

    groups: Groups = 256
    confidence: Annotated[float, msgspec.Meta(gt=0.5, lt=1.0)] = 0.95
    precision: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.02

    def __post_init__(self) -> None:
        # msgspec checks what it decodes, not what Python code gives.
        groups: Any = self.groups
        if not isinstance(groups, Integral) or groups not in get_args(Groups):
            known = ", ".join(map(str, get_args(Groups)))
            raise MetricError(f"Intervals(groups={self.groups!r}): choose one of {known}.")
        if not (is_number(self.confidence) and 0.5 < self.confidence < 1.0):
            allowed = "give a share above 0.5 and below 1, for example 0.95."
            raise MetricError(f"Intervals(confidence={self.confidence!r}): {allowed}")
        if not (is_number(self.precision) and 0.0 < self.precision <= 1.0):
            allowed = "give a relative half width above 0 and up to 1, for example 0.02."
            raise MetricError(f"Intervals(precision={self.precision!r}): {allowed}")


def check_method(method: str, known: Sequence[str]) -> None:
    """A method of intervals or comparisons is one of those known.

    Raises:
        MetricError: it is none of them.
    """
    if method not in known:
        hint = suggestion(str(method), known) or f" Choose {' or '.join(map(repr, known))}."
        raise MetricError(f"method={method!r} is none.{hint}")


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A confidence interval of the true mean.

    Attributes:
        low: lower bound, in the metric's unit.
        high: upper bound.
        confidence: how often such an interval covers the truth.
        kind: method: "fixed", "anytime" or "pointwise".
        groups: effective number of user groups behind it.
    """

    low: float
    high: float
    confidence: float
    kind: Kind
    groups: float


class GroupSums(NamedTuple):
    """Numerators and denominators of one mean metric of one slice, by event day and user group.

    Attributes:
        days: days since 1970-01-01 (UTC), ascending; [0] where events have no time; shape (D,).
        numerators: sums of the lists' values in their own unit; shape (D, G).
        denominators: lists, or items for a metric per item; shape (D, G).
    """

    days: IntArray
    numerators: FloatArray
    denominators: IntArray


class Audience(NamedTuple):
    """The users of one slice: a sample of their hashes, thinned by a common threshold.

    Attributes:
        hashes: 64-bit hashes of user ids below the threshold, ascending; shape (n,).
        threshold: every user whose hash is below it is in `hashes`; 2^64 where all are.
        lists: lists in all.
        anonymous: lists without a user id, which were grouped by their event's id.
    """

    hashes: NDArray[np.uint64]
    threshold: int
    lists: int
    anonymous: int

    @property
    def users(self) -> float:
        """Number of distinct users: exact where the sample is whole, an estimate otherwise."""
        return self.hashes.size * (2**64 / self.threshold)
