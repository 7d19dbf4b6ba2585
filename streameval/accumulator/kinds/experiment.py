"""What an experiment needs: more users, what they do, and what they did in the days before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from streameval.accumulator.counting import SummedMetric
from streameval.accumulator.kinds.groups import GroupsSpec, groups_of, groups_spec
from streameval.accumulator.kinds.spec import CountedTable, PlanLimits, Scope, StatisticSpec
from streameval.accumulator.kinds.sums import merged_sums, summed_metrics
from streameval.accumulator.kinds.users import UsersSpec
from streameval.catalogue import parse
from streameval.catalogue.context import Context
from streameval.catalogue.lookup import COMPARED_PER_USER
from streameval.catalogue.metric import Metric
from streameval.events.extras import LazyModule
from streameval.inference.days import number_of_day
from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import Audience, GroupSums
from streameval.statistics.limits import EXPERIMENT_USERS
from streameval.statistics.lists import HitsOptions
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.statistics import user_sums as statistics
    from streameval.statistics import users as _users
    from streameval.statistics.user_sums import UserSums
else:
    statistics = LazyModule("streameval.statistics.user_sums")
    _users = LazyModule("streameval.statistics.users")

PRE_PERIOD_PREFIX: Final = "preperiod:"
"""Beginning of the name of sums by user before an experiment; its first day and their number
follow: another period starts empty."""


class PrePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The days before an experiment, whose sums by user adjust its values; and those of a ramp.

    Attributes:
        since: first day of the experiment, the first one that is not among them.
        days: number of days; 0 keeps none.
        metrics: canonical texts of metrics that are summed in addition to clicks and lists.
        cohorts: whether sums by user are also kept from `since` on: on a ramp, users are compared
            with users assigned under the same shares.
        until: last day of these; None: all.

    Example:
        >>> PrePeriod(since=date(2026, 3, 1)).span
        (20485, 20513)
    """

    since: date
    days: int = 28
    metrics: tuple[str, ...] = ()
    cohorts: bool = False
    until: date | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The first day, and the one after the last; days since 1970-01-01."""
        end = number_of_day(self.since)
        return end - self.days, end


class ExperimentNeed(msgspec.Struct, frozen=True):
    """Statistics of an experiment besides those of its metrics: a `Need`.

    Each variant has more users, and the sums of all their clicks and lists; with a period, what
    each of them did before the experiment, and on a ramp in it.
    """

    period: PrePeriod | None = None

    def __call__(
        self, metrics: Sequence[Metric], limits: PlanLimits, groups: int
    ) -> Iterator[StatisticSpec]:
        """See `Need`."""
        if not groups:
            return
        yield UsersSpec(max_users=EXPERIMENT_USERS)
        activity = tuple(SummedMetric(metric, _ALL_CLICKS) for metric in activity_metrics())
        yield GroupsSpec(summed=merged_sums(activity), groups=groups, has_activity=True)
        if self.period is None:
            return
        averaged = [m for m in metrics if not m.is_per_user and m.has_interval]
        if self.period.days:
            adjusting = [metric for metric in averaged if metric.text in self.period.metrics]
            sums = merged_sums((*activity, *summed_metrics(adjusting, limits)))
            yield PrePeriodSpec(summed=sums, period=self.period)
        if self.period.cohorts and averaged:
            yield CohortsSpec(
                summed=summed_metrics(averaged, limits),
                since=self.period.since,
                until=self.period.until,
            )


class PrePeriodSpec(StatisticSpec, frozen=True, kw_only=True):
    """Sums by user in the days before an experiment."""

    scopes: ClassVar[frozenset[Scope]] = frozenset(("lifetime",))
    is_optional: ClassVar[bool] = True
    shares_cells: ClassVar[bool] = True

    period: PrePeriod

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return f"{PRE_PERIOD_PREFIX}{self.period.since}:{self.period.days}"

    @property
    def slot(self) -> str:
        """See `StatisticSpec`."""
        return _SLOT

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 7, ""

    @property
    def keeps_days(self) -> bool:
        """See `StatisticSpec`."""
        return True

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return tuple(f"{text} in {self.period}" for text in self.metrics)

    def joined(self, other: PrePeriodSpec) -> PrePeriodSpec:
        """See `StatisticSpec`; families of one experiment have the same days."""
        metrics = tuple(dict.fromkeys((*self.period.metrics, *other.period.metrics)))
        period = replace(self.period, metrics=metrics)
        return PrePeriodSpec(summed=merged_sums((*self.summed, *other.summed)), period=period)

    def make(self, items: Items, _context: Context) -> UserSums:
        """See `StatisticSpec`."""
        options = statistics.UserSumsOptions(
            max_users=EXPERIMENT_USERS, metrics=self.metrics, days=self.period.span
        )
        return statistics.UserSums(options, items)


class CohortsSpec(StatisticSpec, frozen=True, kw_only=True):
    """Sums by user since an experiment began, with their first days, for a ramp."""

    scopes: ClassVar[frozenset[Scope]] = frozenset(("lifetime",))
    is_optional: ClassVar[bool] = True

    since: date
    until: date | None

    @property
    def name(self) -> str:
        """See `StatisticSpec`; with another first or last day they start empty."""
        last = "" if self.until is None else f":{self.until}"
        return f"{COHORTS_PREFIX}{self.since}{last}"

    @property
    def slot(self) -> str:
        """See `StatisticSpec`."""
        return _COHORTS

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 8, ""

    @property
    def keeps_days(self) -> bool:
        """See `StatisticSpec`."""
        return True

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return tuple(f"{text} of users since {self.since}" for text in self.metrics)

    def joined(self, other: CohortsSpec) -> CohortsSpec:
        """See `StatisticSpec`; families of one experiment have the same first day."""
        return replace(self, summed=merged_sums((*self.summed, *other.summed)))

    def make(self, items: Items, _context: Context) -> UserSums:
        """See `StatisticSpec`."""
        options = statistics.UserSumsOptions(
            max_users=EXPERIMENT_USERS,
            metrics=self.metrics,
            days=(
                number_of_day(self.since),
                NEVER if self.until is None else number_of_day(self.until) + 1,
            ),
            first_days=True,
        )
        return statistics.UserSums(options, items)


COHORTS_PREFIX: Final = "cohorts:"
"""Beginning of the name of sums by user in an experiment; its first and last day follow."""

_COHORTS: Final = "cohorts"

_SLOT: Final = "preperiod"

_ALL_CLICKS: Final = HitsOptions()
"""Whole lists, of which an experiment counts the clicks of each user."""


@cache
def activity_metrics() -> tuple[Metric, Metric]:
    """The metrics that count the lists and the clicks of each user, at every rank."""
    return parse("hit_rate"), parse("ctr")


def before_experiment(table: CountedTable) -> tuple[PrePeriod, UserSums] | None:
    """The days before an experiment and the sums of them; None if they are not kept."""
    spec, sums = table.spec_at(_SLOT), table.at_slot(_SLOT)
    return None if sums is None else (spec.period, sums)


def in_experiment(table: CountedTable) -> tuple[tuple[date, date | None], UserSums] | None:
    """The first and the last day of a ramp, and sums by user; None if they are not kept."""
    spec, sums = table.spec_at(_COHORTS), table.at_slot(_COHORTS)
    return None if sums is None else ((spec.since, spec.until), sums)


def activity(table: CountedTable, cells: Sequence[int]) -> Activity | None:
    """Lists and clicks by event day and user group over these cells; None if they are not kept."""
    groups, spec = groups_of(table), groups_spec(table)
    if groups is None or spec is None or not spec.has_activity:
        return None
    lists, clicks = (groups.summed(metric.per_list, cells) for metric in activity_metrics())
    return activity_of(clicks, lists)


NEVER: Final = 2**31
"""A day after all others."""

Counted: TypeAlias = Literal["lists", "clicks", "means"]
"""Of each user: the number of lists or clicks, or the mean over the user's lists."""


class Judged(NamedTuple):
    """A metric of an experiment.

    Attributes:
        counted: what is known of each user; None for a mean over lists or items.
    """

    text: str
    higher_is_better: bool | None
    counted: Counted | None = None


LISTS_PER_USER: Final = Judged(COMPARED_PER_USER[0], higher_is_better=None, counted="lists")
USER_METRICS: Final = (
    LISTS_PER_USER,
    Judged(COMPARED_PER_USER[1], higher_is_better=True, counted="clicks"),
)


class Activity(NamedTuple):
    """Lists, their items and clicks of one variant by event day and user group.

    Attributes:
        sums: clicks as numerators, lists as denominators.
        items: items shown; shape as that of the sums.
    """

    sums: GroupSums
    items: FloatArray

    @property
    def lengths(self) -> GroupSums:
        """Items shown over lists."""
        return self.sums._replace(numerators=self.items)

    def until(self, day: int) -> Activity:
        """The activity up to a day."""
        until_day = self.sums.days <= day
        return Activity(self.sums.rows(until_day), self.items[until_day])

    def first_day(self, audience: Audience) -> int:
        """The first day with all lists of the users, days since the epoch; NEVER if there is none.

        If lists came before they were counted here, the first day is not whole.
        """
        begin = int(self.sums.days.min(initial=NEVER))
        if (audience.days < begin).any():
            return begin + 1
        return int(audience.days.min(initial=NEVER))

    def per_user(self, audience: Audience, counted: Counted, first: int) -> GroupSums:
        """Counts and users by user group, of all days from `first` on together.

        Above the cap of users, counts are scaled to the share of users that are kept: the mean is
        then an estimate, and its error is that of the user groups.
        """
        days, clicks, lists = self.sums
        counts = (clicks if counted == "clicks" else lists.astype(np.float64))[days >= first]
        share = audience.threshold / 2**64
        width = lists.shape[1]
        groups = _users.user_groups(audience.since(first).hashes, width)
        users = np.bincount(groups, minlength=width)
        return GroupSums(np.zeros(1, np.int64), share * counts.sum(axis=0)[None], users[None])


def activity_of(clicks: GroupSums, lists: GroupSums) -> Activity:
    """The activity from the sums of clicks over items, and of a metric that has all lists."""
    # Either may be counted only since the experiment was configured.
    since_click = lists.days >= clicks.days.min(initial=NEVER)
    days, counts = lists.days[since_click], lists.denominators[since_click]
    numerators, items = np.zeros(counts.shape), np.zeros(counts.shape)
    clicked, shared = np.isin(days, clicks.days), np.isin(clicks.days, days)
    numerators[clicked], items[clicked] = clicks.numerators[shared], clicks.denominators[shared]
    return Activity(GroupSums(days, numerators, counts), items)


def experiment_needs(experiment: bool | PrePeriod) -> tuple[ExperimentNeed, ...]:  # noqa: FBT001  as an Accumulator has it
    """The needs of an experiment, whose values the days before it may adjust; none without one."""
    if isinstance(experiment, PrePeriod):
        return (ExperimentNeed(experiment),)
    return (ExperimentNeed(),) if experiment else ()
