"""A planned experiment finds its lift about as often as was promised."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Intervals, plan
from streameval.analyses.experiments.planning import Effort, Goal, plan_sums
from streameval.events.errors import MetricError, NotComparableError
from streameval.statistics.intervals import GroupSums, Method
from tests.comparing import compare_sums
from tests.crowds import audience
from tests.effort import sampled
from tests.present import present
from tests.simulation.bars import at_least, at_most

GROUPS = 256


def traffic(seed: Sequence[int], users: int, lift: float = 0.0, days: int = 1) -> GroupSums:
    """Lists of users who come on one day each, and whose clicks are alike."""
    random = np.random.default_rng([9, *seed])
    taste = random.beta(2.0, 6.0, users) * (1.0 + lift)
    lists = random.poisson(4.0, users) + 1
    codes = random.integers(0, days, users) * GROUPS + random.integers(0, GROUPS, users)
    clicks = random.binomial(lists, np.minimum(taste, 1.0)).astype(float)
    above, below = (
        np.bincount(codes, amounts, days * GROUPS).astype(np.float64) for amounts in (clicks, lists)
    )
    shape = days, GROUPS
    return GroupSums(np.arange(days), above.reshape(shape), below.reshape(shape).astype(np.int64))


def efforts(sums: GroupSums, users: int, goal: Goal) -> dict[str, Effort]:
    everyone = audience(np.arange(users, dtype=np.uint64))
    planned = plan_sums("ctr", sums, everyone, Intervals(), goal)
    return {effort.method: effort for effort in planned.efforts}


@pytest.mark.parametrize(
    ("method", "shares"),
    sampled([*product(("fixed", "anytime"), ((1.0, 1.0), (9.0, 1.0)))], 3),
)
def test_the_planned_users_find_the_lift_as_often_as_planned(
    method: Method, shares: tuple[float, ...]
) -> None:
    goal = Goal(lift=0.08, shares=shares)
    needed = present(efforts(traffic([0], 20_000), 20_000, goal)[method].users)
    detections = []
    for run in range(120):
        control, treatment = (
            traffic([run, side], round(needed * share), goal.lift * side)
            for side, share in enumerate(goal.split)
        )
        detections.append(compare_sums(control, treatment, method=method).verdict == "better")
    # The spread that was counted is an estimate, and so are the users that follow from it.
    assert at_least("power", 0.75, detections).passed, sum(detections)
    assert at_most("power", 0.87, detections).passed, sum(detections)


def test_what_is_detectable_is_a_lift_that_needs_the_users_counted() -> None:
    sums = traffic([1], 5_000)
    for method in ("fixed", "anytime"):
        lift = present(efforts(sums, 5_000, Goal())[method].detectable)
        assert efforts(sums, 5_000, Goal(lift=lift))[method].users == pytest.approx(5_000)


def test_days_are_those_in_which_the_missing_users_come() -> None:
    sums, days = traffic([2], 40_000, days=16), np.arange(16)
    first = np.resize(days, 40_000)
    everyone = audience(np.arange(40_000, dtype=np.uint64), days=(first, first))
    effort = plan_sums("ctr", sums, everyone, Intervals(), Goal(lift=0.01)).efforts[0]
    assert effort.new_users == 2_500.0
    assert present(effort.days) == 16 + (present(effort.users) - 40_000) / 2_500
    # Nobody new came after the first day.
    again = efforts(sums, 40_000, Goal(lift=0.01))["fixed"]
    assert (again.days, again.new_users) == (None, 0.0)
    few = efforts(traffic([3], 4_000, days=3), 4_000, Goal())["fixed"]
    assert (few.days, few.new_users) == (None, None)


def test_several_variants_share_the_error() -> None:
    sums = traffic([4], 5_000)
    three, two = (
        present(efforts(sums, 5_000, Goal(shares=(1.0,) * count))["fixed"].users) / count
        for count in (3, 2)
    )
    assert three > 1.1 * two


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lift": 0.0}, "lift=0.0: give a share above 0"),
        ({"power": 1.0}, "power=1.0: give a share from 0.5 to below 1"),
        ({"shares": (1,)}, "shares=(1,): give a number above 0 for each variant"),
        ({"shares": (1, 0)}, "shares=(1, 0): give a number above 0 for each variant"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    accumulator = Accumulator("ctr", intervals=Intervals())
    with pytest.raises(MetricError) as raised:
        plan(accumulator, "ctr", **options)
    assert message in str(raised.value)


def test_a_plan_needs_users() -> None:
    with pytest.raises(NotComparableError, match="Create the Accumulator with intervals"):
        plan(Accumulator("ctr"), "ctr")
    with pytest.raises(NotComparableError, match="Too few users: 0 of them"):
        plan(Accumulator("ctr", intervals=Intervals()), "ctr")
