"""Comparisons that are wrong at their edges, or claim too much; their tests must notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from streameval.accumulator import comparison, contrasts, experiment
from streameval.accumulator.comparison import Comparison
from streameval.accumulator.contrasts import Contrast
from streameval.accumulator.verdicts import Compared, Draft
from streameval.statistics.groups import MOST_DAYS, Groups
from tests.contract import test_intervals
from tests.mutation.mistake import Mistake, around, replaced
from tests.uncertainty import test_comparison, test_verdicts


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


def _farthest(found: Comparison) -> float:
    return max(found.lift_low or 0.0, found.lift_high or 0.0, key=abs)


def _with_bounds_of_its_own(kept: Any) -> Any:
    def select(drafts: Sequence[Draft]) -> list[Compared]:
        pairs = zip(drafts, kept(drafts), strict=True)
        return [
            msgspec.structs.replace(row, lift_low=draft.row.lift_low, lift_high=draft.row.lift_high)
            for draft, row in pairs
        ]

    return select


def _without_fold(groups: Groups) -> bool:
    return any(days.size >= MOST_DAYS for _, days in groups._days())


MISTAKES = (
    Mistake(
        '"at least" from the far bound',
        _every_case(test_verdicts.test_a_verdict_states_the_bound_nearest_to_0),
        replaced(comparison, "nearest_lift", _farthest),
    ),
    Mistake(
        "bounds of what stands out as if it stood alone",
        test_verdicts.test_bounds_of_what_stands_out_are_rarely_false,
        around(experiment, "select", _with_bounds_of_its_own),
    ),
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
