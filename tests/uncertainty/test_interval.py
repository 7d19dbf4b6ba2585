"""Intervals of a mean: against an explicit jackknife, and the cases without an interval."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from streameval.inference.interval_formulas import (
    boundary,
    interval,
    log_evidence,
    log_normal_tail,
    log_student_tail,
    normal_quantile,
    normal_reach,
    pool_days,
    standard_error,
    student_reach,
)
from streameval.statistics.intervals import GroupSums, IntervalKind, Intervals
from tests.present import present


def sums(
    numerators: ArrayLike, denominators: ArrayLike, days: ArrayLike | None = None
) -> GroupSums:
    """Group sums of one day (two vectors) or of several (two tables)."""
    above = np.atleast_2d(np.asarray(numerators, np.float64))
    below = np.atleast_2d(np.asarray(denominators, np.int64))
    when = np.arange(len(above)) if days is None else np.asarray(days)
    return GroupSums(when.astype(np.int64), above, below)


def binomial(
    seed: int, rate: float, *, groups: int = 256, lists: int = 400, days: int = 1
) -> GroupSums:
    """Clicks on independent lists."""
    random = np.random.default_rng(seed)
    impressions = random.poisson(lists, (days, groups))
    return sums(random.binomial(impressions, rate), impressions)


KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)


def test_the_standard_error_is_that_of_the_jackknife() -> None:
    table = binomial(1, 0.1, groups=20, lists=30)
    (numerators,), (denominators,) = table[1:]
    total = numerators.sum() / denominators.sum()
    without = [
        (numerators.sum() - numerators[group]) / (denominators.sum() - denominators[group])
        for group in range(20)
    ]
    expected = math.sqrt(19 / 20 * sum((mean - total) ** 2 for mean in without))
    assert standard_error(pool_days(table).influences) == pytest.approx(expected)


def test_days_are_added_up() -> None:
    by_day = binomial(2, 0.1, days=5)
    total = sums(by_day.numerators.sum(axis=0), by_day.denominators.sum(axis=0))
    assert interval(by_day, Intervals()) == interval(total, Intervals())


def test_a_fixed_interval_is_students() -> None:
    bounds = present(interval(binomial(3, 0.1), Intervals(), "fixed"))
    estimate = pool_days(binomial(3, 0.1))
    # The 97.5 % point of Student's t lies between 1.969 and 1.970 from 240 to 256 groups.
    reach = (bounds.high - bounds.low) / 2 / standard_error(estimate.influences)
    assert 1.969 < reach < 1.970
    assert (bounds.low + bounds.high) / 2 == pytest.approx(estimate.value)
    assert bounds.groups == pytest.approx(256 / (1 + 1 / 400) - 1, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stronger_guarantee_widens_the_interval(kind: IntervalKind) -> None:
    narrow, wide = (
        present(interval(binomial(4, 0.1), Intervals(confidence=confidence), kind))
        for confidence in (0.9, 0.99)
    )
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (narrow.kind, narrow.confidence) == (kind, 0.9)


def test_an_anytime_interval_is_about_half_as_wide_again_at_best() -> None:
    tightest = min(boundary(0.05, relative) for relative in np.geomspace(0.01, 10, 200))
    assert 3.0 < tightest < 3.15
    # ... and stays near that from a tenth of the precision's data to a thousand times it.
    assert max(boundary(0.05, relative) for relative in np.geomspace(0.03, 3, 50)) < 3.9


@given(st.floats(0.0005, 0.3), st.floats(1e-3, 1e3))
def test_the_boundary_is_where_the_evidence_is_enough(alpha: float, relative: float) -> None:
    evidence = log_evidence(boundary(alpha, relative), alpha, relative)
    assert evidence == pytest.approx(-math.log(alpha), rel=1e-9)


@pytest.mark.parametrize("relative", [1.0, 3.0, 50.0])
def test_evidence_without_an_effect_has_mean_1(relative: float) -> None:
    z = np.linspace(-60, 60, 6_001)
    fair = np.array([log_evidence(score, 0.05, relative) for score in z]) - z * z / 2
    assert np.exp(fair).sum() * 0.02 / math.sqrt(2 * math.pi) == pytest.approx(1.0, abs=1e-6)


def test_a_precision_is_where_an_interval_is_tightest() -> None:
    table = binomial(5, 0.5, lists=2_000)
    widths = {}
    for precision in (0.0005, 0.008, 0.5):
        bounds = present(interval(table, Intervals(precision=precision)))
        widths[precision] = bounds.high - bounds.low
    assert widths[0.008] == min(widths.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("click", "lists"),
    [
        *((0.3, np.where(np.arange(256) < users, 10, 0)) for users in (0, 1, 5, 12)),
        # A user with nearly all lists counts as one group.
        (0.3, np.where(np.arange(256) == 7, 10_000, 1)),
        (0.0, np.full(256, 10)),
    ],
)
def test_few_users_or_no_clicks_have_no_interval(
    click: float, lists: Any, kind: IntervalKind
) -> None:
    assert interval(sums(lists * click, lists), Intervals(), kind, bounds=(0, 1)) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clicks", [1, 5, 13])
def test_few_clicks_of_many_users_have_no_interval(clicks: int, kind: IntervalKind) -> None:
    """13 clicks of equally active users are worth one fewer than needed, 14 are enough."""
    lists, one_each = np.full(256, 10), (np.arange(256) < clicks).astype(float)
    assert interval(sums(one_each, lists), Intervals(), kind, bounds=(0, 1)) is None
    enough = (np.arange(256) < 14).astype(float)
    assert interval(sums(enough, lists), Intervals(), kind, bounds=(0, 1)) is not None


@pytest.mark.parametrize("precision", [1e-3, 1e-5, 1e-300])
def test_few_users_for_a_high_precision_have_a_wide_interval(precision: float) -> None:
    table = binomial(8, 0.8, groups=16, lists=20)
    bounds = present(interval(table, Intervals(precision=precision)))
    assert math.isfinite(bounds.low + bounds.high)
    usual = present(interval(table, Intervals()))
    assert bounds.low < usual.low < usual.high < bounds.high


@pytest.mark.parametrize("kind", ["anytime", "fixed"])
def test_users_who_do_not_differ_have_no_interval(kind: IntervalKind) -> None:
    assert interval(sums(np.full(256, 10), np.full(256, 10)), Intervals(), kind) is None


@pytest.mark.parametrize("unit", [1e-290, 1e200, 1e290])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_scales_with_its_unit(unit: float, kind: IntervalKind) -> None:
    table = binomial(7, 0.1)
    plain = present(interval(table, Intervals(), kind))
    scaled = present(
        interval(table._replace(numerators=table.numerators * unit), Intervals(), kind)
    )
    assert scaled.low / unit == pytest.approx(plain.low)
    assert scaled.high / unit == pytest.approx(plain.high)


@pytest.mark.parametrize("rate", [0.03, 0.5, 0.97, 0.999, 1.0])
def test_a_window_stays_from_0_to_1(rate: float) -> None:
    table = binomial(6, rate, groups=64, lists=20)
    bounds = present(interval(table, Intervals(), "pointwise", bounds=(0, 1)))
    assert 0.0 < bounds.low < bounds.high <= 1.0
    assert bounds.low <= table.numerators.sum() / table.denominators.sum() <= bounds.high


def test_for_independent_lists_wilson_is_that_of_the_lists() -> None:
    """For clicks that are independent of users, it is nearly Wilson's interval of the clicks."""
    table = binomial(7, 0.02, groups=1024, lists=20)
    bounds = present(interval(table, Intervals(), "pointwise", bounds=(0, 1)))
    lists, clicks, z = table.denominators.sum(), table.numerators.sum(), 1.959964
    rate = clicks / lists
    middle = (rate + z**2 / 2 / lists) / (1 + z**2 / lists)
    half = z / (1 + z**2 / lists) * math.sqrt(rate * (1 - rate) / lists + (z / 2 / lists) ** 2)
    assert bounds.low == pytest.approx(middle - half, rel=0.03)
    assert bounds.high == pytest.approx(middle + half, rel=0.03)


# The logarithm of erfc(z / sqrt(2)) / 2.
NORMAL = [
    (0.25, -0.91306176481113506),
    (1.5, -2.7059444008238898),
    (3.999, -10.355876356043406),
    (4.001, -10.364327570338337),
    (12.0, -75.410673001568796),
    (40.0, -804.60844201375379),
]
# The logarithm of half of betainc(nu / 2, 1 / 2, 0, nu / (nu + t^2), regularized=True).
STUDENT = [
    (0.001, 11.0, -0.6939274642744189),
    (1.5, 11.5, -2.522242154365967),
    (1.8, 255.0, -3.3098607921075442),
    (3.0, 15.0, -5.406711648622468),
    (6.0, 62.25, -16.715991648169142),
    (40.0, 12.0, -31.580946013536055),
    (1000.0, 1023.0, -3526.5924947019932),
]
# The root of the difference of the two, by bisection.
REACH = [
    (1.0, 12.0, 1.0434388652719851),
    (1.96, 15.0, 2.1314940880754532),
    (3.1, 254.9, 3.1325683669169908),
    (8.0, 12.0, 53.326560668845242),
    (20.0, 30.5, 4057.1850767926213),
]


@pytest.mark.parametrize(("z", "expected"), NORMAL)
def test_the_tail_of_the_normal(z: float, expected: float) -> None:
    assert log_normal_tail(z) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("t", "groups", "expected"), STUDENT)
def test_the_tail_of_student(t: float, groups: float, expected: float) -> None:
    assert log_student_tail(t, groups) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("z", "groups", "expected"), REACH)
def test_as_rare_for_student_as_for_the_normal(z: float, groups: float, expected: float) -> None:
    assert student_reach(z, groups) == pytest.approx(expected, rel=1e-11)


@given(st.floats(1e-12, 0.49))
def test_a_quantile_is_where_its_tail_is(tail: float) -> None:
    assert log_normal_tail(normal_quantile(tail)) == pytest.approx(math.log(tail), rel=1e-11)


@given(st.floats(1e-3, 60.0), st.floats(11.0, 1023.0))
def test_there_and_back(z: float, groups: float) -> None:
    reach = student_reach(z, groups)
    assert reach > z
    assert normal_reach(reach, groups) == pytest.approx(z, rel=1e-10)
