"""Shift of a mean since a day: against earlier weeks, and against other slices.

Each day is compared with the latest days of its weekday before the shift. Its error has two parts:
users differ, which a jackknife over user groups shows, and days vary, which the differences from
week to week show. The input is dense: a row for each calendar day, a column for each stratum.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple, Self

import numpy as np

from streameval.inference.interval_formulas import FEWEST_GROUPS, NOISE, effective_groups
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.groups import MOST_DAYS
from streameval.statistics.intervals import GroupSums

LATEST_DAYS: Final = 28
"""Days on which a change may have begun; the last of them is the day of the look."""

FEWEST_WEEKLY_CHANGES: Final = 14
"""Fewest differences from week to week from which the variation of days is estimated."""

WEEK: Final = 7

_LONGEST: Final = 126
"""Calendar days that are read: the days stored, and a few without lists."""

_NORMAL: Final = 1.4826
"""Standard deviations per median absolute deviation, of a normal distribution."""

_EFFICIENCY: Final = 0.37
"""Degrees of freedom of a median absolute deviation, per value."""

_LARGEST_LOG: Final = 700.0
"""Largest logarithm whose exponential is finite."""

_MOST_ALIKE: Final = 0.8
"""Largest autocorrelation of days that is believed."""


class DailySums(NamedTuple):
    """The sums of a slice by calendar day; a day without lists has zeros.

    Attributes:
        first: the first day, since 1970-01-01.
        values: numerators; shape (days, strata, groups).
        lists: denominators, of the same shape.
    """

    first: int
    values: FloatArray
    lists: FloatArray

    @classmethod
    def of(cls, strata: Sequence[GroupSums], first: int, until: int) -> Self:
        """The sums of some strata from a day to another, inclusive."""
        shape = until - first + 1, len(strata), strata[0].numerators.shape[1]
        values, lists = np.zeros(shape), np.zeros(shape)
        for index, sums in enumerate(strata):
            selected = (sums.days >= first) & (sums.days <= until)
            values[sums.days[selected] - first, index] = sums.numerators[selected]
            lists[sums.days[selected] - first, index] = sums.denominators[selected]
        return cls(first, values, lists)

    def without(self, days: Iterable[int]) -> DailySums:
        """The sums without those of some days, which then count nowhere."""
        indices = [day - self.first for day in days]
        selected = [index for index in indices if 0 <= index < len(self.values)]
        values, lists = self.values.copy(), self.lists.copy()
        values[selected] = lists[selected] = 0.0
        return DailySums(self.first, values, lists)


def first_day(strata: Iterable[GroupSums], until: int) -> int | None:
    """The first day of these sums that is one day; None without lists up to `until`.

    The oldest of `MOST_DAYS` days may be the sum of all days before it, so it is left out.
    """
    firsts = [until - _LONGEST + 1]
    oldest = []
    for sums in strata:
        if sums.days.size >= MOST_DAYS:
            firsts.append(int(sums.days[1]))
        oldest += sums.days[:1].tolist()
    first = max(*firsts, min(oldest, default=until + 1))
    return first if first <= until else None


class Shift(NamedTuple):
    """The shift of a mean since a day.

    Attributes:
        day: its first day, since 1970-01-01.
        effect: ln(mean since then / mean expected); -1, the relative difference, after a fall to 0.
        error: standard error of the effect.
        lift_error: standard error of the lift; after a fall to 0, as if a single value were left.
        freedom: degrees of freedom of the error; 0 for too few users, or a mean of 0 before.
        fell: whether nothing is left of the mean.
    """

    day: int
    effect: float
    error: float
    lift_error: float
    freedom: float
    fell: bool

    @property
    def lift(self) -> float:
        """The relative change, from -1."""
        return self.effect if self.fell else math.expm1(min(self.effect, _LARGEST_LOG))

    @property
    def is_usable(self) -> bool:
        """True if there are enough users, whose values vary."""
        return self.freedom > 0 and self.error > NOISE


class DayVariation(NamedTuple):
    """Variation of the days of a slice beyond what their users explain.

    Attributes:
        variance: of the logarithm of a day.
        freedom: degrees of freedom of the variance.
    """

    variance: float
    freedom: float


class DaySpan(NamedTuple):
    """The days of a shift, as indices; `stop` is exclusive, and references are from before."""

    before: int
    start: int
    stop: int


class Shifts:
    """The shifts of one slice, or of its difference from another one.

    `arms`: sums of the slice, and of the one that it is compared with, if any, of the same days and
    strata. `weeks`: days of a weekday that make up its reference. `accepted`: days since the epoch;
    no reference of a later day is before such a day.

    Attributes:
        first: the first day.
        days: number of calendar days.
        weekly_changes: logarithm of each day less that of a week before, less the same of the other
            slice; NaN if unknown.
    """

    def __init__(self, arms: Sequence[DailySums], weeks: int, accepted: Iterable[int] = ()) -> None:
        self._arms = [_ShiftArm(sums) for sums in arms]
        self._weeks = weeks
        self.first = arms[0].first
        self.days = len(arms[0].values)
        indices = sorted(day - self.first for day in accepted)
        self._breaks = [index for index in indices if 0 < index < self.days]
        self.weekly_changes, self._chance = self._from_week_to_week()

    @property
    def start(self) -> int:
        """The first of the latest days that has days before it to be compared with."""
        return max(self.days - LATEST_DAYS, *(index + 1 for index in self._breaks), 1)

    @property
    def is_long(self) -> bool:
        """True if there are enough days with lists, of whatever value."""
        lists = [arm.rows.lists.sum(axis=1) > 0 for arm in self._arms]
        some = np.logical_and.reduce([part[WEEK:-1] & part[: -WEEK - 1] for part in lists])
        return self.start < self.days and int(some.sum()) >= FEWEST_WEEKLY_CHANGES

    def latest(self) -> list[Shift]:
        """The shift since each of the latest days.

        A day is left out if too few days before it tell how days vary, or if no day since then has
        a reference.
        """
        spans = [DaySpan(index, index, self.days) for index in range(self.start, self.days)]
        return [shift for shift in self.between(spans) if shift is not None]

    def between(
        self, spans: Sequence[DaySpan], day_variation: DayVariation | None = None
    ) -> list[Shift | None]:
        """The shifts of some days; None for an unknown one.

        `day_variation`: of the days; by default estimated from the days before each span.
        """
        shifts: list[Shift | None] = [None] * len(spans)
        per_span = [day_variation or self.day_variation(span.before) for span in spans]
        variations = {index: part for index, part in enumerate(per_span) if part is not None}
        if not variations:
            return shifts
        some = [spans[index] for index in variations]
        befores = [span.before for span in some]
        begins = [
            max((index for index in self._breaks if index <= before), default=0)
            for before in befores
        ]
        references = [arm.references(begins, befores, self._weeks) for arm in self._arms]
        first = min(span.start for span in some)
        latest = [arm.rows.since(first) for arm in self._arms]
        weekdays = np.arange(first, self.days) % WEEK
        sizes = []
        for rows, reference in zip(latest, references, strict=True):
            sizes += [rows.lists[np.newaxis], reference.rows.lists[reference.row_of][:, weekdays]]
        weights = _weights(sizes)
        for row, span in enumerate(some):
            weights[row, : span.start - first] = weights[row, span.stop - first :] = 0.0
        total = weights.sum(axis=(1, 2), keepdims=True)
        weights /= np.where(total > 0, total, 1.0)
        by_row = [reference.by_row(weights, weekdays) for reference in references]
        means = [
            (rows.means(weights), reference.rows.means(summed))
            for rows, reference, summed in zip(latest, references, by_row, strict=True)
        ]
        squares = np.square(weights.sum(axis=2)).sum(axis=1)
        days = np.einsum("srv,rvd->sd", by_row[0], references[0].days)
        squares += np.square(days).sum(axis=1)
        by_days = squares * [part.variance for part in variations.values()]
        freedom = np.array([part.freedom for part in variations.values()])
        results = _shifts(means, by_days, freedom)
        for index, total_weight, shift in zip(
            variations, total[:, 0, 0].tolist(), results, strict=True
        ):
            if total_weight:
                shifts[index] = shift._replace(day=self.first + spans[index].start)
        return shifts

    def day_variation(self, before: int) -> DayVariation | None:
        """Variation of the days before an index; None if there are too few."""
        some = np.flatnonzero(np.isfinite(self.weekly_changes[:before]))
        if some.size < FEWEST_WEEKLY_CHANGES:
            return None
        weekly_changes = self.weekly_changes[some]
        residuals = weekly_changes - median(weekly_changes.tolist())
        spread = (_NORMAL * median(np.abs(residuals).tolist())) ** 2
        variance = max(0.0, spread - median(self._chance[some].tolist())) / 2.0
        follows = np.flatnonzero(some[1:] - some[:-1] == 1)
        total = float(np.square(residuals).sum())
        alike = 0.0
        if total:
            alike = float((residuals[follows] * residuals[follows + 1]).sum()) / total
        alike = min(max(alike, 0.0), _MOST_ALIKE)
        return DayVariation(variance * (1.0 + alike) / (1.0 - alike), _EFFICIENCY * some.size)

    def _from_week_to_week(self) -> tuple[FloatArray, FloatArray]:
        """The weekly change of each day, and its variance by users."""
        weekly_changes, chance = np.full(self.days, math.nan), np.full(self.days, math.nan)
        if self.days <= WEEK:
            return weekly_changes, chance
        pairs = [(arm.rows.since(WEEK), arm.rows.until(-WEEK)) for arm in self._arms]
        weights = _weights([half.lists for pair in pairs for half in pair])
        total = weights.sum(axis=1, keepdims=True)
        weights /= np.where(total > 0, total, math.nan)
        (change, apart), *others = (_change(weights, *pair) for pair in pairs)
        for other in others:
            change, apart = change - other[0], apart - other[1]
        weekly_changes[WEEK:], chance[WEEK:] = change, _variance(apart)
        for index in self._breaks:
            weekly_changes[index : index + WEEK] = math.nan
        return weekly_changes, chance


class _Means(NamedTuple):
    """Means by weights of rows and strata, one for each span.

    Attributes:
        value: shape (spans,).
        influences: for each group, minus the change of the mean if it is left out; (spans, groups).
        shares: share of each group in the weighted lists, of the same shape.
        scale: variance of the mean if lists vary by 1; shape (spans,).
    """

    value: FloatArray
    influences: FloatArray
    shares: FloatArray
    scale: FloatArray

    @property
    def log_influences(self) -> FloatArray:
        """The influences on the mean's logarithm; 0 if the mean is 0."""
        above = self.value[:, np.newaxis] > 0
        influences: FloatArray = np.where(above, self.influences, 0.0)
        influences /= np.where(above, self.value[:, np.newaxis], 1.0)
        return influences

    @property
    def is_usable(self) -> BoolArray:
        """True if there are enough users with a value, which is above 0."""
        concentration = np.square(self.shares).sum(axis=1)
        effective = effective_groups(concentration, _variance(self.log_influences), math.inf)
        usable: BoolArray = (self.value > 0) & (effective >= FEWEST_GROUPS)
        return usable


class _DayRows(NamedTuple):
    """Means by row and stratum, and how they vary between groups.

    Attributes:
        lists: of all groups; shape (rows, strata).
        rates: means, of the same shape; 0 without lists.
        influences: minus the change of a mean if a group is left out; shape (rows, strata, groups).
        shares: share of each group in the lists, of the same shape.
    """

    lists: FloatArray
    rates: FloatArray
    influences: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, values: FloatArray, lists: FloatArray) -> Self:
        totals = lists.sum(axis=2)
        some = np.maximum(totals, 1.0)
        rates = values.sum(axis=2) / some
        # The only group cannot be left out; its residual is 0.
        others = np.maximum(totals[:, :, np.newaxis] - lists, 1.0)
        influences = (values - rates[:, :, np.newaxis] * lists) / others
        return cls(totals, rates, influences, lists / some[:, :, np.newaxis])

    def since(self, first: int) -> _DayRows:
        return _DayRows(*(column[first:] for column in self))

    def until(self, stop: int) -> _DayRows:
        return _DayRows(*(column[:stop] for column in self))

    def means(self, weights: FloatArray) -> _Means:
        """The means by weights, which sum to 1; shape (spans, rows, strata)."""
        # Not a product of matrices, whose last bits depend on the library and its threads.
        return _Means(
            np.einsum("srv,rv->s", weights, self.rates),
            np.einsum("srv,rvg->sg", weights, self.influences),
            np.einsum("srv,rvg->sg", weights, self.shares),
            (np.square(weights) / np.maximum(self.lists, 1.0)).sum(axis=(1, 2)),
        )


class _References(NamedTuple):
    """The reference of each weekday for some spans: sums of a few days.

    Attributes:
        rows: the distinct references.
        days: share of each calendar day in the lists of a row; shape (rows, strata, days).
        row_of: the row of each span and weekday; shape (spans, weekdays).
    """

    rows: _DayRows
    days: FloatArray
    row_of: IntArray

    def by_row(self, weights: FloatArray, weekdays: IntArray) -> FloatArray:
        """The weights of days, added up by their reference; shape (spans, rows, strata)."""
        sums = np.zeros((len(weights), *self.rows.lists.shape))
        spans = np.arange(len(weights))[:, np.newaxis]
        np.add.at(sums, (spans, self.row_of[:, weekdays]), weights)
        return sums


class _ShiftArm:
    """A slice by calendar day, and its references."""

    def __init__(self, sums: DailySums) -> None:
        more = (0, 1), (0, 0), (0, 0)
        self._padded = np.pad(sums.values, more), np.pad(sums.lists, more)
        self.rows = _DayRows.of(sums.values, sums.lists)

    def references(self, begins: Sequence[int], befores: Sequence[int], weeks: int) -> _References:
        """References of each span, from days between two indices, the second exclusive."""
        some = np.flatnonzero(self.rows.lists.sum(axis=1) > 0).tolist()
        weekdays = [[day for day in some if day % WEEK == weekday] for weekday in range(WEEK)]
        rows: dict[tuple[int, ...], int] = {}
        index = np.zeros((len(begins), WEEK), np.int64)
        for span, (begin, before) in enumerate(zip(begins, befores, strict=True)):
            for weekday, days in enumerate(weekdays):
                stop = bisect_left(days, before)
                start = max(bisect_left(days, begin), stop - weeks)
                index[span, weekday] = rows.setdefault(tuple(days[start:stop]), len(rows))
        # The last day is empty, and stands for those that a reference lacks.
        members = np.full((len(rows), weeks), len(self.rows.lists))
        for row, summed in enumerate(rows):
            members[row, : len(summed)] = summed
        reference_rows = _DayRows.of(*(sums[members].sum(axis=1) for sums in self._padded))
        lists = np.pad(self.rows.lists, ((0, 1), (0, 0)))
        shares = np.zeros((*reference_rows.lists.shape, len(lists)))
        parts = lists[members] / np.maximum(reference_rows.lists, 1.0)[:, np.newaxis]
        shares[np.arange(len(rows))[:, np.newaxis], :, members] = parts
        return _References(reference_rows, shares[:, :, :-1], index)


def _weights(sizes: Sequence[FloatArray]) -> FloatArray:
    """1 / (sum of 1 / lists) over the cells that are compared; 0 if one is empty."""
    some, spread = sizes[0] > 0, 1.0 / np.maximum(sizes[0], 1.0)
    for size in sizes[1:]:
        some = some & (size > 0)
        spread = spread + 1.0 / np.maximum(size, 1.0)
    weights: FloatArray = np.where(some, 1.0 / spread, 0.0)
    return weights


def _change(
    weights: FloatArray, later: _DayRows, before: _DayRows
) -> tuple[FloatArray, FloatArray]:
    """The logarithm of each row over that of a week before, and its influences by group."""
    change, apart = np.zeros(len(weights)), np.zeros((len(weights), later.influences.shape[2]))
    for sign, rows in ((1.0, later), (-1.0, before)):
        means = (weights * rows.rates).sum(axis=1)
        means[means <= 0] = math.nan
        change += sign * np.log(means)
        influences = (weights[:, :, np.newaxis] * rows.influences).sum(axis=1)
        apart += sign * influences / means[:, np.newaxis]
    return change, apart


def _variance(influences: FloatArray) -> FloatArray:
    """The variance of the delete-one jackknife; groups are the last axis."""
    groups = influences.shape[-1]
    variance: FloatArray = (groups - 1) / groups * np.square(influences).sum(axis=-1)
    return variance


def _shifts(
    means: Sequence[tuple[_Means, _Means]], by_days: FloatArray, freedom: FloatArray
) -> Iterator[Shift]:
    """The shifts between means of a slice and those before, less those of another slice."""
    (since, before), *others = means
    shares = [mean.shares for pair in means for mean in pair]
    concentrations = np.max([np.square(share).sum(axis=1) for share in shares], axis=0)
    groups = np.maximum(1.0 / _above(concentrations) - 1.0, NOISE)
    usable = before.is_usable & (groups >= FEWEST_GROUPS)
    influences = -before.log_influences
    effect = np.log(_above(since.value)) - np.log(_above(before.value))
    for later, earlier in others:
        usable = usable & later.is_usable & earlier.is_usable
        influences = influences - (later.log_influences - earlier.log_influences)
        effect = effect - (np.log(_above(later.value)) - np.log(_above(earlier.value)))
    fell = since.value <= 0
    # A mean of 0 does not vary; it would vary as before if it had not fallen.
    unseen = _variance(before.log_influences) * since.scale / _above(before.scale)
    by_users = np.where(
        fell, _variance(influences) + unseen, _variance(influences + since.log_influences)
    )
    variance = by_users + by_days
    spread = np.square(by_users) / groups + np.square(by_days) / freedom
    groups = np.minimum(groups, np.square(variance) / _above(spread))
    error = np.sqrt(variance)
    lift_error = np.where(fell, unseen, error * np.exp(np.minimum(effect, _LARGEST_LOG)))
    freedom = np.where(usable, groups, 0.0)
    rows = np.where(fell, -1.0, effect), error, lift_error, freedom, fell
    for row in zip(*(column.tolist() for column in rows), strict=True):
        yield Shift(0, *row)


def _above(values: FloatArray) -> FloatArray:
    """The values, with 1 for those that are not above 0."""
    above: FloatArray = np.where(values > 0, values, 1.0)
    return above
