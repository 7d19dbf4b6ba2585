"""Changes that are seen too often, too late or of the wrong thing; their tests must notice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streameval.analyses.changes import reader as watched
from streameval.analyses.changes import shifts, words
from streameval.analyses.changes import statistics as changes
from streameval.analyses.changes.report import ChangesReport
from streameval.analyses.changes.shifts import Movement, Shift, Shifts
from streameval.inference.interval_formulas import half_width, log_normal_tail
from tests.changes import test_golden, test_past, test_trust, test_verdicts
from tests.changes.worlds import together
from tests.mutation.mistake import Mistake, around, replaced, with_its_cases


def _of_all_days(kept: Any) -> Any:
    return lambda self, _before: kept(self, self.days)


def _still(kept: Any) -> Any:
    def movement(self: Shifts, before: int) -> Movement | None:
        moved = kept(self, before)
        return None if moved is None else moved._replace(variance=0.0)

    return movement


def _unweighted(kept: Any) -> Any:
    return lambda sizes: np.sign(kept(sizes))


def _with_days_after(kept: Any) -> Any:
    def references(self: Any, begins: Any, befores: Any, weeks: int) -> Any:
        return kept(self, begins, [before + 1 for before in befores], weeks)

    return references


def _higher_is_better(kept: Any) -> Any:
    def tested(change: Any, seen: Any, bets: Any) -> Any:
        series = seen.series._replace(higher_is_better=True)
        return kept(change, seen._replace(series=series), bets)

    return tested


def _raw(kept: Any) -> Any:
    def shifts_of(slices: Any, *others: Any) -> Any:
        return kept([[together(*strata)] for strata in slices], *others)

    return shifts_of


def _reset_by_rollouts(kept: Any) -> Any:
    def evidence(self: Any, parts: Any, sign: float, suspects: Any) -> float:
        latest = max(suspects, default=0)
        return float(kept(self, [part for part in parts if part.day > latest], sign, suspects))

    return evidence


def _undivided(kept: Any) -> Any:
    def evidence(self: Any, *given: Any) -> float:
        return float(kept(self._replace(series=1), *given))

    return evidence


def _by_lists(kept: Any) -> Any:
    """Each list is taken as if another user saw it."""

    def shifts_of(means: Any, by_days: Any, freedom: Any) -> Any:
        parts = [part for pair in means for part in pair]
        squares = by_days + sum(part.scale * (1.0 - part.value) / part.value for part in parts)
        for shift, square in zip(kept(means, by_days, freedom), squares.tolist(), strict=True):
            yield shift._replace(error=math.sqrt(square))

    return shifts_of


def _independent(kept: Any) -> Any:
    """The errors of two slices are added as if no user saw both."""

    def shifts_of(means: Any, by_days: Any, freedom: Any) -> Any:
        alone = [kept([pair], by_days, freedom) for pair in means]
        for both, *parts in zip(kept(means, by_days, freedom), *alone, strict=True):
            yield both._replace(error=math.hypot(*(part.error for part in parts)))

    return shifts_of


def _zero_if_empty(kept: Any) -> Any:
    """A day without lists has as many as others, without a click."""

    def of(*given: Any) -> Any:
        sums = kept(*given)
        empty = sums.lists.sum(axis=(1, 2), keepdims=True) == 0
        usual = sums.lists.mean(axis=0, keepdims=True)
        return sums._replace(lists=np.where(empty, usual, sums.lists))

    return staticmethod(of)


def _without_the_tail(kept: Any) -> Any:
    """That the days since then are as bad does not matter."""

    def is_over(bets: Any, pulse: Shift, tail: Shift, step: Shift) -> Any:
        return kept(bets, pulse, tail._replace(effect=0.0), step)

    return is_over


def _by_themselves(bets: Any, shift: Shift, *_: Any) -> tuple[float, float]:
    """Both bounds are those of the effect, whatever the verdict says."""
    half = half_width(shift.error, shift.freedom, 0.05 / 28, "anytime", bets.precision)
    return math.expm1(shift.effect - half), math.expm1(shift.effect + half)


MISTAKES = (
    Mistake(
        "a rate of evidence that calm days have",
        test_past.test_no_rate_is_stated_below_28_days,
        replaced(words, "_FEWEST", 0.0),
    ),
    Mistake(
        "days of a change that is over stay",
        with_its_cases(
            test_past.test_two_bad_weeks_that_are_over_are_said_as_past_and_are_no_reference
        ),
        replaced(shifts.DailySums, "without", lambda self, _: self),
    ),
    Mistake(
        "a fall is over although half of it remains",
        with_its_cases(test_past.test_a_fall_of_which_half_may_remain_is_not_over),
        around(changes._Bets, "_is_over", _without_the_tail),
    ),
    Mistake(
        "bounds beside the verdict",
        test_golden.test_the_near_bound_is_that_of_the_verdict,
        replaced(changes._Bets, "bounds", _by_themselves),
    ),
    Mistake(
        "days move as those after the change do",
        test_golden.test_no_drop,
        around(Shifts, "movement", _of_all_days),
    ),
    Mistake("days do not move", test_golden.test_no_drop, around(Shifts, "movement", _still)),
    Mistake(
        "yesterday for a week ago",
        test_golden.test_a_drop_by_users_and_days,
        replaced(shifts, "WEEK", 1),
    ),
    Mistake(
        "a reference after the change began",
        test_golden.test_a_drop_by_users_and_days,
        around(shifts._ShiftArm, "references", _with_days_after),
    ),
    Mistake(
        "days that weigh alike",
        test_golden.test_a_drop_by_users_and_days,
        around(shifts, "_weights", _unweighted),
    ),
    Mistake(
        "a list as the unit",
        test_golden.test_a_drop_by_users_alone,
        around(shifts, "_shifts", _by_lists),
    ),
    Mistake(
        "users of two slices as if they were others",
        test_golden.test_users_of_two_slices_are_left_out_of_both,
        around(shifts, "_shifts", _independent),
    ),
    Mistake(
        "a p-value of one look as evidence",
        test_golden.test_the_evidence_of_a_verdict_is_the_sum,
        replaced(changes, "log_evidence", lambda z, *_: -log_normal_tail(z)),
    ),
    Mistake(
        "an empty day as a day without a click",
        test_verdicts.test_empty_days_are_silent_and_lists_tell,
        around(shifts.DailySums, "of", _zero_if_empty),
    ),
    Mistake(
        "evidence that is not divided by the series",
        test_verdicts.test_evidence_is_divided_by_the_number_of_series,
        around(changes._Bets, "evidence", _undivided),
    ),
    Mistake(
        "higher is better for an error",
        test_verdicts.test_a_rise_is_better_and_lower_is_better_swaps_them,
        around(changes, "_tested", _higher_is_better),
    ),
    Mistake(
        "the audience in the verdict",
        test_verdicts.test_an_audience_that_changes_is_no_fall,
        around(changes, "_shifts_of", _raw),
    ),
    Mistake(
        "a rollout begins anew",
        test_verdicts.test_a_rollout_is_a_suspect_and_no_amnesty,
        around(changes._Bets, "evidence", _reset_by_rollouts),
    ),
    Mistake(
        "the open day counts",
        test_trust.test_the_day_that_is_open_is_not_closed,
        around(watched, "closed_day", lambda kept: lambda *given: (kept(*given) or 0) + 1),
    ),
    Mistake(
        "the verdict of one replica of several",
        test_trust.test_a_process_that_counts_some_partitions_has_no_evidence_to_alarm_with,
        replaced(ChangesReport, "untrusted", lambda self, _trouble: self),
    ),
)
