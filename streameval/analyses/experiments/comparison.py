"""Compares two variants: difference and lift with their intervals, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from streameval.accumulator import Accumulator
from streameval.accumulator.inputs import check_same_zone
from streameval.accumulator.kinds.groups import not_comparable, ungrouped, unlike_metrics
from streameval.accumulator.kinds.user_sums import has_user_means
from streameval.accumulator.objections import Objection, objections_to, user_means_by_group
from streameval.analyses.experiments.outcomes import Verdict
from streameval.analyses.experiments.sample_ratio import lack_ids
from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.events.saved_states import unlike
from streameval.inference.contrasts import Contrast, contrasts
from streameval.inference.interval_formulas import (
    LARGEST_EVIDENCE,
    NOISE,
    half_width,
    in_units,
    log_evidence,
    log_student_tail,
    normal_reach,
    standard_error,
    student_reach,
)
from streameval.inference.planned_looks import PlannedLook
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, Intervals, Method

_LARGEST_LOG: Final = 700.0
"""Largest logarithm of a lift whose exponential is finite."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between treatment and control in one metric.

    Attributes:
        control: mean of control, weighted by day as in the difference; if no day has lists of both
            arms, None, or its own mean in the report of an experiment.
        treatment: mean of treatment, weighted in the same way.
        difference: treatment minus control; None if no day has lists of both arms.
        low: lower bound of the difference; None without enough data.
        high: upper bound.
        expected: the value expected of an arm whose values are all 0, if both arms were alike; its
            interactions, or the record of them, are missing. None for other arms.
        lift: relative difference, treatment / control - 1; None unless both are above 0, or the
            treatment's values are all 0. Without it, the bounds of the difference decide.
        lift_low: lower bound of the lift; None without enough data.
        lift_high: upper bound.
        evidence: e-value against "no difference", up to 1e300: 1 means no evidence; without a
            difference, at most one of 20 experiments ever reaches 20, however often you look.
        p_value: p-value of "no difference"; 1 / evidence for the method "anytime".
        groups: effective number of user buckets, the smaller of both arms.
        heaviest: largest share of variance from one user bucket; 0 if nothing varies.
        shortfall: how many times as many users the smaller arm needs for a verdict; None if it has
            enough, or an arm has no value.
        is_skewed: whether more users are needed because a few large values make up the mean.
        verdict: better, worse, no difference, ...
        reason: why not to trust an estimate for a policy that was not shown; else None.
        overlap: of the lists of a ranker that was not shown, with those shown; None if they were.
        kind: method of the bounds: "fixed" or "anytime".
        confidence: how often such bounds cover the truth.

    Example:
        >>> Comparison(kind="anytime", confidence=0.95).verdict
        'too few users'
    """

    control: float | None = None
    treatment: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    expected: float | None = None
    lift: float | None = None
    lift_low: float | None = None
    lift_high: float | None = None
    evidence: float = 1.0
    p_value: float = 1.0
    groups: float = 0.0
    heaviest: float = 0.0
    shortfall: float | None = None
    is_skewed: bool = False
    verdict: Verdict = Verdict.TOO_FEW_USERS
    reason: str | None = None
    overlap: float | None = None
    kind: Method
    confidence: float

    @property
    def excludes_zero(self) -> bool:
        """True if the bounds of difference and lift exclude 0."""
        return _one_sided(self.low, self.high) and (
            self.lift_low is None or _one_sided(self.lift_low, self.lift_high)
        )

    @property
    def largest_lift(self) -> float | None:
        """Upper bound of the absolute lift; None without enough data."""
        if self.lift_low is None or self.lift_high is None:
            return None
        return max(-self.lift_low, self.lift_high)


def _one_sided(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and (low > 0 or high < 0)


def contrast_of(control: GroupSums, treatment: GroupSums) -> Contrast | None:
    """The contrast over the days that both slices have; None without one.

    Raises:
        UnlikeStateError: the numbers of groups differ.
    """
    common = on_common_days(control, treatment)
    return contrasts(*common)[0] if common[0].days.size else None


class Settings(NamedTuple):
    """Settings of a comparison.

    Attributes:
        level: error rate of the bounds, if not 1 - confidence; evidence does not depend on it.
        cells: rows of a day in the sums, one for each value of a segment; see `by_cell`.
        look: of the planned looks of the method "fixed"; None if there is one.
    """

    method: Method
    precision: float
    confidence: float
    higher_is_better: bool | None = True
    level: float | None = None
    cells: int = 1
    look: PlannedLook | None = None

    @property
    def alpha(self) -> float:
        """The error rate that evidence is tuned to."""
        return 1.0 - self.confidence

    def half_width(self, error: float, groups: float, scale: float) -> float:
        """Half the width of an interval, of a standard error and degrees of freedom.

        `scale`: half width at which an anytime interval is tightest.
        """
        if self.look is not None:
            rate = self.alpha if self.level is None else self.level
            return student_reach(self.look.reach(rate), groups) * error
        return half_width(error, groups, self.alpha, self.method, scale, level=self.level)


def judge(contrast: Contrast | None, settings: Settings) -> Comparison:
    """Compare the means of control and treatment."""
    confidence = settings.confidence if settings.level is None else 1.0 - settings.level
    if contrast is None:
        return Comparison(kind=settings.method, confidence=confidence)
    first, other, *_ = contrast
    influences, basis = other.influences - first.influences, contrast.basis
    norm = math.hypot(*influences.tolist())
    has_lift = min(first.value, other.value) > 0 and basis != "difference"
    is_short = (has_lift or contrast.is_signed) and contrast.shortfall > 1
    comparison = Comparison(
        control=first.value,
        treatment=other.value,
        difference=other.value - first.value,
        lift=_ratio(contrast) - 1 if has_lift else None,
        groups=contrast.groups,
        heaviest=(float(np.abs(influences).max()) / norm) ** 2 if norm else 0.0,
        shortfall=contrast.shortfall if is_short else None,
        is_skewed=is_short and contrast.is_skewed,
        kind=settings.method,
        confidence=confidence,
    )
    if basis is None:
        return comparison
    tests = _tests(contrast, settings)
    if not tests:
        return replace(comparison, verdict=Verdict.OPEN)
    # The evidence is the smallest of the tests.
    evidence = min(math.log(LARGEST_EVIDENCE), *(test.log_evidence for test in tests))
    comparison = replace(
        comparison,
        **_bounds(contrast, tests),
        evidence=math.exp(evidence),
        p_value=min(max(test.p_value for test in tests), 1.0),
    )
    verdict, most = Verdict.OPEN, comparison.largest_lift
    if comparison.excludes_zero and settings.higher_is_better is None:
        verdict = Verdict.DIFFERENT
    elif comparison.excludes_zero:
        rises = other.value > first.value
        verdict = Verdict.BETTER if rises is settings.higher_is_better else Verdict.WORSE
    elif most is not None and most <= settings.precision:
        verdict = Verdict.NO_DIFFERENCE
    return replace(comparison, verdict=verdict)


def _bounds(contrast: Contrast, tests: Sequence[_Tested]) -> dict[str, float | None]:
    """The bounds of difference and lift, as far as the basis of the contrast has them."""
    if contrast.basis != "roots":
        difference, *relative = tests
        bounds: dict[str, float | None] = {"low": difference.low, "high": difference.high}
        for of_lift in relative:
            bounds["lift_low"] = math.expm1(of_lift.low)
            bounds["lift_high"] = math.expm1(min(of_lift.high, _LARGEST_LOG))
        return bounds
    (roots,) = tests
    value = max(contrast.control.value, contrast.treatment.value)
    low, high = (
        min(max(bound * math.sqrt(value), -value), value) for bound in (roots.low, roots.high)
    )
    bounds = {"low": low, "high": high, "expected": value}
    if contrast.treatment.value <= 0:
        bounds |= {"lift": -1.0, "lift_low": -1.0, "lift_high": high / value}
    return bounds


def side_of_limit(
    contrast: Contrast, settings: Settings, limit: float
) -> Literal["above", "below", "unknown"]:
    """Side of a limit on which the lift is, by all tests that a verdict reads."""
    tests = _tests(contrast, settings, limit)
    if tests and all(test.low > 0 for test in tests):
        return "above"
    return "below" if tests and all(test.high < 0 for test in tests) else "unknown"


def _tests(contrast: Contrast, settings: Settings, limit: float = 0.0) -> list[_Tested]:
    """Tests of a contrast that can be compared, counted from a limit; none if nothing varies.

    Of the difference and of the logarithm of the lift; see `Basis` for the other cases.
    """
    first, other, *_ = contrast
    groups = contrast.groups
    if contrast.basis == "roots":
        effect, error = contrast.root_effect(limit)
        # The precision of a mean is half of that of its root.
        tests = [_test_effect(settings, groups, effect, error, 0.5 * effect)]
    elif contrast.basis == "difference":
        # Below 0, too, a limit of -5 % lets a value fall by 5 % of its size.
        scale = 1.0 + limit * math.copysign(1.0, first.value)
        error = standard_error(other.influences - scale * first.influences)
        unit = max(abs(first.value), abs(other.value), error)
        tests = [_test_effect(settings, groups, other.value - scale * first.value, error, unit)]
    else:
        scale = 1.0 + limit
        lift, of_lift = log_lift(contrast)
        effects = other.value - scale * first.value, lift - math.log(scale)
        influences = other.influences - scale * first.influences, of_lift
        tests = [
            _test_effect(settings, groups, effect, standard_error(of_effect), unit)
            for effect, of_effect, unit in zip(effects, influences, (first.value, 1.0), strict=True)
        ]
    varying = [test for test in tests if test is not None]
    return varying if len(varying) == len(tests) else []


def log_lift(contrast: Contrast) -> tuple[float, FloatArray]:
    """The logarithm of treatment / control, both above 0, and its influences by user group."""
    first, other, *_ = contrast
    influences = other.influences / other.value - first.influences / first.value
    return math.log(_ratio(contrast)), influences


def log_evidence_of(
    settings: Settings, groups: float, effect: float, influences: FloatArray
) -> float:
    """Ln of the e-value against no effect on a logarithmic scale; 0 if it does not vary.

    `groups`: degrees of freedom.
    """
    tested = _test_effect(settings, groups, effect, standard_error(influences), 1.0)
    return 0.0 if tested is None else tested.log_evidence


def logs_differ(settings: Settings, groups: float, effect: float, influences: FloatArray) -> bool:
    """True if the interval of an effect on a logarithmic scale excludes 0.

    `groups`: degrees of freedom.
    """
    tested = _test_effect(settings, groups, effect, standard_error(influences), 1.0)
    return tested is not None and (tested.low > 0 or tested.high < 0)


def _ratio(contrast: Contrast) -> float:
    # Clipped, so that the lift and its logarithm are finite.
    return min(max(contrast.treatment.value / contrast.control.value, 1e-300), 1e300)


def compare_accumulators(
    control: Accumulator,
    treatment: Accumulator,
    metric: str,
    *,
    against: str | None,
    method: Method,
    precision: float | None,
) -> Comparison:
    """Compare two accumulators in one metric, or two metrics of one log; see `streameval.compare`.

    Raises:
        NotComparableError: the metric is not a mean over lists or items, has no sums by user, or no
            event day has lists of both; or `against` has another unit or direction.
        UnlikeStateError: the numbers of groups differ.
        MetricError: a metric is unknown.
    """
    parsed = metric_of(metric, treatment.metrics)
    beside = parsed if against is None else metric_of(against, control.metrics)
    if reason := unlike_metrics(beside, parsed):
        raise not_comparable(parsed.text, reason)
    intervals = control.intervals or Intervals()
    if precision is not None:
        intervals = replace(intervals, precision=precision)
    check_same_zone(control.context.time_zone, treatment.context.time_zone)
    first, other = _sums(control, beside), _sums(treatment, parsed)
    if first.days.size and other.days.size and not np.intersect1d(first.days, other.days).size:
        reason = "No event day has lists of both: give ts=, in microseconds, to both or to neither."
        raise not_comparable(parsed.text, reason)
    higher = parsed.definition.higher_is_better
    settings = Settings(method, intervals.precision, intervals.confidence, higher)
    contrast = contrast_of(first, other)
    if contrast is not None and first.days.size == other.days.size == 1:
        exact = control.read(beside.text), treatment.read(parsed.text)
        contrast = contrast.with_values(
            *(reading.value if reading.defined else None for reading in exact)
        )
    comparison = judge(contrast, settings)
    audiences = [arm.audience for arm in (control, treatment) if arm.audience is not None]
    objections = [
        *objections_to([beside], control.table, [0]).values(),
        *objections_to([parsed], treatment.table, [0]).values(),
    ]
    if objections:
        bounds = dict.fromkeys(("low", "high", "lift_low", "lift_high"))
        bounded = replace(comparison, **bounds, evidence=1.0, p_value=1.0)
        return withhold_verdict(bounded, objections[0])
    if lack_ids(audiences):
        return replace(comparison, verdict=Verdict.DO_NOT_TRUST)
    return comparison


def withhold_verdict(comparison: Comparison, objection: Objection) -> Comparison:
    """The comparison without a verdict, for this reason."""
    return replace(
        comparison,
        verdict=Verdict.DO_NOT_TRUST,
        reason=objection.reason,
        overlap=objection.overlap,
    )


def _sums(accumulator: Accumulator, metric: Metric) -> GroupSums:
    if accumulator.intervals is None:
        raise not_comparable(metric.text)
    if has_user_means(metric, accumulator.table):
        means = user_means_by_group(metric, accumulator.table, np.array([0]))
        if means.problem is not None:
            raise not_comparable(metric.text, means.problem)
        return means.sums
    sums = accumulator.groups(metric.text)
    if sums is None:
        raise not_comparable(metric.text, ungrouped(metric, accumulator.table))
    return sums


def on_common_days(control: GroupSums, treatment: GroupSums) -> tuple[GroupSums, GroupSums]:
    """The sums on the days on which both arms have lists."""
    if control.numerators.shape[1] != treatment.numerators.shape[1]:
        counts = (sums.numerators.shape[1] for sums in (control, treatment))
        raise unlike("numbers of user groups", *counts)
    ones, others = (sums.days[sums.denominators.any(axis=1)] for sums in (control, treatment))
    days = np.intersect1d(ones, others)
    first, other = (
        sums if days.size == sums.days.size else sums.rows(np.searchsorted(sums.days, days))
        for sums in (control, treatment)
    )
    return first, other


def by_cell(values: Sequence[GroupSums]) -> GroupSums:
    """The sums of several values of a segment with a row for each value of each day.

    The row has the number day * values + value instead of a day, so that arms are compared within
    each value of each day; a row that one arm alone has weighs nothing.
    """
    rows = [sums.days * len(values) + index for index, sums in enumerate(values)]
    cells: IntArray = np.concatenate(rows)
    numerators: FloatArray = np.concatenate([sums.numerators for sums in values])
    counts: list[Any] = [sums.denominators for sums in values]
    denominators = np.concatenate(counts)
    order = np.argsort(cells)
    return GroupSums(cells[order], numerators[order], denominators[order])


class _Tested(NamedTuple):
    """Bounds of an effect and the evidence against none; `log_evidence` is ln of the e-value."""

    low: float
    high: float
    log_evidence: float
    p_value: float


def _test_effect(
    settings: Settings, groups: float, effect: float, error: float, unit: float
) -> _Tested | None:
    """Test an effect; None if it does not vary between groups.

    `groups`: degrees of freedom. `unit`: the value that `precision` is relative to.
    """
    alpha = settings.alpha
    if error <= NOISE * abs(unit):
        return None
    scale = settings.precision * abs(unit)
    half = settings.half_width(error, groups, scale)
    t = in_units(abs(effect), error) if effect else 0.0
    z = normal_reach(t, groups)
    evidence = log_evidence(z, alpha, in_units(error, scale))
    if settings.method == "anytime":
        p_value = math.exp(-max(evidence, 0.0))
    elif settings.look is not None:
        p_value = settings.look.p_value(z)
    else:
        p_value = 2.0 * math.exp(log_student_tail(t, groups))
    return _Tested(effect - half, effect + half, evidence, p_value)
