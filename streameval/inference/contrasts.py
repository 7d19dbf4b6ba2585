"""Contrasts of two arms over days: their means, a jackknife over user groups, and its limits.

Each day is compared with itself. A day weighs N_A N_B / (N_A + N_B), its information about the
difference, in both arms alike; so a growing treatment does not mix with changes over time. A group
is left out of both arms at once, and the days are reweighted: a day that only one group of an
arm has is left out with it, so that a thin arm varies as its users do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.inference.interval_formulas import FEWEST_GROUPS, Estimate, effective_groups
from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import GroupSums

MOST_SKEWED: Final = 0.35
"""Largest squared skewness of a difference for a verdict: above it, one side is claimed too often
by Student's distribution."""

_NOISE: Final = 2.0
"""Standard errors of a kurtosis that are taken for chance."""

_Total: TypeAlias = Callable[[FloatArray], FloatArray]
"""The sum over days, or the sum up to each day: shape (days, n) to (1 or days, n)."""


Basis: TypeAlias = Literal["lift", "difference", "roots"]
"""What a contrast can be tested by: the lift and the difference; the difference alone; or, of an
arm whose values are all 0, the difference of square roots."""


class Contrast(NamedTuple):
    """Two arms on the days that both have.

    Attributes:
        by_value: effective number of groups minus 1 if a group counts by its share of the values,
            as far as chance explains the shares; the smaller of both arms.
        skewness: squared skewness of the difference if both arms have the tail of the larger one.
        scale: variance of the treatment's mean by that of control's, for lists that vary alike.
        is_signed: whether any group sum is below 0, so that a mean near 0 is not a rare event.
    """

    control: Estimate
    treatment: Estimate
    by_value: float
    skewness: float
    scale: float = 1.0
    is_signed: bool = False

    def with_values(self, control: float | None, treatment: float | None) -> Contrast:
        """The contrast with the exact values of both arms, where they are known."""
        if control is None or treatment is None or min(control, treatment) <= 0:
            return self
        return self._replace(
            control=self.control._replace(value=control),
            treatment=self.treatment._replace(value=treatment),
        )

    @property
    def groups(self) -> float:
        """Degrees of freedom: those of the smaller arm."""
        return min(self.control.groups, self.treatment.groups)

    @property
    def is_skewed(self) -> bool:
        """True if a few large values make the difference too skewed for a verdict."""
        return self.skewness > MOST_SKEWED

    @property
    def shortfall(self) -> float:
        """Factor by which the smaller arm needs more users; at most 1 if it has enough."""
        groups = self.groups if self.is_signed else min(self.groups, self.by_value)
        effective = max(groups + 1.0, sys.float_info.min)
        return max((FEWEST_GROUPS + 1) / effective, self.skewness / MOST_SKEWED)

    @property
    def is_usable(self) -> bool:
        """True if there are enough users for a lift, and both values are surely above 0."""
        arms = self.control, self.treatment
        return (
            self.shortfall <= 1
            and min(arm.value for arm in arms) > 0
            and (not self.is_signed or all(arm.is_usable for arm in arms))
        )

    @property
    def basis(self) -> Basis | None:
        """Basis of a comparison of the arms; None with too few users, or nothing to compare."""
        if self.is_usable:
            return "lift"
        if self.shortfall > 1:
            return None
        if self.is_signed:
            return "difference"
        return "roots" if max(self.control.value, self.treatment.value) > 0 else None

    def root_effect(self, limit: float = 0.0) -> tuple[float, float]:
        """The difference of the square roots of the means, one of which is 0, and its error.

        The arm without a value has no variance of its own: it has the one that the other arm
        predicts, for the mean of both if they are alike. `limit`: lift to count from.
        """
        lost = self.treatment.value <= 0
        arm = self.control if lost else self.treatment
        value = (1.0 + limit) * arm.value if lost else arm.value
        # Variance of the mean that is 0 by that of the other, for as many clicks.
        ratio = self.scale if lost else 1.0 / self.scale
        predicted = arm.relative_variance * ratio
        pooled = value * ratio / (1.0 + ratio)
        error = math.sqrt((arm.relative_variance * value + predicted * pooled) / 4.0)
        return math.copysign(math.sqrt(value), -lost or 1.0), error


def contrasts(
    control: GroupSums, treatment: GroupSums, *, cumulative: bool = False
) -> list[Contrast]:
    """The contrast over all days; `cumulative`: over the first day, the first two days, and so on.

    Both arms have the same days, and lists on each.

    Example:
        >>> lists = np.eye(20, 32, dtype=np.int64)
        >>> one, other = (lists * (1.0 + np.arange(20) % each)[:, None] for each in (2, 3))
        >>> days = np.arange(20)
        >>> (found,) = contrasts(GroupSums(days, one, lists), GroupSums(days, other, lists))
        >>> found.control.value, found.treatment.value, f"{found.groups:.0f} groups"
        (1.5, 1.95, '19 groups')
    """
    total = _running if cumulative else _sum_days
    values = control.numerators, treatment.numerators
    lists = [sums.denominators.astype(np.float64) for sums in (control, treatment)]
    # By day: the sums over all groups, and those without each group.
    all_values = [column.sum(axis=1, keepdims=True) for column in values]
    all_lists = [column.sum(axis=1, keepdims=True) for column in lists]
    parts, weight, means = _weigh(all_values, all_lists, total)
    _, _, without = _weigh(
        [of_all - column for of_all, column in zip(all_values, values, strict=True)],
        [of_all - column for of_all, column in zip(all_lists, lists, strict=True)],
        total,
    )
    arms, estimates = [], []
    for arm, (part, mean) in enumerate(zip(parts, means, strict=True)):
        residuals = values[arm] - all_values[arm] / all_lists[arm] * lists[arm]
        spread = _Spread(
            mean,
            influences=mean - without[arm],
            shares=total(lists[arm] * part) / weight,
            residuals=total(residuals * part) / weight,
            scale=(total(all_lists[arm] * part**2) / weight**2)[:, 0],
        )
        groups = 1.0 / np.square(spread.shares).sum(axis=1) - 1.0
        rows = zip(mean[:, 0].tolist(), spread.influences, groups.tolist(), strict=True)
        arms.append(spread)
        estimates.append([Estimate(*row, abs(row[0])) for row in rows])
    by_value, skewness = _by_value(*arms).tolist(), _skewness(*arms).tolist()
    scales = (arms[1].scale / arms[0].scale).tolist()
    signed = [any(bool((column < 0).any()) for column in values)] * len(scales)
    compared: zip[Any] = zip(*estimates, by_value, skewness, scales, signed, strict=True)
    return [Contrast(*row) for row in compared]


def _weigh(
    values: Sequence[FloatArray], lists: Sequence[FloatArray], total: _Total
) -> tuple[Sequence[FloatArray], FloatArray, Sequence[FloatArray]]:
    """The weight of a list in each arm by day, that of the days together, and each arm's mean."""
    both = lists[0] + lists[1]
    both = np.where(both > 0, both, 1.0)
    # A day weighs N_A N_B / (N_A + N_B), so a list of A weighs N_B / (N_A + N_B).
    parts = lists[1] / both, lists[0] / both
    weight = total(lists[0] * lists[1] / both)
    # Without its only group, an experiment has no day.
    weight[weight <= 0] = 1.0
    pairs = zip(values, parts, strict=True)
    return parts, weight, [total(column * part) / weight for column, part in pairs]


class _Spread(NamedTuple):
    """Variation of an arm between groups, after all days or after each.

    Attributes:
        mean: of the days; shape (1 or days, 1).
        influences: minus the change of the mean without a group.
        shares: share of a group in the weighted lists.
        residuals: difference of a group's values from those of the days' means.
        scale: variance of the mean of the days, for lists that vary by 1; shape (1 or days,).
    """

    mean: FloatArray
    influences: FloatArray
    shares: FloatArray
    residuals: FloatArray
    scale: FloatArray


def _by_value(first: _Spread, second: _Spread) -> FloatArray:
    """`Contrast.by_value`.

    An arm's relative variance is also predicted from that of the other arm: an arm whose values
    are few because they fell has enough users, and one whose values are few by chance has not.
    """
    width = first.influences.shape[1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variances_of_arms = [
            np.nan_to_num(
                (width - 1) / width * np.square(arm.influences / arm.mean).sum(axis=1), nan=math.inf
            )
            for arm in (first, second)
        ]
        ratio = second.scale / first.scale
        predicted = variances_of_arms[1] / ratio, variances_of_arms[0] * ratio
    smaller: FloatArray = np.minimum(
        *(
            effective_groups(np.square(arm.shares).sum(axis=1), *variances)
            for arm, *variances in zip((first, second), variances_of_arms, predicted, strict=True)
        )
    )
    return smaller


def _skewness(first: _Spread, second: _Spread) -> FloatArray:
    """`Contrast.skewness`, from the kurtosis of the larger arm.

    A sum of n values has a skewness of their own / sqrt(n) and an excess kurtosis of their own / n;
    squared skewness is at most the excess. So an arm of a variance r times as large has r times
    the excess, and in the difference of equal arms the skewness of both cancels.
    """
    larger = (first.scale <= second.scale)[:, None]
    residuals = np.where(larger, first.residuals, second.residuals)
    shares = np.where(larger, first.shares, second.shares)
    ratio = second.scale / first.scale
    ratio = np.maximum(ratio, 1.0 / ratio)
    return _excess(residuals, shares) * (ratio - 1.0) ** 2 / (ratio + 1.0)


def _excess(residuals: FloatArray, shares: FloatArray) -> FloatArray:
    """Excess kurtosis of a sum over groups beyond chance, at least 0.

    A group with many lists has large residuals of either sign, which is not a tail: those of more
    lists than the mean are divided by how many times as many it has.
    """
    groups = (shares > 0).sum(axis=1)
    residuals = residuals / np.maximum(shares * groups[:, None], 1.0)
    residuals /= np.maximum(np.abs(residuals).max(axis=1, keepdims=True), sys.float_info.min)
    squares = np.square(residuals)
    spread = np.maximum(np.square(squares.sum(axis=1)), sys.float_info.min)
    chance = 3.0 / (groups + 2.0) + _NOISE * np.sqrt(24.0 / groups) / groups
    excess: FloatArray = np.maximum(np.square(squares).sum(axis=1) / spread - chance, 0.0)
    return excess


def _sum_days(values: FloatArray) -> FloatArray:
    # One column would be summed in pairs; rows are added in the order of the running sums.
    if values.shape[1] == 1:
        return _running(values)[-1:]
    sums: FloatArray = np.add.reduce(values, axis=0, keepdims=True)
    return sums


def _running(values: FloatArray) -> FloatArray:
    # Row by row: a cumulative sum over the first axis takes six times as long.
    sums = values.copy()
    for day in range(1, len(sums)):
        sums[day] += sums[day - 1]
    return sums
