"""Plans of experiments: the users and days that a lift takes, from the spread counted so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from streameval.accumulator.accumulator import Accumulator
from streameval.accumulator.kinds.groups import not_comparable
from streameval.analyses.experiments.adjustment import share_left
from streameval.analyses.experiments.comparison import Settings
from streameval.analyses.experiments.course import (
    detectable_effect,
    error_at,
    pace_of,
)
from streameval.catalogue import metric_of
from streameval.events.errors import MetricError
from streameval.events.ids import is_number
from streameval.events.problems import percentage_hint
from streameval.inference.interval_formulas import FEWEST_GROUPS, pool_days, standard_error
from streameval.statistics.intervals import Audience, GroupSums, Intervals, Method

_METHODS: Final[tuple[Method, ...]] = ("fixed", "anytime")


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """Users and days that an experiment takes with one method.

    Attributes:
        method: "fixed" for one look at the end, "anytime" for looks whenever you like.
        users: users of all variants together; None if nothing varies between users.
        adjusted: users of all variants together if values are adjusted by pre-experiment data;
            None with fewer than 2 days counted.
        days: days until they have come, if new users go on to come as in the second half of those
            counted; None if none come, and with fewer than 4 days counted.
        detectable: the lift that is found with the users counted so far.
        new_users: users a day who first came in the second half; None with fewer than 4 days.
    """

    method: Method
    users: float | None
    adjusted: float | None = None
    days: float | None
    detectable: float | None
    new_users: float | None = None


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The users and days that it takes to find a lift.

    Attributes:
        metric: canonical text.
        value: the value counted so far.
        users: number of users counted.
        days: number of event days counted.
        lift: relative difference to find.
        power: share of experiments that find it.
        confidence: share of experiments without a difference that find none.
        shares: share of the users of each variant, control first; they sum to 1.
        efforts: one for each method.

    Example:
        >>> from streameval import Accumulator, Intervals
        >>> accumulator = Accumulator("hit_rate", intervals=Intervals())
        >>> for user in range(300):
        ...     accumulator.update(["a"], ["a"] if user % 2 else [], user=f"u{user}")
        >>> found = plan(accumulator, "hit_rate", shares=(9, 1))
        >>> found.users, found.shares
        (300.0, (0.9, 0.1))
    """

    metric: str
    value: float
    users: float
    days: int
    lift: float
    power: float
    confidence: float
    shares: tuple[float, ...]
    efforts: tuple[Effort, ...]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """Effect that an experiment should find.

    Attributes:
        lift: relative difference, above 0 and at most 1.
        power: share of experiments that find it.
        shares: planned shares of users in any unit, control first.

    Raises:
        MetricError: a number is not valid.
    """

    lift: float = 0.02
    power: float = 0.8
    shares: tuple[float, ...] = (1.0, 1.0)

    def __post_init__(self) -> None:
        numbers: Mapping[str, Any] = {"lift": self.lift, "power": self.power}
        if not _is_lift(numbers["lift"]):
            remedy = "give a share above 0 and up to 1, like 0.02 for 2 %"
            hint = percentage_hint(self.lift, _is_lift)
            raise MetricError(f"lift={self.lift!r}: {remedy}{hint}")
        if not _is_power(numbers["power"]):
            remedy = "give a share from 0.5 to below 1, like 0.8"
            hint = percentage_hint(self.power, _is_power)
            raise MetricError(f"power={self.power!r}: {remedy}{hint}")
        if len(self.shares) < 2 or not all(
            is_number(share) and 0.0 < share < math.inf for share in self.shares
        ):
            raise MetricError(
                f"shares={self.shares!r}: give a number above 0 for each variant, control first"
            )

    @property
    def split(self) -> tuple[float, ...]:
        """The shares, which sum to 1."""
        return tuple(share / sum(self.shares) for share in self.shares)


def _is_lift(value: Any) -> bool:
    return is_number(value) and 0.0 < value <= 1.0


def _is_power(value: Any) -> bool:
    return is_number(value) and 0.5 <= value < 1.0


def plan(
    accumulator: Accumulator,
    metric: str,
    *,
    lift: float = 0.02,
    shares: Sequence[float] = (1, 1),
    power: float = 0.8,
) -> ExperimentPlan:
    """Plan an experiment from the users counted so far.

    Args:
        accumulator: of one model, or of all traffic; made with `intervals`, whose confidence and
            precision the experiment will have.
        metric: one that it was made with.
        lift: relative difference to find, above 0 and at most 1.
        shares: planned shares of users in any unit, control first. Several variants are several
            comparisons, which share the error.
        power: share of experiments that find it.

    Raises:
        NotComparableError: the metric has no sums by user, or too few users were counted.
        MetricError: an argument is not valid.

    Example:
        >>> from streameval import Accumulator, Intervals
        >>> accumulator = Accumulator("hit_rate", intervals=Intervals())
        >>> for user in range(3_000):
        ...     accumulator.update(["a"], ["a"] if user % 3 == 0 else [], user=f"u{user}")
        >>> fixed, anytime = plan(accumulator, "hit_rate", lift=0.1).efforts
        >>> 5_000 < fixed.users < 8_000, 1.5 < anytime.users / fixed.users < 3.5
        (True, True)
    """
    if not isinstance(accumulator, Accumulator):
        raise MetricError(f"accumulator={accumulator!r:.80}: give a streameval.Accumulator")
    text = metric_of(metric, accumulator.metrics).text
    intervals, audience = accumulator.intervals, accumulator.audience
    if intervals is None or audience is None:
        raise not_comparable(text)
    sums = accumulator.groups(text)
    if sums is None:
        raise not_comparable(text, accumulator.read(text).no_interval)
    goal = Goal(lift=lift, power=power, shares=tuple(shares))
    return plan_sums(text, sums, audience, intervals, goal)


def plan_sums(
    metric: str, sums: GroupSums, audience: Audience, intervals: Intervals, goal: Goal
) -> ExperimentPlan:
    """Plan an experiment from the group sums of users counted so far.

    Raises:
        NotComparableError: there are too few users.
    """
    estimate, users = pool_days(sums), audience.users
    if not estimate.is_usable:
        reason = (
            f"Too few users: {users:,.0f} of them, with a value of {estimate.value:.4g}; count "
            f"more than {FEWEST_GROUPS} users with some success."
        )
        raise not_comparable(metric, reason)
    return ExperimentPlan(
        metric=metric,
        value=estimate.value,
        users=users,
        days=sums.days.size,
        lift=goal.lift,
        power=goal.power,
        confidence=intervals.confidence,
        shares=goal.split,
        efforts=tuple(_effort(sums, audience, intervals, goal, method) for method in _METHODS),
    )


def _effort(
    sums: GroupSums, audience: Audience, intervals: Intervals, goal: Goal, method: Method
) -> Effort:
    control, *others = goal.split
    alpha = (1.0 - intervals.confidence) / len(others)
    estimate = pool_days(sums)
    # Users of both arms differ, so the relative variances of their means add up.
    now = _relative_error(sums) * math.sqrt(1.0 / control + 1.0 / min(others))
    if not now > 0:
        return Effort(method=method, users=None, days=None, detectable=None)

    settings = Settings(method, intervals.precision, 1.0 - alpha)

    def lift_at(error: float) -> float:
        """The logarithm of the lift that is found with a standard error."""
        return detectable_effect(error, estimate.groups, settings, goal.power)

    error = error_at(math.log1p(goal.lift), 1e3 * now, lift_at)
    fewest = 2.0 * (FEWEST_GROUPS + 1) / min(goal.split)
    users, share = audience.users * (now / error) ** 2, share_left(sums, audience)
    pace, users = pace_of([audience], sums.days), max(users, fewest)
    left = None if pace is None else pace.days_until(users)
    return Effort(
        method=method,
        users=users,
        adjusted=None if share is None else max(users * share, fewest),
        days=None if pace is None or left is None else pace.days + left,
        new_users=None if pace is None else pace.new,
        detectable=math.expm1(min(lift_at(now), 100.0)),
    )


def _relative_error(sums: GroupSums) -> float:
    estimate = pool_days(sums)
    return standard_error(estimate.influences) / estimate.value if estimate.is_usable else 0.0
