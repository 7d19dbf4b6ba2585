"""Two slices compared by their group sums."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from numpy.typing import NDArray

from streameval.analyses.experiments.comparison import Comparison, Settings
from streameval.analyses.experiments.course import (
    compare_days,
    course_of,
    lifts_alone,
    pace_of,
)
from streameval.statistics.intervals import GroupSums, Method
from tests.comparing import compare_sums
from tests.crowds import audience
from tests.present import present
from tests.uncertainty.test_interval import binomial, sums


def without(table: GroupSums, group: int) -> GroupSums:
    rest = np.arange(table.numerators.shape[1]) != group
    return GroupSums(table.days, table.numerators[:, rest], table.denominators[:, rest])


def scaled(table: GroupSums, factor: float) -> GroupSums:
    return table._replace(numerators=table.numerators * factor)


def bounds(comparison: Comparison) -> list[float | None]:
    return [comparison.low, comparison.high, comparison.lift_low, comparison.lift_high]


def half(comparison: Comparison) -> float:
    return (present(comparison.high) - present(comparison.low)) / 2


def test_a_group_is_left_out_of_both_arms_at_once() -> None:
    control = binomial(1, 0.1, groups=40)
    noise = np.random.default_rng(2).normal(1.1, 0.02, (1, 40))
    treatment = control._replace(numerators=control.numerators * noise)
    comparison = compare_sums(control, treatment, method="fixed")
    moved = []
    for group in range(40):
        rest = compare_sums(without(control, group), without(treatment, group))
        moved.append(present(rest.difference) - present(comparison.difference))
    error = math.sqrt(39 / 40 * sum(move**2 for move in moved))
    # Student's 97.5 % point lies between 2.02 and 2.03 from 38 to 40 groups.
    assert 2.02 < half(comparison) / error < 2.03
    assert comparison.heaviest == pytest.approx(max(np.square(moved)) / np.square(moved).sum())


def test_users_in_both_arms_are_compared_with_themselves() -> None:
    control = binomial(1, 0.1)
    noise = np.random.default_rng(2).normal(1.05, 0.005, (1, 256))
    same = compare_sums(control, control._replace(numerators=control.numerators * noise))
    apart = compare_sums(control, scaled(binomial(2, 0.1), 1.05))
    assert half(same) < half(apart) / 5
    assert same.verdict == "better"


@pytest.mark.parametrize("method", ["anytime", "fixed"])
def test_the_arms_change_places(method: Method) -> None:
    first, other = binomial(3, 0.1), binomial(4, 0.12)
    there, back = (compare_sums(*pair, method=method) for pair in ((first, other), (other, first)))
    assert there.difference == pytest.approx(-(back.difference or 0))
    assert (there.verdict, back.verdict) == ("better", "worse")
    assert there.groups == back.groups
    assert (1 + present(there.lift)) * (1 + present(back.lift)) == pytest.approx(1.0)


def test_lower_may_be_better_or_neither_direction() -> None:
    first, other = binomial(3, 0.1), binomial(4, 0.12)
    assert compare_sums(first, other, higher_is_better=False).verdict == "worse"
    assert compare_sums(other, first, higher_is_better=False).verdict == "better"
    assert compare_sums(first, other, higher_is_better=None).verdict == "different"


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.03, 1.1, 1.5])
@pytest.mark.parametrize("method", ["anytime", "fixed"])
def test_bounds_evidence_and_verdict_agree(factor: float, method: Method) -> None:
    comparison = compare_sums(binomial(5, 0.1), scaled(binomial(6, 0.1), factor), method=method)
    enough = comparison.p_value < 0.05
    if method == "anytime":
        assert comparison.p_value == pytest.approx(min(1.0, 1 / comparison.evidence))
        assert enough == (comparison.evidence > 20)
    assert comparison.excludes_zero == enough
    assert (comparison.verdict in {"better", "worse"}) == enough
    assert (comparison.kind, comparison.confidence) == (method, 0.95)


def test_evidence_is_capped() -> None:
    lists = np.full(256, 10_000)
    clicks = np.tile([999.0, 1001.0], 128)
    comparison = compare_sums(sums(clicks, lists), sums(clicks[::-1] * 5, lists))
    assert comparison.evidence == pytest.approx(1e300)
    assert math.isfinite(comparison.evidence)


def test_much_data_without_a_difference_bounds_it() -> None:
    control = binomial(7, 0.5, lists=40_000)
    comparison = compare_sums(control, binomial(8, 0.5, lists=40_000))
    assert comparison.verdict == "no difference"
    assert 0 < present(comparison.largest_lift) < 0.02
    assert compare_sums(control, control).verdict == "not enough evidence"
    assert bounds(compare_sums(control, control)) == [None] * 4


def test_each_day_is_compared_with_itself() -> None:
    """The treatment grows while clicks fall: pooled it looks worse, by day it is equal."""
    recommended = [[950, 800, 500], [50, 200, 500]]
    clicks = np.array([0.30, 0.20, 0.10])
    arms = [np.tile(np.array(lists)[:, None], (1, 64)) for lists in recommended]
    wave = 1 + 0.05 * np.sin(np.arange(64))
    control, treatment = (
        sums(lists * clicks[:, None] * wave[:: 1 - 2 * side], lists)
        for side, lists in enumerate(arms)
    )
    comparison = compare_sums(control, treatment)
    assert comparison.difference == pytest.approx(0.0, abs=1e-12)
    assert comparison.verdict != "worse"
    total = [
        sums(arm.numerators.sum(axis=0), arm.denominators.sum(axis=0))
        for arm in (control, treatment)
    ]
    assert compare_sums(*total).verdict == "worse"


def test_days_are_weighted_by_their_information() -> None:
    lists = np.array([[90, 10], [50, 50]])
    rates = np.array([[0.2, 0.4], [0.3, 0.3]])  # by day and arm
    control, treatment = (
        sums(np.tile((lists * rates)[:, [arm]], 20), np.tile(lists[:, [arm]], 20)) for arm in (0, 1)
    )
    expected = (0.2 * 9 + 0.0 * 25) / (9 + 25)
    assert compare_sums(control, treatment).difference == pytest.approx(expected)


def test_a_day_of_only_one_arm_is_ignored() -> None:
    control, treatment = binomial(9, 0.1, days=3), binomial(10, 0.1, days=3)
    early = sums(np.full((1, 256), 9.0), np.full((1, 256), 10), [-1])
    longer = sums(
        np.concatenate([early.numerators, control.numerators]),
        np.concatenate([early.denominators, control.denominators]),
        [-1, 0, 1, 2],
    )
    assert compare_sums(longer, treatment) == compare_sums(control, treatment)
    nothing = compare_sums(early, treatment)
    assert (nothing.verdict, nothing.difference) == ("too few users", None)
    assert bounds(nothing) == [None] * 4


@pytest.mark.parametrize("users", [0, 1, 5])
@pytest.mark.parametrize("small", ["control", "treatment"])
def test_few_users_in_an_arm_are_too_few(users: int, small: str) -> None:
    lists = np.zeros(256, np.int64)
    lists[:users] = 1_000
    arms = [binomial(11, 0.1), sums(lists * 0.2, lists)]
    control, treatment = arms if small == "treatment" else arms[::-1]
    comparison = compare_sums(control, treatment)
    assert (comparison.verdict, bounds(comparison)) == ("too few users", [None] * 4)
    assert (comparison.evidence, comparison.p_value) == (1.0, 1.0)


@pytest.mark.parametrize("precision", [0.02, 1e-3, 1e-5, 1e-300])
@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160])
def test_wide_bounds_are_finite(precision: float, scale: float) -> None:
    lists = np.full(20, 3)
    varied = np.arange(1.0, 3.0, 0.1)
    first, other = sums(varied / scale, lists), sums(scale * varied[::-1], lists)
    comparison = compare_sums(first, other, precision=precision)
    assert all(bound is not None and math.isfinite(bound) for bound in bounds(comparison))


def test_each_day_has_the_result_at_its_end() -> None:
    control, treatment = binomial(7, 0.1, days=6), scaled(binomial(8, 0.1, days=6), 1.08)
    # One arm lacks the second day, and the other has no lists on the fourth.
    control = control.rows(control.days != control.days[1])
    treatment.denominators[3] = 0
    treatment.numerators[3] = 0
    days = compare_days(course_of(control, treatment), Settings("anytime", 0.05, 0.9))
    first = int(control.days[0])
    numbers = [day_result.day.toordinal() - date(1970, 1, 1).toordinal() for day_result in days]
    assert numbers == [first, first + 2, first + 4, first + 5]
    for number, result in zip(numbers, days, strict=True):
        control_, other = (table.rows(table.days <= number) for table in (control, treatment))
        expected = compare_sums(control_, other, precision=0.05, confidence=0.9)
        assert result.evidence == pytest.approx(expected.evidence)
        assert (result.lift, result.low, result.high) == pytest.approx(
            (expected.lift, expected.lift_low, expected.lift_high)
        )
    assert len({day_result.evidence for day_result in days}) == 4
    total = compare_sums(control, treatment, precision=0.05, confidence=0.9)
    assert (days[-1].evidence, days[-1].low) == (total.evidence, total.lift_low)


def test_arms_without_a_common_day_have_no_days() -> None:
    arm = binomial(7, 0.1)
    assert compare_days(course_of(arm, arm._replace(days=arm.days + 1))) == []


def test_days_outside_the_calendar_are_its_first_and_last() -> None:
    outside = binomial(7, 0.1, days=2)._replace(days=np.array([-719_163, 2_932_897]))
    days = [result.day for result in compare_days(course_of(outside, outside))]
    assert days == [date.min, date.max]


def visits(
    random: np.random.Generator,
    users: int,
    days: NDArray[np.int64],
    who: NDArray[np.int64],
    rate: float = 0.1,
) -> GroupSums:
    """Users who come one day or several; a visit shows five items, and some users click more."""
    taste = random.beta(8 * rate, 8 * (1 - rate), users)
    index = days * 256 + random.integers(0, 256, users)[who]
    size = 60 * 256
    clicks = np.bincount(index, random.binomial(5, taste[who]), size).reshape(60, 256)
    return sums(clicks, 5 * np.bincount(index, minlength=size).reshape(60, 256))


def thin(seed: int) -> tuple[GroupSums, GroupSums]:
    """Sixty days: many users in control, and one new user a day in the treatment."""
    random = np.random.default_rng([seed, 29])
    days, users = np.nonzero(random.random((60, 1_000)) < 0.3)
    daily = np.repeat(np.arange(60), 5)
    return visits(random, 1_000, days, users), visits(random, 60, daily, daily)


@pytest.mark.parametrize("method", ["anytime", "fixed"])
def test_one_new_user_a_day_is_not_a_difference(method: Method) -> None:
    comparisons = [compare_sums(*thin(seed), method=method) for seed in range(40)]
    assert sum(comparison.excludes_zero for comparison in comparisons) <= 6
    if method == "fixed":
        widths = [half(comparison) for comparison in comparisons if comparison.low is not None]
        assert len(widths) > 30
        # Of 60 users with 25 items each, whose taste has a variance of 0.1 * 0.9 / 9.
        error = math.sqrt(0.1 * 0.9 * (1 / 25 + 24 / 25 / 9) / 60)
        assert 1.9 < np.mean(widths) / error < 2.2


def test_a_thin_day_counts_as_its_users_differ_between_days() -> None:
    """One group a day and arm: leaving it out leaves out its day, and no other."""
    random = np.random.default_rng(1)
    lists = np.eye(40, 256, dtype=np.int64) * 10
    control = binomial(1, 0.1, days=40)
    clicks = lists * random.uniform(0.05, 0.15, (40, 1))
    treatment = sums(clicks, lists)
    comparison = compare_sums(control, treatment, method="fixed")
    daily = [
        compare_sums(control.rows(day), treatment.rows(day)).difference
        for day in np.eye(40, dtype=np.bool_)
    ]
    error = float(np.std([present(estimate) for estimate in daily], ddof=1)) / math.sqrt(40)
    assert half(comparison) / error == pytest.approx(2.02, rel=0.1)
    assert comparison.groups == pytest.approx(39, abs=1)


def one_day(
    random: np.random.Generator, values: NDArray[np.float64], share: float
) -> tuple[GroupSums, GroupSums]:
    """Control and treatment, of which each user has one list of this value."""
    group = random.integers(0, 256, values.size)
    treated = random.random(values.size) < share
    arms = [(np.bincount(group[who], values[who], 256), group[who]) for who in (~treated, treated)]
    control, treatment = (sums(above, np.bincount(who, minlength=256)) for above, who in arms)
    return control, treatment


@pytest.mark.parametrize("share", [0.05, 0.01])
def test_a_small_arm_cannot_show_the_tail_of_the_large_one(share: float) -> None:
    random = np.random.default_rng(1)
    comparisons = [
        compare_sums(*one_day(random, 1 + random.pareto(1.5, 10_000), share), method="fixed")
        for _ in range(40)
    ]
    assert sum(one.verdict != "too few users" for one in comparisons) <= 6
    assert sum(one.is_skewed and present(one.shortfall) > 1 for one in comparisons) >= 34
    bounded = [one for one in comparisons if one.low is not None]
    assert sum(present(one.low) > 0 or present(one.high) < 0 for one in bounded) <= 2


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_values_with_a_cap_have_a_verdict_in_unequal_arms(share: float) -> None:
    random = np.random.default_rng(2)
    capped = np.minimum(1 + random.pareto(1.5, 10_000), 10.0)
    comparison = compare_sums(*one_day(random, capped, share))
    assert comparison.verdict == "not enough evidence"
    assert (comparison.is_skewed, comparison.shortfall) == (False, None)


def test_equal_arms_with_a_long_tail_have_a_verdict() -> None:
    random = np.random.default_rng(3)
    control, treatment = one_day(random, 1 + random.pareto(1.5, 100_000), 0.5)
    comparison = compare_sums(control, scaled(treatment, 2.0), method="fixed")
    assert (comparison.verdict, comparison.is_skewed) == ("better", False)


def test_one_group_with_all_values_is_too_few() -> None:
    lists = np.full(256, 10)
    lucky = np.where(np.arange(256) == 7, 9.0, 0.0)
    comparison = compare_sums(sums(lucky, lists), sums(lucky[::-1], lists))
    assert (comparison.verdict, bounds(comparison)) == ("too few users", [None] * 4)
    assert present(comparison.shortfall) > 6


def test_a_treatment_that_lost_nearly_all_clicks_is_worse() -> None:
    control = binomial(15, 0.1)
    lists = control.denominators
    many_examples = sums(np.where(np.arange(256) < 3, 1.0, 0.0), lists)
    assert compare_sums(control, many_examples).verdict == "worse"


def test_the_smaller_arm_decides_the_degrees_of_freedom() -> None:
    few = np.where(np.arange(256) < 21, 100, 0)
    treatment = sums(np.random.default_rng(4).binomial(few, 0.1), few)
    comparison = compare_sums(binomial(17, 0.1, lists=100_000), treatment, method="fixed")
    rates = treatment.numerators[0, :21] / 100
    # Student's 97.5 % point of 20 degrees of freedom is 2.086.
    assert comparison.groups == pytest.approx(20)
    # The jackknife of 21 groups overstates a variance by 1 / 20.
    error = float(np.std(rates, ddof=1)) / math.sqrt(20)
    assert half(comparison) / error == pytest.approx(2.086, rel=0.01)


def test_a_lift_that_all_users_share_has_no_bounds() -> None:
    """The difference varies between groups, and the lift does not."""
    control = binomial(16, 0.1)
    comparison = compare_sums(control, scaled(control, 2.0))
    assert (comparison.verdict, bounds(comparison)) == ("not enough evidence", [None] * 4)
    assert comparison.lift == pytest.approx(1.0)


def test_days_left_are_those_in_which_new_users_come() -> None:
    """3,000 users in 14 days, 357 of them in the second half: 51 new ones a day."""
    days = np.arange(20_000, 20_014)
    first = np.concatenate([np.resize(days[:7], 2_643), np.resize(days[7:], 357)])
    arm = audience(np.arange(3_000, dtype=np.uint64), days=(first, first))
    pace = present(pace_of([arm], days))
    assert (pace.users, pace.new, pace.days) == (3_000.0, 51.0, 14)
    assert pace.days_until(4_417.0) == pytest.approx((4_417 - 3_000) / 51)
    assert pace.days_until(2_000.0) == 0.0
    # Only of users below a threshold are the days known.
    half = arm._replace(threshold=2**63)
    assert present(pace_of([half], days)) == (6_000.0, 102.0, 14)
    again = arm._replace(first=np.full(3_000, 20_000))
    assert present(pace_of([again], days)).days_until(4_417.0) is None
    assert pace_of([arm], days[:3]) is None


def test_the_lift_of_a_span_alone_is_that_of_its_days_by_themselves() -> None:
    """An effect of the first week that is gone in the second."""
    control = binomial(5, 0.1, days=14)
    treatment = binomial(6, 0.1, days=14)
    fresh = np.where(np.arange(14) < 7, 1.3, 1.0)[:, None]
    treatment = treatment._replace(numerators=treatment.numerators * fresh)
    control, treatment = (arm._replace(days=arm.days + 18) for arm in (control, treatment))
    settings = Settings("anytime", 0.02, 0.95)
    first, second = lifts_alone(control, treatment, settings, days=7)
    assert (first.start, second.start) == (date(1970, 1, 19), date(1970, 1, 26))
    alone = compare_sums(control.rows(slice(7)), treatment.rows(slice(7)), method="fixed")
    assert (first.lift, first.low, first.high) == (alone.lift, alone.lift_low, alone.lift_high)
    assert present(second.high) < present(first.low)
    days = lifts_alone(control, treatment, settings, days=1)
    assert [result.start.toordinal() for result in days] == [
        date(1970, 1, 19).toordinal() + day for day in range(14)
    ]
