"""Gaps: how far the worst value of a label lies below the best, and which may be the worst.

The largest of many means is too large by chance and the smallest too small, so an interval of each
says little about their difference. Here all pairs of values have intervals that hold together
(Bonferroni; Hochberg and Tamhane, Multiple comparison procedures, 1987): whichever two are chosen
for being extreme, theirs is among them. A value may be the worst unless another one is surely worse
(Hsu, Simultaneous confidence intervals for all distances from the best, 1981).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, get_args

import msgspec
import numpy as np

from streameval.accumulator.accumulator import Accumulator
from streameval.accumulator.by_user import SliceSums
from streameval.accumulator.objections import user_sums
from streameval.accumulator.overlap import Overlap
from streameval.accumulator.reading_intervals import IntervalMethod
from streameval.analyses.gaps.report import Gap, GapValue
from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.labels import OTHER
from streameval.events.errors import MetricError, NotComparableError, UnlikeStateError
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
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, Intervals, Kind, check_method

_NOT_VALUES: Final = {
    MISSING_LABEL: "It stands for lists without a value, which are no group.",
    OTHER: "It stands for many values, which are no group.",
}


def gap(
    values: Mapping[str, Accumulator],
    metric: str,
    *,
    method: Kind = "fixed",
    precision: float | None = None,
) -> Gap:
    """The gap between the values of a label, each counted by an accumulator of its own.

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
    check_method(method, get_args(Kind))
    given: Any = values
    if not isinstance(given, Mapping) or not given:
        raise MetricError(f"values={values!r:.80}: give value -> Accumulator, at least one")
    for name, value in given.items():
        if not isinstance(value, Accumulator):
            raise MetricError(f"values[{name!r}]={value!r:.80}: give a streameval.Accumulator")
    first = next(iter(values.values()))
    asked = metric_of(metric, first.metrics)
    intervals = first.intervals
    if intervals is None:
        raise NotComparableError(asked.text)
    if precision is not None:
        intervals = msgspec.structs.replace(intervals, precision=precision)
    how, whole = IntervalMethod(intervals, method), np.array([0])
    sums = {name: user_sums(asked, value.table, whole, how) for name, value in values.items()}
    return gap_of(asked, sums, intervals, method)


def gap_of(
    metric: Metric, values: Mapping[str, SliceSums], intervals: Intervals, kind: Kind = "anytime"
) -> Gap:
    """The gap between the values of a label, from the sums by user of each.

    Raises:
        UnlikeStateError: the numbers of groups differ.
    """
    widths = {value.sums.numerators.shape[1] for value in values.values()}
    if len(widths) > 1:
        raise UnlikeStateError("numbers of user groups", min(widths), max(widths))
    rows = _guarded([_LabelValue.of(name, value) for name, value in values.items()])
    rows.sort(key=lambda row: (row.estimate.value, row.name))
    compared = [row for row in rows if row.left_out is None]
    measured = Gap(metric=metric.text, kind=kind, confidence=intervals.confidence)
    worst: frozenset[str] = frozenset()
    if len(compared) > 1:
        measured, worst = _judge(measured, metric, compared, intervals)
    alone = [_alone(metric, row, intervals, kind) for row in rows]
    return msgspec.structs.replace(
        measured,
        values=tuple(msgspec.structs.replace(value, worst=value.name in worst) for value in alone),
    )


class _LabelValue(NamedTuple):
    """One value of the label.

    Attributes:
        lists: denominators over all groups.
    """

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


def _guarded(rows: Sequence[_LabelValue]) -> list[_LabelValue]:
    """The rows without those of too few clicks, unless their lists promised more of them.

    A mean below 0 has no relative error, and is not judged by it.
    """
    compared = [row for row in rows if row.left_out is None]
    if not compared or min(row.estimate.value for row in compared) < 0:
        return list(rows)
    relative, lists = _pooled(compared).relative_variance, sum(row.lists for row in compared)
    return [
        row._replace(left_out=TOO_FEW_CLICKS)
        if row.left_out is None and row.estimate.worth(relative * lists / row.lists) < FEWEST_GROUPS
        else row
        for row in rows
    ]


def _pooled(rows: Sequence[_LabelValue]) -> Estimate:
    """The mean of all lists of these values."""
    numerators, denominators = (
        np.sum([getattr(row.sums, name).sum(axis=0) for row in rows], axis=0)[None, :]
        for name in ("numerators", "denominators")
    )
    return pool_days(GroupSums(np.zeros(1, np.int64), numerators, denominators))


def _alone(metric: Metric, row: _LabelValue, intervals: Intervals, kind: Kind) -> GapValue:
    """A value by itself, with the interval that its reading has."""
    bounds_found = None
    if row.left_out is None:
        bounds_found = interval(row.sums, intervals, kind, bounds=metric.definition.bounds)
    if bounds_found is not None and row.overlap is not None:
        bounds_found = row.overlap.allow(bounds_found, metric)
    return GapValue(
        name=row.name,
        mean=row.estimate.value if row.lists else None,
        low=None if bounds_found is None else bounds_found.low,
        high=None if bounds_found is None else bounds_found.high,
        left_out=row.left_out,
    )


def _judge(
    measured: Gap, metric: Metric, rows: Sequence[_LabelValue], intervals: Intervals
) -> tuple[Gap, frozenset[str]]:
    """The gap between at least two values that ascend, and those that may be the worst."""
    means = np.array([row.estimate.value for row in rows])
    moves = np.array([row.estimate.moves for row in rows])
    errors = _own_errors(rows, _pooled(rows))
    tests = _Tests(*_scaled_pairs(means, moves, errors, rows), intervals, measured.kind)
    measured = msgspec.structs.replace(
        measured, difference=float(means[-1] - means[0]), low=tests.low(), high=tests.high()
    )
    if means[0] >= 0 < means[-1]:
        positive = means > 0
        relative = _Pairs.of(
            np.log(means[positive]),
            moves[positive] / means[positive, None],
            errors[positive] / means[positive],
            [row for row in rows if row.estimate.value > 0],
        )
        measured = _with_ratio(measured, means, _Tests(relative, 1.0, intervals, measured.kind))
    highest = metric.higher_is_better is False
    worst = tests.extremes(len(rows), highest=highest)
    return measured, frozenset(
        row.name for row, is_worst in zip(rows, worst.tolist(), strict=True) if is_worst
    )


def _scaled_pairs(
    means: FloatArray, moves: FloatArray, errors: FloatArray, rows: Sequence[_LabelValue]
) -> tuple[_Pairs, float]:
    """Pairs of square roots of ascending means, or of the means if some are below 0; their unit.

    The error of a square root hardly depends on the mean. That of a mean of rare clicks is low
    where the mean is low by chance, so that the difference would be sure too often.
    """
    if not means[0] >= 0 < means[-1]:
        return _Pairs.of(means, moves, errors, rows), float(np.abs(means).max())
    roots = np.sqrt(means)
    slopes = 0.5 / np.where(means > 0, roots, math.sqrt(_pooled(rows).value))
    pairs = _Pairs.of(roots, moves * slopes[:, None], errors * slopes, rows)
    stretch = roots[pairs.lower] + roots[pairs.higher]
    return pairs._replace(stretch=stretch), float(roots[-1]) / 2.0


def _with_ratio(measured: Gap, means: FloatArray, logs: _Tests) -> Gap:
    """`logs`: tests of the logarithms of the means above 0; that of 0 has no bound below.

    The ratio is surely below 1 only if the difference is surely above 0.
    """
    low, high = logs.low(), logs.high()
    nothing = means[0] <= 0
    if (low is None and nothing) or (low is not None and not measured.low):
        low = 0.0
    return msgspec.structs.replace(
        measured,
        ratio=float(means[0] / means[-1]),
        ratio_low=0.0 if nothing else None if high is None else math.exp(-high),
        ratio_high=None if low is None else math.exp(-low),
    )


def _own_errors(rows: Sequence[_LabelValue], whole: Estimate) -> FloatArray:
    """The standard error that a value has at least, shape (values,).

    If all lists of a value are alike, such as none with a click, its groups do not vary, although
    by chance they might have: its error is then that of as many lists of all values together.
    """
    spread = standard_error(whole.moves) * math.sqrt(sum(row.lists for row in rows))
    flat = [standard_error(row.estimate.moves) <= NOISE * abs(row.estimate.value) for row in rows]
    sizes = np.array([row.lists for row in rows], np.float64)
    return np.where(flat, spread / np.sqrt(sizes), 0.0)


class _Pairs(NamedTuple):
    """All pairs of values, the lower first; shape (pairs,).

    Attributes:
        difference: the mean of the higher minus that of the lower, at least 0.
        error: standard error of the difference; a user group leaves both values at once.
        groups: degrees of freedom, those of the smaller value.
        stretch: difference of the means by `difference`, if that is of another scale.
    """

    lower: IntArray
    higher: IntArray
    difference: FloatArray
    error: FloatArray
    groups: FloatArray
    stretch: FloatArray

    @classmethod
    def of(
        cls, means: FloatArray, moves: FloatArray, errors: FloatArray, rows: Sequence[_LabelValue]
    ) -> Self:
        """Pairs of ascending means; `errors` are added to those of the moves."""
        lower, higher = np.triu_indices(means.size, 1)
        width = moves.shape[1]
        squares = [np.square(moves[j] - moves[i]).sum() for i, j in zip(lower, higher, strict=True)]
        spread = np.array(squares, np.float64) * (width - 1) / width
        groups = np.array([row.estimate.groups for row in rows])
        return cls(
            lower,
            higher,
            means[higher] - means[lower],
            np.sqrt(spread + np.square(errors[lower]) + np.square(errors[higher])),
            np.minimum(groups[lower], groups[higher]),
            np.ones(lower.size),
        )

    def chosen(self, rows: BoolArray) -> Self:
        """The pairs where `rows` is true."""
        return type(self)._make(column[rows] for column in self)


class _Tests:
    """Bounds of the differences of all pairs that hold together.

    Exact half widths take a tenth of a millisecond each, so limits of all choose those needed.

    `unit`: the value that the precision is relative to.
    """

    def __init__(self, pairs: _Pairs, unit: float, intervals: Intervals, kind: Kind) -> None:
        varies = pairs.error > NOISE * unit
        self._pairs = pairs.chosen(varies)
        self._alpha, self._kind = 1.0 - intervals.confidence, kind
        self._scale = intervals.precision * unit
        # A pair without a spread counts, too: the number of tests is that of the pairs.
        self._level = self._alpha / max(pairs.error.size, 1)
        self._known: dict[int, float] = {}
        if self._pairs.error.size:
            self._limits = half_width_limits(
                self._pairs.error,
                self._pairs.groups,
                self._alpha,
                kind,
                self._scale,
                self._level,
            )

    def low(self) -> float | None:
        """Lower bound of the largest difference, at least 0; None without a spread."""
        if not self._pairs.error.size:
            return None
        return max(0.0, self._largest(-1.0))

    def high(self) -> float | None:
        """Upper bound of the largest difference; None without a spread."""
        return self._largest(1.0) if self._pairs.error.size else None

    def extremes(self, values: int, *, highest: bool) -> BoolArray:
        """Which values may be the lowest, or the highest; shape (values,)."""
        possible = np.ones(values, np.bool_)
        if not self._pairs.error.size:
            return possible
        chosen = self._pairs.lower if highest else self._pairs.higher
        likely = self._pairs.difference - self._limits[0]
        for at in np.argsort(-likely, kind="stable").tolist():
            if likely[at] <= 0:
                break
            if possible[chosen[at]] and self._bound(at, -1.0) > 0:
                possible[chosen[at]] = False
        return possible

    def _largest(self, sign: float) -> float:
        """The largest lower (-1) or upper (1) bound; limits of all choose those computed."""
        limit, largest = self._limits[int(sign > 0)], -math.inf
        possible = (self._pairs.difference + sign * limit) * self._pairs.stretch
        for at in np.argsort(-possible, kind="stable").tolist():
            if possible[at] <= largest:
                break
            largest = max(largest, self._bound(at, sign))
        return largest

    def _bound(self, at: int, sign: float) -> float:
        if at not in self._known:
            pairs = self._pairs
            self._known[at] = half_width(
                float(pairs.error[at]),
                float(pairs.groups[at]),
                self._alpha,
                self._kind,
                self._scale,
                level=self._level,
            )
        bound = float(self._pairs.difference[at]) + sign * self._known[at]
        return bound * float(self._pairs.stretch[at])
