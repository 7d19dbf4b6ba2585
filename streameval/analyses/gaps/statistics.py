"""Gaps: how far the worst value of a label lies below the best, and which may be the worst.

The largest of many means is too large by chance and the smallest too small, so an interval of each
says little about their difference. Here all pairs of values have intervals that hold together
(Bonferroni; Hochberg and Tamhane, Multiple comparison procedures, 1987): so the interval
of the two extreme values holds although they were selected. A value may be the worst unless another
one is surely worse (Hsu, Simultaneous confidence intervals for all distances from the best, 1981).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Self, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from streameval.accumulator.accumulator import Accumulator
from streameval.accumulator.kinds.groups import not_comparable
from streameval.accumulator.objections import SliceSums, user_sums
from streameval.accumulator.overlap import Overlap
from streameval.accumulator.reading_intervals import IntervalMethod
from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.labels import OTHER
from streameval.events.errors import MetricError
from streameval.events.saved_states import unlike
from streameval.inference.interval_formulas import (
    FEWEST_GROUPS,
    NOISE,
    TOO_FEW_CLICKS,
    TOO_FEW_USERS,
    Estimate,
    half_width,
    half_width_limits,
    interval,
    pool_days,
    standard_error,
)
from streameval.statistics.arrays import BoolArray, FloatArray
from streameval.statistics.intervals import GroupSums, IntervalKind, Intervals, check_method

_NOT_VALUES: Final = {
    MISSING_LABEL: "It stands for lists without a value, which are not a group.",
    OTHER: "It stands for many values, which are not a group.",
}


class GapValue(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of one value of the label.

    Attributes:
        name: the value of the label.
        mean: None without evidence.
        low: lower bound of the mean alone; None without an interval.
        high: upper bound.
        worst: whether it may be the worst of those compared.
        left_out: reason that it is not compared, a sentence; None if it is.
    """

    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    worst: bool = False
    left_out: str | None = None


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The worst and the best mean of the values of a label.

    The bounds hold together for all pairs of values. They are None with fewer than two values that
    can be compared, or if nothing varies between users.

    Attributes:
        metric: canonical text.
        difference: the largest mean minus the smallest; None with fewer than two values.
        low: lower bound of the difference, at least 0: above 0, the values surely differ.
        high: upper bound.
        ratio: smallest mean / largest mean; None if a mean is below 0, or all are 0.
        ratio_low: lower bound of the ratio.
        ratio_high: upper bound, at most 1.
        values: every value of the label, the smallest mean first.
        kind: method of the bounds: "fixed", "anytime" or "pointwise".
        confidence: how often such bounds cover the truth.

    Example:
        >>> Gap(metric="ctr", kind="fixed", confidence=0.95).compared
        ()
    """

    metric: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    values: tuple[GapValue, ...] = ()
    kind: IntervalKind
    confidence: float

    @property
    def worst(self) -> tuple[str, ...]:
        """The values that may be the worst: the lowest, or the highest if lower is better."""
        return tuple(value.name for value in self.values if value.worst)

    @property
    def compared(self) -> tuple[str, ...]:
        """The values that are compared, the smallest mean first."""
        return tuple(value.name for value in self.values if value.left_out is None)

    @property
    def left_out(self) -> dict[str, str]:
        """Value -> the reason that it is not compared."""
        return {value.name: value.left_out for value in self.values if value.left_out is not None}


def gap(
    values: Mapping[str, Accumulator],
    metric: str,
    *,
    method: IntervalKind = "fixed",
    precision: float | None = None,
) -> Gap:
    """The gap between the values of a label, each counted by a separate accumulator.

    Args:
        values: value of the label -> accumulator; all made with the same `intervals`.
        metric: one that all were made with.
        method: "fixed" holds for one planned look; "anytime" holds however often you look.
        precision: share of the mean at which anytime bounds are tightest; by default that of the
            intervals.

    Raises:
        NotComparableError: the metric is not a mean over lists or items, or has no sums by user.
        UnlikeStateError: the numbers of groups differ.
        MetricError: an argument is not valid.

    Example:
        >>> from streameval import Accumulator, Intervals
        >>> de, nl = (Accumulator("hit_rate", intervals=Intervals()) for _ in range(2))
        >>> for user in range(3_000):
        ...     de.update(["a"], ["a"] if user % 3 else [], user=f"d{user}")
        ...     nl.update(["a"], ["a"] if user % 2 else [], user=f"n{user}")
        >>> found = gap({"de": de, "nl": nl}, "hit_rate")
        >>> round(found.difference, 3), found.low > 0, found.worst
        (0.167, True, ('nl',))
    """
    check_method(method, get_args(IntervalKind))
    by_value: Any = values
    if not isinstance(by_value, Mapping) or not by_value:
        raise MetricError(f"values={values!r:.80}: give value -> Accumulator, at least one")
    for name, value in by_value.items():
        if not isinstance(value, Accumulator):
            raise MetricError(f"values[{name!r}]={value!r:.80}: give a streameval.Accumulator")
    first = next(iter(values.values()))
    parsed = metric_of(metric, first.metrics)
    intervals = first.intervals
    if intervals is None:
        raise not_comparable(parsed.text)
    if precision is not None:
        intervals = replace(intervals, precision=precision)
    how, everyone = IntervalMethod(intervals, method), np.array([0])
    sums = {name: user_sums(parsed, value.table, everyone, how) for name, value in values.items()}
    return gap_of(parsed, sums, intervals, method)


def gap_of(
    metric: Metric,
    values: Mapping[str, SliceSums],
    intervals: Intervals,
    kind: IntervalKind = "anytime",
) -> Gap:
    """The gap between the values of a label, from the sums by user of each.

    Raises:
        UnlikeStateError: the numbers of groups differ.
    """
    widths = {value.sums.numerators.shape[1] for value in values.values()}
    if len(widths) > 1:
        raise unlike("numbers of user groups", min(widths), max(widths))
    rows = _with_enough_clicks([_LabelValue.of(name, value) for name, value in values.items()])
    rows.sort(key=lambda row: (row.estimate.value, row.name))
    compared = [row for row in rows if row.left_out is None]
    bounds: dict[str, float | None] = {}
    worst = frozenset[str]()
    if len(compared) > 1:
        bounds, worst = _compare(metric, compared, intervals, kind)
    label_values = []
    for row in rows:
        alone = None
        if row.left_out is None:
            alone = interval(row.sums, intervals, kind, bounds=metric.definition.bounds)
        if alone is not None and row.overlap is not None:
            alone = row.overlap.allow(alone, metric)
        label_values.append(
            GapValue(
                name=row.name,
                mean=row.estimate.value if row.lists else None,
                low=None if alone is None else alone.low,
                high=None if alone is None else alone.high,
                worst=row.name in worst,
                left_out=row.left_out,
            )
        )
    return Gap(
        metric=metric.text,
        values=tuple(label_values),
        kind=kind,
        confidence=intervals.confidence,
        **bounds,
    )


class _LabelValue(NamedTuple):
    """One value of the label; `lists`: denominators over all groups."""

    name: str
    sums: GroupSums
    estimate: Estimate
    lists: int
    left_out: str | None
    overlap: Overlap | None

    @classmethod
    def of(cls, name: str, counted: SliceSums) -> Self:
        estimate, lists = pool_days(counted.sums), int(counted.sums.denominators.sum())
        reason = _NOT_VALUES.get(name) or counted.problem
        if reason is None and not lists:
            reason = "It has no list with a value."
        if reason is None and estimate.groups < FEWEST_GROUPS:
            reason = TOO_FEW_USERS
        return cls(name, counted.sums, estimate, lists, reason, counted.overlap)


def _with_enough_clicks(rows: list[_LabelValue]) -> list[_LabelValue]:
    """The rows without those of too few clicks, unless their lists promised more of them.

    A mean below 0 has no relative error, and is not judged by it.
    """
    compared = [row for row in rows if row.left_out is None]
    if not compared or min(row.estimate.value for row in compared) < 0:
        return rows
    relative, lists = _pool(compared).relative_variance, sum(row.lists for row in compared)
    return [
        row._replace(left_out=TOO_FEW_CLICKS)
        if row.left_out is None
        and row.estimate.effective_groups(relative * lists / row.lists) < FEWEST_GROUPS
        else row
        for row in rows
    ]


def _pool(rows: Sequence[_LabelValue]) -> Estimate:
    """The mean of all lists of these values."""
    numerators, denominators = (
        np.sum([getattr(row.sums, name).sum(axis=0) for row in rows], axis=0)[None, :]
        for name in ("numerators", "denominators")
    )
    return pool_days(GroupSums(np.zeros(1, np.int64), numerators, denominators))


def _compare(
    metric: Metric, rows: Sequence[_LabelValue], intervals: Intervals, kind: IntervalKind
) -> tuple[dict[str, float | None], frozenset[str]]:
    """The bounds of a gap, of at least two values that ascend, and those that may be the worst."""
    means = np.array([row.estimate.value for row in rows])
    influences = np.array([row.estimate.influences for row in rows])
    groups = np.array([row.estimate.groups for row in rows])
    pooled = _pool(rows)
    # If all lists of a value are alike, such as none with a click, its groups do not vary, although
    # by chance they might have: its error is then that of as many lists of all values together.
    sizes = np.array([row.lists for row in rows], np.float64)
    spread = standard_error(pooled.influences) * math.sqrt(sizes.sum())
    flat = [
        standard_error(row.estimate.influences) <= NOISE * abs(row.estimate.value) for row in rows
    ]
    errors = np.where(flat, spread / np.sqrt(sizes), 0.0)
    positive, alike = means > 0, np.full(means.size, 0.5)
    if means[0] < 0 or means[-1] <= 0:
        values = means, influences, errors, groups, alike
        pairs = _Pairs(values, float(np.abs(means).max()), intervals, kind)
    else:
        # The error of a square root hardly depends on the mean. That of a mean of rare clicks is
        # low where the mean is low by chance, so that the difference would be sure too often.
        roots = np.sqrt(means)
        slopes = 0.5 / np.where(positive, roots, math.sqrt(pooled.value))
        values = roots, influences * slopes[:, None], errors * slopes, groups, roots
        pairs = _Pairs(values, float(roots[-1]) / 2.0, intervals, kind)
    bounds: dict[str, float | None] = {
        "difference": float(means[-1] - means[0]),
        "low": pairs.low(),
        "high": pairs.high(),
    }
    if means[0] >= 0 < means[-1]:
        some = means[positive]
        relative = influences[positive] / some[:, None], errors[positive] / some
        values = np.log(some), *relative, groups[positive], alike[positive]
        logs = _Pairs(values, 1.0, intervals, kind)
        low, high, nothing = logs.low(), logs.high(), not positive[0]
        # The ratio is surely below 1 only if the difference is surely above 0; the logarithm of 0
        # has no bound below.
        if (low is None and nothing) or (low is not None and not bounds["low"]):
            low = 0.0
        bounds["ratio"] = float(means[0] / means[-1])
        bounds["ratio_low"] = 0.0 if nothing else None if high is None else math.exp(-high)
        bounds["ratio_high"] = None if low is None else math.exp(-low)
    worst = pairs.extremes(len(rows), highest=metric.higher_is_better is False)
    return bounds, frozenset(rows[index].name for index in np.flatnonzero(worst).tolist())


class _Pairs:
    """All pairs of values that vary, with bounds of their differences that hold together.

    Exact half widths take a tenth of a millisecond each, so limits of all choose those needed.

    `values`: ascending means on the scale on which they are compared; their influences by user
    group, which leaves both values of a pair at once; standard errors beside that of the
    influences; degrees of freedom, of which the smaller of a pair count; and numbers whose sum over
    a pair makes of a difference on this scale one of means. `unit`: the value that the precision is
    relative to.
    """

    def __init__(
        self, values: Sequence[FloatArray], unit: float, intervals: Intervals, kind: IntervalKind
    ) -> None:
        means, influences, errors, groups, stretch = values
        lower, higher = np.triu_indices(means.size, 1)
        squares = [
            np.square(influences[j] - influences[i]).sum()
            for i, j in zip(lower, higher, strict=True)
        ]
        spread = np.array(squares, np.float64) * (influences.shape[1] - 1) / influences.shape[1]
        error = np.sqrt(spread + np.square(errors[lower]) + np.square(errors[higher]))
        alpha, scale = 1.0 - intervals.confidence, intervals.precision * unit
        # A pair without a spread counts, too: the number of tests is that of the pairs.
        level = alpha / max(error.size, 1)
        varies = error > NOISE * unit
        lower, higher, error = lower[varies], higher[varies], error[varies]
        self._lower, self._higher = lower, higher
        self._difference = means[higher] - means[lower]
        self._stretch = stretch[lower] + stretch[higher]
        groups = np.minimum(groups[lower], groups[higher])
        self._is_empty = not error.size
        if not self._is_empty:
            self._limits = half_width_limits(error, groups, alpha, kind, scale, level)

        self._half_width = cache(
            lambda pair: half_width(
                float(error[pair]), float(groups[pair]), alpha, kind, scale, level=level
            )
        )

    def low(self) -> float | None:
        """Lower bound of the largest difference, at least 0; None without a spread."""
        return None if self._is_empty else max(0.0, self._largest(-1.0))

    def high(self) -> float | None:
        """Upper bound of the largest difference; None without a spread."""
        return None if self._is_empty else self._largest(1.0)

    def extremes(self, values: int, *, highest: bool) -> BoolArray:
        """Mask of the values that may be the lowest, or the highest; shape (values,)."""
        possible = np.ones(values, np.bool_)
        if self._is_empty:
            return possible
        excluded = self._lower if highest else self._higher
        likely = self._difference - self._limits[0]
        for pair in np.argsort(-likely, kind="stable").tolist():
            if likely[pair] <= 0:
                break
            if possible[excluded[pair]] and self._bound(pair, -1.0) > 0:
                possible[excluded[pair]] = False
        return possible

    def _largest(self, sign: float) -> float:
        """The largest lower (-1) or upper (1) bound; limits of all choose those computed."""
        limit, largest = self._limits[int(sign > 0)], -math.inf
        possible = (self._difference + sign * limit) * self._stretch
        for pair in np.argsort(-possible, kind="stable").tolist():
            if possible[pair] <= largest:
                break
            largest = max(largest, self._bound(pair, sign))
        return largest

    def _bound(self, pair: int, sign: float) -> float:
        bound = float(self._difference[pair]) + sign * self._half_width(pair)
        return bound * float(self._stretch[pair])
