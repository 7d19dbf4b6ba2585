"""The formulas agree with values computed by plain loops and another library's distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from streameval.analyses.changes.report import REFERENCE_WEEKS, ChangeSettings
from streameval.analyses.changes.shifts import DailySums, DaySpan, DayVariation, Shift, Shifts
from streameval.analyses.changes.statistics import Look, judge_changes, look
from streameval.inference.interval_formulas import log_evidence, normal_reach
from streameval.statistics.intervals import GroupSums
from tests.changes.worlds import series_of
from tests.present import present

PRECISION, ALARM = 0.02, 91.0
STEADY = DayVariation(0.0, 1e9)
"""Days that do not move, so that users alone make the error."""


def golden(after: int, sums: GroupSums | None = None, weeks: int = 2) -> Shifts:
    return Shifts([DailySums.of([sums or golden_sums(after)], 0, 27)], weeks)


def watched(after: int) -> Look:
    return look(series_of(golden_sums(after)), 27, ChangeSettings())


def golden_sums(after: int) -> GroupSums:
    day, group = np.arange(28)[:, np.newaxis], np.arange(16)[np.newaxis, :]
    lists = 100 + (7 * day + 11 * group) % 40
    rate = 150 + 5 * ((37 * day + 61 * group + 13 * day * group) % 23)
    season, level = np.where(day % 7 >= 5, 11, 10), np.where(day >= 24, after, 20)
    values = lists * rate * season * level // 200_000
    return GroupSums(np.arange(28), values.astype(np.float64), lists)


def z_value(shift: Shift, tolerate: float) -> float:
    return normal_reach(max(0.0, -shift.effect - tolerate) / shift.error, shift.freedom)


def e_value(shift: Shift, tolerate: float) -> float:
    z = z_value(shift, tolerate)
    return math.exp(log_evidence(z, 1.0 / ALARM, shift.error / PRECISION))


def by_users(shifts: Shifts) -> list[Shift]:
    spans = [DaySpan(index, index, 28) for index in range(21, 28)]
    return [shift for shift in shifts.between(spans, STEADY) if shift is not None]


def since(shifts: list[Shift], day: int) -> Shift:
    return next(shift for shift in shifts if shift.day == day)


def test_a_drop_by_users_alone() -> None:
    shifts = by_users(golden(17))
    shift = since(shifts, 24)
    assert shift.effect == pytest.approx(-0.21779811, abs=5e-9)
    assert shift.error == pytest.approx(0.016225954, abs=5e-10)
    assert shift.freedom == pytest.approx(14.982164, abs=5e-7)
    assert z_value(shift, 0.0) == pytest.approx(6.1200348, abs=5e-8)
    assert e_value(shift, 0.0) == pytest.approx(2033672.2, abs=0.05)
    assert sum(e_value(part, 0.0) for part in shifts) == pytest.approx(2441254.9, abs=0.05)


def test_a_drop_by_users_and_days() -> None:
    shifts = golden(17).latest()
    assert [shift.day for shift in shifts] == list(range(21, 28))
    assert z_value(since(shifts, 24), 0.01) == pytest.approx(6.0154481, abs=5e-8)
    assert e_value(since(shifts, 24), 0.01) == pytest.approx(1087521.2, abs=0.05)
    assert sum(e_value(part, 0.01) for part in shifts) == pytest.approx(1234876.0, abs=0.05)


def moved(waves: ArrayLike) -> GroupSums:
    sums = golden_sums(17)
    scale = np.exp(0.03 * np.sin(waves))[:, np.newaxis]
    return sums._replace(numerators=sums.numerators * scale)


def test_days_that_move_make_the_error_and_few_of_them_are_little_evidence() -> None:
    shift = since(golden(17, moved([day * day for day in range(28)])).latest(), 27)
    assert shift.effect == pytest.approx(-0.31509060, abs=5e-9)
    assert shift.error == pytest.approx(0.067146160, abs=5e-10)
    assert shift.freedom == pytest.approx(13.026648, abs=5e-7)


def test_days_with_another_between_them_do_not_follow_each_other() -> None:
    total, days = moved(np.arange(28) / 2), np.delete(np.arange(28), 12)
    sums = GroupSums(days, total.numerators[days], total.denominators[days])
    day_variation = present(golden(17, sums).day_variation(24))
    assert day_variation == pytest.approx((0.00050092448, 5.55), rel=5e-8)


def test_no_drop() -> None:
    shifts = golden(20)
    assert since(by_users(shifts), 24).effect == pytest.approx(-0.049545798, abs=5e-10)
    evidence = sum(e_value(part, 0.0) for part in by_users(shifts))
    assert evidence == pytest.approx(61.68619, abs=5e-6)
    evidence = sum(e_value(part, 0.01) for part in shifts.latest())
    assert evidence == pytest.approx(37.775063, abs=5e-7)


def test_the_evidence_of_a_verdict_is_the_sum() -> None:
    for after in (17, 20):
        settings = ChangeSettings(tolerate=0.01, once_in=f"{ALARM:.0f}d")
        (change,) = judge_changes([watched(after)], settings, PRECISION)
        evidence = sum(e_value(part, 0.01) for part in watched(after).shifts)
        assert change.worse_days == pytest.approx(evidence, rel=5e-8)


@pytest.mark.parametrize("verdict", ["worse", "changed"])
def test_the_near_bound_is_that_of_the_verdict(verdict: str) -> None:
    """An effect counted from there on has just the evidence that an alarm needs.

    Without a better direction that is the mean of both.
    """
    series = series_of(golden_sums(17))
    if verdict == "changed":
        series = series._replace(higher_is_better=None)
    seen = look(series, 27, ChangeSettings())
    (change,) = judge_changes([seen], ChangeSettings(), PRECISION)
    assert change.verdict == verdict
    assert present(change.low) < present(change.effect) < present(change.high) < -0.01
    fall, needed = sum(e_value(part, 0.01) for part in seen.shifts), ALARM
    if verdict == "changed":
        needed = 2 * ALARM - (2 * present(change.worse_days) - fall)
    evidence = sum(e_value(part, -math.log1p(present(change.high))) for part in seen.shifts)
    assert evidence == pytest.approx(needed, rel=1e-6)


def test_users_of_two_slices_are_left_out_of_both() -> None:
    sums = golden_sums(17)
    twice = sums._replace(numerators=2 * sums.numerators, denominators=2 * sums.denominators)
    arms = [DailySums.of([part], 0, 27) for part in (sums, twice)]
    for shift in Shifts(arms, 2).between([DaySpan(index, index, 28) for index in (22, 25)], STEADY):
        assert shift is not None
        assert (shift.effect, shift.error) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_the_slice_of_fewer_users_has_the_degrees_of_freedom_of_both() -> None:
    many, heavy = golden_sums(17), np.where(np.arange(16) == 0, 2, 1)
    few = many._replace(numerators=many.numerators * heavy, denominators=many.denominators * heavy)
    arms = [DailySums.of([part], 0, 27) for part in (many, few)]
    (both,), (alone,) = (
        Shifts(of, 2).between([DaySpan(24, 24, 25)], STEADY) for of in (arms, arms[1:])
    )
    assert present(both).freedom == pytest.approx(present(alone).freedom, rel=1e-12)
    assert 12.0 < present(both).freedom < 14.5


def test_a_look_takes_the_same_sums() -> None:
    assert list(watched(17).shifts) == golden(17, weeks=REFERENCE_WEEKS).latest()
