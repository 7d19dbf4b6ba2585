"""Comparisons that are wrong at their edges; the tests of comparisons must notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streameval.accumulator import comparison, contrasts
from streameval.accumulator.comparison import Comparison
from streameval.accumulator.contrasts import Contrast
from streameval.statistics.groups import MOST_DAYS, Groups
from tests.contract import test_intervals
from tests.mutation.mistake import Mistake, around, replaced
from tests.uncertainty import test_comparison


def _every_case(test: Callable[..., None]) -> Callable[[], None]:
    """A test with cases, which it brings along."""
    return test


def _of_the_larger_arm(found: Contrast) -> float:
    return max(found.control.groups, found.treatment.groups)


def _by_days_as_they_were(kept: Any) -> Any:
    """A group is left out within each day, whose weight stays; of one group the residual is 0."""

    def of(arm: Any, days: Any, without: Any, total: Any) -> Any:
        values, lists = arm.whole
        rests = (arm.values - values / lists * arm.lists) / np.maximum(lists - arm.lists, 1.0)
        moves = total(rests * lists * days.part) / days.weight
        return kept(arm, days, without, total)._replace(moves=moves)

    return of


def _with_either(kept: Any) -> Any:
    def with_bounds(found: Comparison, plain: Any, relative: Any) -> Any:
        return kept(found, plain or relative, relative or plain)

    return with_bounds


def _without_fold(groups: Groups) -> bool:
    return any(days.size >= MOST_DAYS for _, days in groups._days())


MISTAKES = (
    Mistake(
        "degrees of freedom of the larger arm",
        test_comparison.test_the_smaller_arm_decides_the_degrees_of_freedom,
        replaced(Contrast, "groups", property(_of_the_larger_arm)),
    ),
    Mistake(
        "days of one user group that do not vary",
        _every_case(test_comparison.test_one_new_user_a_day_is_not_a_difference),
        around(contrasts._Spread, "of", _by_days_as_they_were),
    ),
    Mistake(
        "a small arm with the tail that it shows itself",
        _every_case(test_comparison.test_a_small_arm_cannot_show_the_tail_of_the_large_one),
        replaced(contrasts, "MOST_SKEWED", 1e9),
    ),
    Mistake(
        "bounds of a lift that does not vary",
        test_comparison.test_a_lift_that_all_users_share_has_no_bounds,
        around(comparison, "_with_bounds", _with_either),
    ),
    Mistake(
        "days that wait to be summed are not merged",
        test_intervals.test_days_that_wait_to_be_summed_may_be_merged_days,
        replaced(Groups, "reduced", property(_without_fold)),
    ),
)
