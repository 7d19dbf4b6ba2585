"""Sums by user group and event day, for intervals; and why a metric has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

from msgspec.structs import replace

from streameval.accumulator.kinds.spec import CountedTable, PlanLimits, Scope, StatisticSpec
from streameval.accumulator.kinds.sums import merged_sums, summed_metrics
from streameval.catalogue import denominator
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.events.errors import NotComparableError
from streameval.events.extras import LazyModule
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import GroupSums, ratio_of
from streameval.statistics.relation import Relation
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.statistics import groups as statistics
    from streameval.statistics.groups import Groups
else:
    # A loop without intervals needs none of it.
    statistics = LazyModule("streameval.statistics.groups")

PANE_GROUPS: Final = 64
"""User groups of a pane, which has fewer lists than a lifetime."""

_SLOT: Final = "groups"


class GroupsSpec(StatisticSpec, frozen=True, kw_only=True):
    """Sums by user group.

    Attributes:
        groups: number of user groups.
        daily: whether sums are kept by event day.
        has_activity: whether an experiment reads how much its users do.
    """

    scopes: ClassVar[frozenset[Scope]] = frozenset(("pane", "day"))
    is_optional: ClassVar[bool] = True

    groups: int
    daily: bool = True
    has_activity: bool = False

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return f"groups:{self.groups}"

    @property
    def slot(self) -> str:
        """See `StatisticSpec`."""
        return _SLOT

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 4, ""

    @property
    def keeps_days(self) -> bool:
        """See `StatisticSpec`."""
        return self.daily

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return tuple(f"{text} by {self.groups} user groups" for text in self.metrics)

    def scoped(self, scope: Scope) -> GroupsSpec | None:
        """See `StatisticSpec`; a pane has fewer groups, and all days together."""
        if scope != "pane":
            return super().scoped(scope)
        return replace(self, groups=min(self.groups, PANE_GROUPS), daily=False)

    def joined(self, other: GroupsSpec) -> GroupsSpec:
        """See `StatisticSpec`."""
        active = self.has_activity or other.has_activity
        return replace(self, summed=merged_sums((*self.summed, *other.summed)), has_activity=active)

    def within(self, other: GroupsSpec) -> bool:
        """See `StatisticSpec`; many groups can be merged into fewer."""
        coarser = self.groups <= other.groups and self.daily <= other.daily
        return coarser and self.metrics == other.metrics

    def make(self, items: Items, _context: Context) -> Groups:
        """See `StatisticSpec`."""
        options = statistics.GroupsOptions(
            groups=self.groups, daily=self.daily, metrics=self.metrics
        )
        return statistics.Groups(options, items)

    def by_day(self, statistic: Groups) -> Iterator[tuple[int, Groups, Relation]]:
        """See `StatisticSpec`."""
        return statistic.by_day()

    def on_day(self, statistic: Groups, day: int) -> Groups:
        """See `StatisticSpec`."""
        return statistic.on_day(day)


def interval_sums(
    metrics: Sequence[Metric], limits: PlanLimits, groups: int
) -> Iterator[GroupsSpec]:
    """The sums by user group that intervals need."""
    if groups:
        averaged = [m for m in metrics if not m.is_per_user and m.has_interval]
        yield GroupsSpec(summed=summed_metrics(averaged, limits), groups=groups)


def groups_of(table: CountedTable) -> Groups | None:
    """The sums by user group of a table, if it has any."""
    return cast("Groups | None", table.at_slot(_SLOT))


def groups_spec(table: CountedTable) -> GroupsSpec | None:
    """The specification of the sums by user group, if there are any."""
    return cast("GroupsSpec | None", table.spec_at(_SLOT))


def ungrouped(metric: Metric, table: CountedTable) -> str | None:
    """The reason, in a sentence, that a metric has no group sums in a table; None if it has."""
    spec = groups_spec(table)
    if spec is None:
        return "No intervals are configured."
    if metric.is_per_user:
        return f"{metric.text} is a mean over users, whose sums are not kept by event day."
    if not metric.has_interval:
        return f"{metric.text} is not a mean over lists or items, so it has no interval."
    if metric.per_list not in spec.metrics:
        return (
            f"{metric.text} was not configured from the start, so its sums by user were not kept."
        )
    return None


def not_comparable(metric: str, why: str | None = None) -> NotComparableError:
    """The error for a metric without sums by user group; `why`, or as none are configured."""
    why = why or "Create the Accumulator with intervals: Accumulator(..., intervals=Intervals())."
    return NotComparableError(
        f"metric {metric!r} cannot be compared. {why}", metric=metric, why=why
    )


def group_sums(metric: Metric, table: CountedTable, cells: IntArray) -> list[GroupSums] | None:
    """The group sums of a metric in each of these cells; None if `ungrouped` gives a reason."""
    groups = groups_of(table)
    if groups is None or ungrouped(metric, table) is not None:
        return None
    sums, below = groups.of(metric.per_list, cells), denominator(metric)
    if below is None:
        return sums
    return list(map(ratio_of, sums, groups.of(below.per_list, cells)))


def summed_together(
    metric: Metric, groups: Groups, cells: Sequence[int], without: Sequence[int] = ()
) -> GroupSums:
    """The group sums of a metric over all of these cells together, but those of `without`."""
    sums, below = groups.summed(metric.per_list, cells, without), denominator(metric)
    return sums if below is None else ratio_of(sums, groups.summed(below.per_list, cells, without))


def unlike_metrics(control: Metric, metric: Metric) -> str | None:
    """The reason, in a sentence, that two metrics cannot be compared; None if they may be.

    Example:
        >>> from streameval.catalogue import parse
        >>> unlike_metrics(parse("ctr"), parse("snips"))
        'ctr is a mean over items, and snips over lists.'
    """
    first, other = control.definition, metric.definition
    if first.per != other.per:
        return f"{control.text} is a mean over {first.per}s, and {metric.text} over {other.per}s."
    if first.higher_is_better is not other.higher_is_better:
        return f"{control.text} and {metric.text} do not have the same better direction."
    return None
