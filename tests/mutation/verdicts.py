"""Comparisons that are wrong at their edges, or claim too much; their tests must notice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from streameval.accumulator import plan
from streameval.accumulator.plan import hits_options
from streameval.analyses.experiments import comparison, sample_ratio, statistics
from streameval.analyses.experiments.comparison import Comparison
from streameval.analyses.experiments.verdicts import Compared, DraftComparison
from streameval.inference import contrasts
from streameval.inference.contrasts import Contrast
from streameval.statistics.groups import MOST_DAYS, Groups
from tests.contract import test_intervals
from tests.mutation.mistake import Mistake, around, replaced, with_its_cases
from tests.uncertainty import (
    test_checks,
    test_clicks,
    test_comparison,
    test_experiment,
    test_notes,
    test_segments,
    test_verdicts,
)


def _of_the_larger_arm(contrast: Contrast) -> float:
    return max(contrast.control.groups, contrast.treatment.groups)


def _by_days_as_they_were(kept: Any) -> Any:
    """A group is left out within each day, whose weight stays; of one group the residual is 0."""

    def of(arm: Any, days: Any, without: Any, total: Any) -> Any:
        values, lists = arm.whole
        rests = (arm.values - values / lists * arm.lists) / np.maximum(lists - arm.lists, 1.0)
        moves = total(rests * lists * days.part) / days.weight
        return kept(arm, days, without, total)._replace(moves=moves)

    return of


def _with_either(kept: Any) -> Any:
    def with_bounds(contrast: Comparison, plain: Any, relative: Any) -> Any:
        return kept(contrast, plain or relative, relative or plain)

    return with_bounds


def _farthest(contrast: Comparison) -> float:
    return max(contrast.lift_low or 0.0, contrast.lift_high or 0.0, key=abs)


def _with_bounds_of_its_own(kept: Any) -> Any:
    def select(drafts: Sequence[DraftComparison]) -> list[Compared]:
        pairs = zip(drafts, kept(drafts), strict=True)
        return [
            msgspec.structs.replace(row, lift_low=draft.row.lift_low, lift_high=draft.row.lift_high)
            for draft, row in pairs
        ]

    return select


def _without_flush(groups: Groups) -> bool:
    return any(days.size >= MOST_DAYS for _, days in groups._days())


def _by_a_guess(check: Any) -> Any:
    """Users are taken for the same by design if most of a variant's are in several."""

    def guessed(arms: Any, plans: Any, *, same_users: bool, **others: Any) -> Any:
        checks = check(arms, plans, same_users=same_users, **others)
        alike = checks.shared >= 0.9 * min(checks.users.values()) / max(
            sum(checks.users.values()), 1
        )
        return check(arms, plans, same_users=True, **others) if alike else checks

    return guessed


def _the_newest_only(plans_of: Any) -> Any:
    return lambda shares: plans_of(shares)[-1:]


def _by_lists(kept: Any) -> Any:
    def one_account(rows: Sequence[Compared], users: Any) -> Any:
        shares = (1.0 / (row.groups + 1.0) for row in rows)
        pairs = zip(rows, shares, strict=True)
        return kept([msgspec.structs.replace(row, heaviest=share) for row, share in pairs], users)

    return one_account


def _one_account() -> None:
    with TemporaryDirectory() as folder:
        test_notes.test_one_account_that_makes_the_uncertainty_is_named(Path(folder))


MISTAKES = (
    Mistake(
        '"at least" from the far bound',
        with_its_cases(test_verdicts.test_a_verdict_states_the_bound_nearest_to_0),
        replaced(comparison, "nearest_lift", _farthest),
    ),
    Mistake(
        "bounds of what stands out as if it stood alone",
        test_verdicts.test_bounds_of_what_stands_out_are_rarely_false,
        around(statistics, "select", _with_bounds_of_its_own),
    ),
    Mistake(
        "degrees of freedom of the larger arm",
        test_comparison.test_the_smaller_arm_decides_the_degrees_of_freedom,
        replaced(Contrast, "groups", property(_of_the_larger_arm)),
    ),
    Mistake(
        "days of one user group that do not vary",
        with_its_cases(test_comparison.test_one_new_user_a_day_is_not_a_difference),
        around(contrasts._Spread, "of", _by_days_as_they_were),
    ),
    Mistake(
        "a small arm with the tail that it shows itself",
        with_its_cases(test_comparison.test_a_small_arm_cannot_show_the_tail_of_the_large_one),
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
        replaced(Groups, "reduced", property(_without_flush)),
    ),
    Mistake(
        "a cap of 16,384 users of a variant",
        test_checks.test_a_variant_of_an_experiment_keeps_enough_users_for_a_small_imbalance,
        replaced(plan, "EXPERIMENT_USERS", 16_384),
    ),
    Mistake(
        "no checks where most users are in both variants",
        test_experiment.test_the_same_users_in_both_are_pairs_only_if_that_is_declared,
        around(statistics, "check_audiences", _by_a_guess),
    ),
    Mistake(
        "users of a ramp by all its shares",
        test_checks.test_a_ramp_of_new_users_has_a_verdict_if_the_shares_have_dates,
        around(statistics, "plans_of", _the_newest_only),
    ),
    Mistake(
        "lists without an id in one variant only",
        test_checks.test_lists_without_an_id_in_one_variant_only_are_not_trusted,
        replaced(sample_ratio, "MOST_UNEVEN", 1.0),
    ),
    Mistake(
        "one account by its lists, not by the uncertainty that it makes",
        _one_account,
        around(statistics, "one_account", _by_lists),
    ),
    Mistake(
        "the largest e-value of many segments",
        with_its_cases(test_segments.test_no_alarm),
        replaced(statistics, "mean_evidence", max),
    ),
    Mistake(
        "clicks of users up to the deepest cut-off",
        test_clicks.test_the_clicks_below_a_cut_off_leave_its_metrics_alone,
        replaced(plan.Plan, "summed_lists", lambda plan, metric: hits_options(metric, plan.depth)),
    ),
)
