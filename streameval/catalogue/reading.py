"""A value with its evidence."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from streameval.events.errors import UndefinedMetricError
from streameval.statistics.intervals import Interval

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Bounded(NamedTuple):
    """An inexact value with its bounds."""

    value: float
    low: float
    high: float


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a metric with its evidence.

    Attributes:
        metric: canonical text, for example ndcg@10.
        value: the value; undefined without evidence (NaN, in the API null), never 0.
        count: denominator of the mean (lists, or items shown for ctr).
        lists: number of lists in the value.
        total: numerator of the mean (value = total / count), or the value of a sum; None for other
            metrics, for example coverage.
        estimated: whether the value is an estimate because a cap was exceeded.
        low: lower bound of an estimate: certain, or with a confidence of 99.9 % if items were
            sampled; None if the value is exact or no bound is known.
        high: upper bound; None in the same cases.
        interval: confidence interval of the true mean; None without `intervals`, or for the
            reason in `no_interval`.
        weight: sum of the weights that divides the value of a ratio such as snips; else None.
        verdict: side of the metric's reference on which the value is, such as "support is missing"
            of a mean weight; None without a reference, or without `intervals`.
        note: a caveat to show with the value, such as the share of clipped lists, or how other
            systems count under the same name.
        no_interval: reason for a missing interval if intervals are configured; else None.

    Example:
        >>> reading = Reading(metric="hit_rate@10", value=0.5, count=4, lists=4, total=2.0)
        >>> reading.defined, float(reading)
        (True, 0.5)
    """

    metric: str
    value: float
    count: Count
    lists: Count
    total: float | None = None
    estimated: bool = False
    low: float | None = None
    high: float | None = None
    interval: Interval | None = None
    no_interval: str | None = None
    weight: float | None = None
    verdict: str | None = None
    note: str | None = None

    def __float__(self) -> float:
        """The value."""
        return self.value

    @property
    def defined(self) -> bool:
        """True if there is evidence; an undefined value is NaN, never 0."""
        return not math.isnan(self.value)


def undefined(metric: str, why: str) -> UndefinedMetricError:
    """The error for a metric that is not defined for these lists."""
    return UndefinedMetricError(f"metric {metric!r} is undefined: {why}.", metric=metric, why=why)


class UndefinedReading(Reading, frozen=True, kw_only=True):
    """A reading without a value, because the convention's system raises an error on these lists."""

    problem: str

    @property  # type: ignore[misc]  # reading it is what must fail
    def value(self) -> float:
        """Raises an error.

        Raises:
            UndefinedMetricError: always.
        """
        raise undefined(self.metric, self.problem)

    @property
    def defined(self) -> bool:
        """Always False."""
        return False
