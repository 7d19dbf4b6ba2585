"""Changes that are seen too often, too late or of the wrong thing; their tests must notice."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.accumulator import changes, shifts
from streameval.accumulator.change_report import ChangesReport
from streameval.accumulator.shifts import Movement, Shifts
from streameval.engine import changes as watched
from tests.changes import test_golden, test_trust, test_verdicts
from tests.changes.worlds import together
from tests.mutation.mistake import Mistake, around, replaced


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


MISTAKES = (
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
