"""The course of a comparison: its results at the end of each day."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.analyses.experiments.adjustment import Covariates
from streameval.analyses.experiments.comparison import (
    Settings,
    contrast_of,
    judge,
    log_lift,
    on_common_days,
)
from streameval.inference.contrasts import Contrast, contrasts
from streameval.inference.days import date_of
from streameval.inference.interval_formulas import normal_quantile, standard_error
from streameval.inference.planned_looks import PlannedLook
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Audience, GroupSums

Course: TypeAlias = Sequence[tuple[int, Contrast]]
"""Days since 1970-01-01, and the contrast over all days up to each."""

_ANYTIME: Final = Settings("anytime", precision=0.02, confidence=0.95)

_FEWEST_DAYS: Final = 4
"""Fewest days from which the pace of new users is measured."""

_WEEK: Final = 7
_MONDAY: Final = 4
"""The first Monday, in days since the epoch."""

_LARGEST_EFFECT: Final = 100.0
"""Largest logarithm of a detectable lift."""


class Day(msgspec.Struct, frozen=True):
    """The result of an anytime comparison at the end of a day, over all days so far.

    Attributes:
        day: the day.
        evidence: e-value against no difference.
        lift: relative difference; None unless both arms are above 0.
        low: lower bound of the lift; None without enough data.
        high: upper bound.
    """

    day: date
    evidence: float
    lift: float | None
    low: float | None
    high: float | None


def course_of(
    control: GroupSums,
    treatment: GroupSums,
    covariates: Covariates | None = None,
    *,
    cells: int = 1,
) -> Course:
    """The contrast up to the end of each day that both slices have.

    A late list counts on its event day. Oldest days that were merged count as one day.

    `covariates`: of the users, to adjust by. `cells`: see `Settings`.

    Raises:
        UnlikeStateError: the numbers of groups differ.
    """
    common = on_common_days(control, treatment)
    numbers = common[0].days // cells
    # The rows of a day follow each other; its last one has all of them.
    ends = np.flatnonzero(np.diff(numbers, append=numbers[-1:] + 1))
    by_row = contrasts(*common, cumulative=True) if numbers.size else []
    days, daily = numbers[ends], [by_row[row] for row in ends.tolist()]
    if covariates is not None:
        daily = covariates.adjust_daily(daily, days, cells)
    return list(zip(days.tolist(), daily, strict=True))


def compare_days(course: Course, settings: Settings = _ANYTIME) -> list[Day]:
    """The results of a comparison at the end of each day; the last one is the current one."""
    days = []
    for number, contrast in course:
        row = judge(contrast, settings)
        bounds = row.lift, row.lift_low, row.lift_high
        days.append(Day(date_of(number), row.evidence, *bounds))
    return days


def are_known(days: IntArray) -> bool:
    """True if events have times: those without count on day 0, and on no other."""
    return bool(days.any())


class SpanLift(msgspec.Struct, frozen=True, kw_only=True):
    """The lift of one day or week alone, with a band for one look and no verdict.

    Attributes:
        start: its first day; weeks begin on Mondays.
        lift: relative difference; None unless both arms are above 0.
        low: lower bound of the lift; None without enough data.
        high: upper bound.
    """

    start: date
    lift: float | None
    low: float | None
    high: float | None


def lifts_alone(
    control: GroupSums, treatment: GroupSums, settings: Settings, *, days: int
) -> list[SpanLift]:
    """The lift of each span of days alone, which shows whether an effect wears off.

    `days`: 1 for each day, 7 for each week.

    Raises:
        UnlikeStateError: the numbers of groups differ.
    """
    common = on_common_days(control, treatment)
    number = common[0].days // settings.cells
    # Day 0 is a Thursday, so day 4 is the first Monday.
    spans = (number - _MONDAY) // days if days == _WEEK else number // days
    settings = settings._replace(method="fixed", level=None, look=None)
    lifts = []
    for span in np.unique(spans).tolist():
        rows = spans == span
        first, other = (arm.rows(rows) for arm in common)
        row = judge(contrast_of(first, other), settings)
        start = date_of(span * days + (_MONDAY if days == _WEEK else 0))
        lifts.append(SpanLift(start=start, lift=row.lift, low=row.lift_low, high=row.lift_high))
    return lifts


class Arrivals(NamedTuple):
    """Counts of users who come.

    Attributes:
        users: who came so far.
        new: users a day who first came in the second half of the days.
        days: so far.
    """

    users: float
    new: float
    days: int

    def days_until(self, users: float) -> float | None:
        """Days until so many users have come; None if no new ones come.

        The same users teach ever less, so there is no number of days.
        """
        missing = max(users - self.users, 0.0)
        return missing / self.new if self.new else None if missing else 0.0


def pace_of(audiences: Sequence[Audience], days: IntArray) -> Arrivals | None:
    """The pace of the users of several variants, or of all; None with fewer than 4 days.

    `days`: with lists, ascending.
    """
    if days.size < _FEWEST_DAYS:
        return None
    half = days.size // 2
    new = sum(float((arm.first >= days[half]).sum()) * (2**64 / arm.threshold) for arm in audiences)
    users = sum(arm.users for arm in audiences)
    return Arrivals(users, new / (days.size - half), int(days.size))


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Users it takes until the lift has the configured precision.

    Attributes:
        users: of both variants that it takes.
        new_users: users a day who first came in the second half of the days.
        days: so far.
    """

    users: float
    new_users: float
    days: int


def outlook_of(contrast: Contrast, settings: Settings, pace: Arrivals) -> Outlook:
    """The users at whom the half width of the lift's interval is the configured precision."""
    if settings.look is not None:
        settings = settings._replace(look=settings.look.last)
    now = lift_error(contrast)
    final = error_at(
        settings.precision, now, lambda error: _half_width(error, contrast.groups, settings)
    )
    users = pace.users * (now / final) ** 2 if final > 0 else pace.users
    return Outlook(users=users, new_users=pace.new, days=pace.days)


def detectable_lift(contrast: Contrast, settings: Settings) -> float:
    """The lift that a usable comparison finds in 8 of 10 experiments."""
    effect = detectable_effect(lift_error(contrast), contrast.groups, settings, power=0.8)
    return math.expm1(min(effect, _LARGEST_EFFECT))


def detectable_effect(error: float, groups: float, settings: Settings, power: float) -> float:
    """The logarithm of the lift that is found with a standard error and degrees of freedom."""
    return _half_width(error, groups, settings) + normal_quantile(1.0 - power) * error


def _half_width(error: float, groups: float, settings: Settings) -> float:
    return settings.half_width(error, groups, settings.precision)


def with_information(look: PlannedLook, course: Course) -> PlannedLook:
    """The look with the information of those before, at equal parts of the days so far.

    Users who come again give most of it early. With fewer days than looks it grows as their number.
    """
    days, looks = len(course), look.look
    ends = [round(days * number / looks) for number in range(1, looks + 1)]
    arms = [course[end - 1][1][:2] for end in ends if end]
    errors = [standard_error(other.influences - first.influences) for first, other in arms]
    if len(errors) < looks or len(set(ends)) < looks or not all(error > 0 for error in errors):
        return look
    information = np.maximum.accumulate([error**-2.0 for error in errors])
    return look._replace(information=tuple(information.tolist()))


def lift_error(contrast: Contrast) -> float:
    """Standard error of the logarithm of treatment / control."""
    return standard_error(log_lift(contrast)[1])


def error_at(target: float, largest: float, width: Callable[[float], float]) -> float:
    """The standard error at which a width, which grows with it, is the target."""
    low, high = 0.0, largest
    if width(high) <= target:
        return high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if width(middle) <= target else (low, middle)
    return high
