"""Sums by user, and means over users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final, cast

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.formulas import lists_by_rule
from streameval.accumulator.inputs import InputIdentities
from streameval.accumulator.kinds import hits
from streameval.accumulator.kinds.groups import groups_spec, ungrouped
from streameval.accumulator.kinds.spec import (
    CountedTable,
    PlanLimits,
    Scope,
    StatisticSpec,
    not_kept,
)
from streameval.accumulator.kinds.sums import merged_sums, summed_metrics
from streameval.accumulator.make_reading import with_refusals
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.catalogue.summary import summary
from streameval.events.extras import LazyModule
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Distribution
from streameval.statistics.intervals import GroupSums
from streameval.statistics.limits import MOST_USERS, PANE_USERS
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.accumulator import reading_intervals
    from streameval.accumulator.reading_intervals import Coverage, IntervalMethod
    from streameval.statistics import user_sums as statistics
    from streameval.statistics.user_sums import UserSums, UserTotals
else:
    reading_intervals = LazyModule("streameval.accumulator.reading_intervals")
    statistics = LazyModule("streameval.statistics.user_sums")

USER_SUMS_PREFIX: Final = "usersums:"
"""Beginning of the name of sums by user; the largest number of users follows. In names of missing
statistics, the text of a metric follows."""

_SLOT: Final = "usersums"


class UserSumsSpec(StatisticSpec, frozen=True, kw_only=True):
    """Sums by user; `max_users`: largest number of users kept per cell."""

    scopes: ClassVar[frozenset[Scope]] = frozenset(("pane", "lifetime"))
    is_optional: ClassVar[bool] = True

    max_users: int

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return f"{USER_SUMS_PREFIX}{self.max_users}"

    @property
    def slot(self) -> str:
        """See `StatisticSpec`."""
        return _SLOT

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 6, ""

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return tuple(f"{text} of at most {self.max_users} users" for text in self.metrics)

    def scoped(self, scope: Scope) -> UserSumsSpec | None:
        """See `StatisticSpec`; a pane keeps fewer users."""
        if scope != "pane":
            return super().scoped(scope)
        return replace(self, max_users=min(self.max_users, PANE_USERS))

    def joined(self, other: UserSumsSpec) -> UserSumsSpec:
        """See `StatisticSpec`."""
        return replace(self, summed=merged_sums((*self.summed, *other.summed)))

    def within(self, other: UserSumsSpec) -> bool:
        """See `StatisticSpec`; the sums of more users are thinned."""
        return self.metrics == other.metrics

    def missing(self, saved: InputIdentities | None, unlike: frozenset[str]) -> frozenset[str]:
        """See `StatisticSpec`; a name for each metric."""
        texts = {*self.metrics} - ((saved or {}).keys() - unlike)
        return frozenset(f"{USER_SUMS_PREFIX}{text}" for text in texts)

    def make(self, items: Items, _context: Context) -> UserSums:
        """See `StatisticSpec`."""
        options = statistics.UserSumsOptions(max_users=self.max_users, metrics=self.metrics)
        return statistics.UserSums(options, items)


def specs(metric: Metric, limits: PlanLimits) -> Iterator[StatisticSpec]:
    """The statistics that a metric over users reads."""
    if metric.reads != "event":
        yield hits.HitsSpec(options=hits.hits_options(metric, limits.depth))
    yield UserSumsSpec(summed=summed_metrics([metric], limits), max_users=MOST_USERS)


def names(metric: Metric, table: CountedTable) -> frozenset[str]:
    """The name of the sums that a metric over users reads.

    Raises:
        NotKeptError: they were not kept.
    """
    user_sums_of(metric, table)
    return frozenset({f"{USER_SUMS_PREFIX}{metric.per_list}"})


def read(
    metric: Metric, table: CountedTable, cells: IntArray, method: IntervalMethod | None = None
) -> list[Reading]:
    """The readings of a mean or another statistic over users; raises what `names` raises.

    They are undefined or refused by the same lists as those over lists.
    """
    readings = _means(metric, table, cells, method)
    if metric.reads == "event":
        return readings
    rules = lists_by_rule(metric, hits.hits_statistic(metric, table).view(cells))
    evidence = ((reading.count, reading.lists) for reading in readings)
    return with_refusals(metric, rules, readings, evidence)


def _means(
    metric: Metric, table: CountedTable, cells: IntArray, method: IntervalMethod | None
) -> list[Reading]:
    statistic, lists = user_sums_of(metric, table), table.lists(cells).tolist()
    readings = []
    for cell, count in zip(cells.tolist(), lists, strict=True):
        means = statistic.over(metric.per_list, [cell])
        reading = Reading(
            metric=metric.text,
            value=summary(Distribution.of_all(means.means), metric.values, metric.rules),
            count=means.users,
            lists=count,
            estimated=means.share < 1.0,
        )
        if method is not None and metric.has_interval:
            coverage = user_coverage(statistic, np.array([cell]))
            sums = means_by_group(metric, table, means)
            reading = reading_intervals.with_interval(metric, reading, sums, coverage, method)
        elif method is not None:
            reason = f"{metric.text} is not a mean, so it has no interval."
            reading = replace(reading, no_interval=reason)
        readings.append(reading)
    return readings


def means_by_group(metric: Metric, table: CountedTable, means: UserTotals) -> GroupSums:
    """The users' means by user group."""
    spec = groups_spec(table)
    return means.by_group(
        0 if spec is None else spec.groups, zeros=metric.values["statistic"] == "zeros"
    )


def user_coverage(statistic: UserSums, cells: IntArray) -> Coverage:
    """The shares of lists with sums: a sample of users is one of all, anonymous lists have none."""
    lists, anonymous = (int(counts.sum()) for counts in statistic.lists(cells))
    return reading_intervals.Coverage(1.0, 1.0 - anonymous / max(lists, 1))


def user_sums_of(metric: Metric, table: CountedTable) -> UserSums:
    """The sums by user of a metric.

    Raises:
        NotKeptError: they were not kept.
    """
    sums = table.at_slot(_SLOT)
    if sums is None or metric.per_list not in sums.options.metrics:
        raise not_kept(metric, "its sums by user were not kept")
    return cast("UserSums", sums)


def has_user_sums(metric: Metric, table: CountedTable) -> bool:
    """True if the values of a metric can be compared by user, as in a gap."""
    if metric.is_per_user:
        return groups_spec(table) is not None and metric.has_interval
    return ungrouped(metric, table) is None


def has_user_means(metric: Metric, table: CountedTable) -> bool:
    """True if a metric is a mean over users that can be compared."""
    return metric.is_per_user and has_user_sums(metric, table)
