"""Values adjusted by pre-experiment data, whose intervals are narrower (CUPED).

Most differences between users were known before the experiment began. A covariate is one number of
each user from that time: clicks and lists, or the sums of a metric that decides. Its difference
between the arms is chance, because users were assigned at random; the part that the metric shares
with it is subtracted: control variates on the jackknife over user groups (Deng et al., 2013; Lin,
2013). The correction of the error for estimated weights is that of Lavenberg and Welch (1981).

All users of an arm are compared at once, whatever day they came on, as far as the same shares
assigned them: many may have had control's label before the experiment began. A covariate counts
each user once: one that is averaged over the lists of the experiment would depend on how often they
come, which a treatment may change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from streameval.accumulator.kinds.experiment import NEVER, PrePeriod
from streameval.analyses.experiments.comparison import (
    Comparison,
    Settings,
    by_cell,
    contrast_of,
    judge,
    on_common_days,
)
from streameval.analyses.experiments.ramp import assignment_rows
from streameval.analyses.experiments.sample_ratio import ALARM, TreatedBefore
from streameval.inference.contrasts import Contrast, contrasts
from streameval.inference.days import number_of_day
from streameval.inference.interval_formulas import FEWEST_GROUPS, pool_days
from streameval.inference.words import percent
from streameval.statistics.arrays import FloatArray, IntArray, distinct
from streameval.statistics.intervals import UNIT, Audience, GroupSums
from streameval.statistics.user_sums import UserTotals
from streameval.statistics.users import HashArray, user_groups

CLICKS: Final = "ctr"
LISTS: Final = "hit_rate"
"""Metrics whose numerator is every click, and whose denominator is every list."""

_RANK: Final = 1e-10
"""Relative size from which on a combination of covariates is not taken for rounding."""


class Before(NamedTuple):
    """Sums of users in the days before an experiment, whatever their variant.

    Attributes:
        totals: text of a metric -> its sums by user; those of CLICKS and LISTS always.
        anonymous: share of the lists of these days without a user id.
    """

    period: PrePeriod
    totals: Mapping[str, UserTotals]
    anonymous: float


class Covariates(NamedTuple):
    """Covariates of the users of two arms, by user group.

    Attributes:
        pairs: for each covariate, its sums over users in control and in the treatment, with a row
            for each value of a segment within which they are compared.
        known: share of these users who came before.
        groups: effective number of user groups minus 1, of the known users in the smaller arm.
        by_first_day: the same sums with rows for each first day; see `by_cell`. None if users had
            the label before the experiment, so that the day on which they came into it is unknown,
            and on a ramp.
    """

    pairs: Sequence[tuple[GroupSums, GroupSums]]
    known: float
    groups: float
    by_first_day: Sequence[tuple[GroupSums, GroupSums]] | None

    def adjust(self, contrast: Contrast) -> Contrast:
        """The contrast over all days, adjusted; itself if there are too few users."""
        return self._adjust(contrast, self.pairs)

    def adjust_daily(self, daily: Sequence[Contrast], days: IntArray, cells: int) -> list[Contrast]:
        """The contrasts up to each day, adjusted by the users who had come up to it.

        By all users on every day if the first days are unknown. `cells`: rows of a day; see
        `by_cell`.
        """
        adjusted = []
        for contrast, day in zip(daily, days.tolist(), strict=True):
            pairs = self.pairs
            # All users count at the end, also those who came first on a day that one arm lacks.
            if self.by_first_day is not None and day < days[-1]:
                pairs = [
                    on_common_days(*(_up_to(arm, day, cells) for arm in pair))
                    for pair in self.by_first_day
                ]
            adjusted.append(self._adjust(contrast, pairs))
        return adjusted

    def _adjust(self, contrast: Contrast, pairs: Sequence[tuple[GroupSums, GroupSums]]) -> Contrast:
        enough = FEWEST_GROUPS * len(pairs)
        is_enough = contrast.is_usable and min(contrast.groups, self.groups) >= enough
        if not (is_enough and pairs[0][0].days.size):
            return contrast
        users = [float(arm.denominators.sum()) for arm in pairs[0]]
        covariates = [contrasts(*pair)[0] for pair in pairs]
        return adjust(contrast, covariates, users[1] / sum(users))


def _up_to(sums: GroupSums, day: int, cells: int) -> GroupSums:
    """The sums by first day over the days up to one, with a row for each cell."""
    begun = sums.rows(sums.days < (day + 1) * cells)
    rows, row = np.unique(begun.days % cells, return_inverse=True)
    values = np.zeros((rows.size, begun.numerators.shape[1]))
    users = np.zeros(values.shape, np.int64)
    np.add.at(values, row, begun.numerators)
    np.add.at(users, row, begun.denominators)
    return GroupSums(rows, values, users)


def adjust(contrast: Contrast, covariates: Sequence[Contrast], share: float) -> Contrast:
    """The contrast with the part of its difference removed that covariates explain.

    `covariates`: the contrast of each. `share`: of the users, those in the treatment.
    """
    control, treatment, *_ = contrast
    influences = np.array(
        [part.treatment.influences - part.control.influences for part in covariates]
    )
    differences = np.array([part.treatment.value - part.control.value for part in covariates])
    inverse, rank = _inverse(influences)
    weights = inverse @ influences @ (treatment.influences - control.influences)
    groups, width = contrast.groups, influences.shape[1]
    left = groups - rank
    surprise = differences @ inverse @ differences * width / (width - 1)
    factor = math.sqrt((1.0 + surprise / left) * groups / left)
    explained, shift = weights @ influences, float(weights @ differences)
    return contrast._replace(
        control=control._replace(
            value=control.value + share * shift,
            influences=factor * (control.influences + share * explained),
            groups=left,
        ),
        treatment=treatment._replace(
            value=treatment.value - (1.0 - share) * shift,
            influences=factor * (treatment.influences - (1.0 - share) * explained),
            groups=left,
        ),
    )


def _inverse(influences: FloatArray) -> tuple[FloatArray, int]:
    """The pseudo-inverse of the products of covariates' influences, and its rank."""
    # In units of their errors, so that a covariate of small numbers is not taken for rounding.
    scales = np.sqrt(np.square(influences).sum(axis=1))
    scales[scales == 0] = 1.0
    scaled = influences / scales[:, None]
    sizes, axes = np.linalg.eigh(scaled @ scaled.T)
    apart = sizes > _RANK * sizes.max()
    inverse = (axes[:, apart] / sizes[apart]) @ axes[:, apart].T
    return inverse / np.outer(scales, scales), int(apart.sum())


def share_left(sums: GroupSums, audience: Audience) -> float | None:
    """The share of users that is enough if values are adjusted, as of half of the days counted.

    The values of the second half are adjusted by what users did in the first. At most 1; None with
    fewer than two days, or too few users.
    """
    if sums.days.size < 2:
        return None
    middle = int(sums.days[sums.days.size // 2])
    early, late = sums.days < middle, sums.days >= middle
    groups = sums.numerators.shape[1]
    first_half = user_groups(audience.hashes[audience.first < middle], groups)
    users = np.bincount(first_half, minlength=groups).astype(np.float64)[None]
    day = sums.days[:1]
    columns = (sums.numerators, sums.denominators.astype(np.float64))
    of_users = [
        pool_days(GroupSums(day, column[early].sum(axis=0)[None], users)) for column in columns
    ]
    value = pool_days(sums.rows(late))
    influences = np.array([estimate.influences for estimate in of_users])
    if not value.is_usable or min(value.groups, of_users[0].groups) < FEWEST_GROUPS * len(
        influences
    ):
        return None
    inverse, rank = _inverse(influences)
    rest = value.influences - influences.T @ inverse @ influences @ value.influences
    share = np.square(rest).sum() / np.square(value.influences).sum()
    return min(float(share * value.groups / (value.groups - rank)), 1.0)


def narrower(raw: Comparison, adjusted: Comparison) -> float | None:
    """The share of the width of the lift's interval that is saved; None without intervals."""
    widths = [
        math.log1p(row.lift_high) - math.log1p(row.lift_low)
        for row in (raw, adjusted)
        if row.lift_low is not None and row.lift_high is not None
    ]
    return 1.0 - widths[1] / widths[0] if len(widths) == 2 and widths[0] > 0 else None


class UsersBefore:
    """The users of two arms with their pre-experiment data.

    Users count whose hashes are below the smallest threshold of the three samples; the others are
    in the difference of the metric only, and the weights shrink by themselves.

    `arms`: users of control and of the treatment; several for the values of a segment within which
    they are compared. `groups`: number of user groups. `changes`: days on which the shares of a
    ramp change; users are then compared with those whom the same shares assigned.
    """

    def __init__(
        self,
        before: Before,
        arms: Sequence[tuple[Audience, Audience]],
        groups: int,
        changes: Sequence[int],
    ) -> None:
        self._before, self._groups, self._changes = before, groups, changes
        hashes = before.totals[LISTS].hashes.view(np.uint64)
        self._order = np.argsort(hashes)
        of_sample = int(2**64 * before.totals[LISTS].share)
        threshold = min(of_sample, *(arm.threshold for of_value in arms for arm in of_value))
        self._arms = [
            [_arm_of(arm.below(threshold), hashes[self._order], groups) for arm in of_arm]
            for of_arm in zip(*arms, strict=True)
        ]
        self._covariates_by_metric: dict[tuple[str, str], Covariates | None] = {}

    def covariates(self, metric: str) -> Covariates | None:
        """The covariates of a metric; None if no user of one arm is known from before."""
        key = (metric, metric) if metric in self._before.totals else (CLICKS, LISTS)
        if key not in self._covariates_by_metric:
            self._covariates_by_metric[key] = self._covariates(*key)
        return self._covariates_by_metric[key]

    def _covariates(self, above: str, below: str) -> Covariates | None:
        columns = self._values(above), self._counts(below)
        pairs = [self._pair(column) for column in columns]
        every = [np.concatenate([part.group for part in arm]) for arm in self._arms]
        returning = [
            np.concatenate([part.group[part.row < self._order.size] for part in arm])
            for arm in self._arms
        ]
        if not (pairs[0][0].days.size and all(users.size for users in returning)):
            return None
        by_group = [np.bincount(users, minlength=self._groups) for users in returning]
        first = min(int(part.first.min(initial=NEVER)) for arm in self._arms for part in arm)
        has_first_days = first >= number_of_day(self._before.period.since) and not self._changes
        return Covariates(
            pairs,
            known=sum(users.size for users in returning) / sum(users.size for users in every),
            groups=min(float(users.sum() ** 2 / (users**2).sum()) - 1.0 for users in by_group),
            by_first_day=[self._by_first_day(column) for column in columns]
            if has_first_days
            else None,
        )

    def distrust_reasons(
        self, names: tuple[str, str], settings: Settings, treated: TreatedBefore | None
    ) -> Iterator[str]:
        """Reasons not to trust the arms: users who differed before the experiment began.

        `names`: of control and the treatment. `treated`: if they were treated before.
        """
        since = self._before.period.since
        cause = "they were not assigned at random, or `since` is too late"
        if treated is not None:
            cause = f"`since` is too late: {treated.text(*names, 'it')}"
        lists = self._counts(LISTS)
        per_list = [
            GroupSums(clicks.days, clicks.numerators, of_arm.numerators)
            for clicks, of_arm in zip(
                self._pair(self._values(CLICKS)), self._pair(lists), strict=True
            )
        ]
        # Not the lists: of a few users with very many, a small arm has fewer or more by chance.
        visits = self._pair(np.floor(np.log2(1.0 + lists)))
        for what, (control, treatment) in (("clicks per list", per_list), ("visits", visits)):
            row = judge(contrast_of(control, treatment), settings)
            if row.lift is not None and row.evidence >= ALARM:
                side = "higher" if row.lift > 0 else "lower"
                yield (
                    f"{what} of {names[1]}'s users were {percent(abs(row.lift))} {side} than of "
                    f"{names[0]}'s before {since}: {cause}"
                )

    def _values(self, metric: str) -> FloatArray:
        return np.asarray(self._before.totals[metric].numerators[self._order] * UNIT, np.float64)

    def _counts(self, metric: str) -> FloatArray:
        return np.asarray(self._before.totals[metric].denominators[self._order], np.float64)

    def _pair(self, column: FloatArray) -> tuple[GroupSums, GroupSums]:
        """A column of those who came before, over the users of each arm."""
        first, other = (by_cell([self._by_row(part, column) for part in arm]) for arm in self._arms)
        return on_common_days(first, other)

    def _by_row(self, part: _ArmUsers, column: FloatArray) -> GroupSums:
        return _sums_of(part, column, assignment_rows(part.first, self._changes), self._groups)

    def _by_first_day(self, column: FloatArray) -> tuple[GroupSums, GroupSums]:
        """A column by the first day of the users of each arm."""
        first, other = (
            by_cell([_sums_of(part, column, part.first, self._groups) for part in arm])
            for arm in self._arms
        )
        return first, other


class _ArmUsers(NamedTuple):
    """The users of an arm; shape (users,) each.

    Attributes:
        first: first day.
        group: user group.
        row: index among those who came before; their number for users who did not.
    """

    first: IntArray
    group: IntArray
    row: IntArray


def _arm_of(audience: Audience, before: HashArray, groups: int) -> _ArmUsers:
    """Users of an arm. `before`: hashes of those who came before, ascending."""
    row = np.searchsorted(before, audience.hashes)
    came_before = row < before.size
    came_before[came_before] = before[row[came_before]] == audience.hashes[came_before]
    group = user_groups(audience.hashes, groups)
    return _ArmUsers(audience.first, group, np.where(came_before, row, before.size))


def _sums_of(arm: _ArmUsers, column: FloatArray, rows: IntArray, groups: int) -> GroupSums:
    """A column over the users of each row and user group; 0 for those who did not come before."""
    distinct_rows = distinct(rows)
    code = np.searchsorted(distinct_rows, rows) * groups + arm.group
    size = distinct_rows.size * groups
    values = np.bincount(code, np.append(column, 0.0)[arm.row], size).astype(np.float64)
    users = np.bincount(code, minlength=size).astype(np.int64)
    return GroupSums(distinct_rows, values.reshape(-1, groups), users.reshape(-1, groups))
