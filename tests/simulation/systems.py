"""What is tried: the package's own comparison, and mistakes that the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from streameval.analyses.experiments.comparison import Comparison
from streameval.analyses.experiments.course import compare_days, course_of
from streameval.inference.interval_formulas import normal_quantile, student_reach
from streameval.statistics.intervals import GroupSums, Method
from tests.comparing import compare_sums

Compare = Callable[[GroupSums, GroupSums, Method, float], Comparison]


def right(control: GroupSums, treatment: GroupSums, method: Method, precision: float) -> Comparison:
    """As the package compares."""
    return compare_sums(control, treatment, method=method, precision=precision)


class System(NamedTuple):
    """Something that compares.

    Attributes:
        compare: two slices.
        by_user: whether all lists of a user are in one group.
    """

    compare: Compare = right
    by_user: bool = True

    def alarms(self, control: GroupSums, treatment: GroupSums) -> bool:
        """Whether any of daily looks shows a difference; both arms have the same days."""
        if self.compare is right:
            # The evidence is 20 where the bounds begin to exclude 0.
            return any(day.evidence > 20 for day in compare_days(course_of(control, treatment)))
        days = range(1, len(control.days) + 1)
        arms = ((control.rows(slice(day)), treatment.rows(slice(day))) for day in days)
        return any(self.compare(*pair, "anytime", 0.02).excludes_zero for pair in arms)


def _fixed_as_anytime(
    control: GroupSums, treatment: GroupSums, _method: Method, precision: float
) -> Comparison:
    return right(control, treatment, "fixed", precision)


def _too_wide(
    control: GroupSums, treatment: GroupSums, method: Method, precision: float
) -> Comparison:
    return _stretched(right(control, treatment, method, precision), 5.0)


def _unpaired(
    control: GroupSums, treatment: GroupSums, method: Method, precision: float
) -> Comparison:
    """Another group is left out of the treatment than of control."""
    days, above, below = treatment
    moved = GroupSums(days, np.roll(above, 1, axis=1), np.roll(below, 1, axis=1))
    return right(control, moved, method, precision)


def _sixteen_groups(
    control: GroupSums, treatment: GroupSums, method: Method, precision: float
) -> Comparison:
    """With the normal's quantile, too."""
    comparison = right(_folded(control, 16), _folded(treatment, 16), method, precision)
    z = normal_quantile(0.025)
    return (
        _stretched(comparison, z / student_reach(z, comparison.groups))
        if comparison.groups > 1
        else comparison
    )


def _folded(sums: GroupSums, groups: int) -> GroupSums:
    days, above, below = sums
    shape = len(days), -1, groups
    return GroupSums(days, above.reshape(shape).sum(axis=1), below.reshape(shape).sum(axis=1))


def _stretched(comparison: Comparison, factor: float) -> Comparison:
    """The same with wider bounds."""
    if comparison.low is None or comparison.high is None or comparison.difference is None:
        return comparison
    if comparison.lift_low is None or comparison.lift_high is None or comparison.lift is None:
        return comparison
    lift = 1.0 + comparison.lift
    return msgspec.structs.replace(
        comparison,
        low=comparison.difference + factor * (comparison.low - comparison.difference),
        high=comparison.difference + factor * (comparison.high - comparison.difference),
        lift_low=lift * ((1.0 + comparison.lift_low) / lift) ** factor - 1.0,
        lift_high=lift * ((1.0 + comparison.lift_high) / lift) ** factor - 1.0,
    )


MISTAKES: Mapping[str, System] = {
    "fixed_as_anytime": System(compare=_fixed_as_anytime),
    "list_as_unit": System(by_user=False),
    "too_wide": System(compare=_too_wide),
    "unpaired": System(compare=_unpaired),
    "sixteen_groups": System(compare=_sixteen_groups),
}
