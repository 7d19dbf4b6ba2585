"""What is known by user: sums for intervals and why there are none, and means over users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.overlap import Overlap
from streameval.accumulator.reading_intervals import (
    IntervalMethod,
    Shares,
    uncovered,
    with_interval,
)
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.catalogue.summary import summary
from streameval.events.errors import NotKeptError
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Distribution
from streameval.statistics.intervals import GroupSums
from streameval.statistics.user_sums import UserSums, UserTotals


class SliceSums(NamedTuple):
    """Sums by user over some slices.

    Attributes:
        problem: the reason, in a sentence, that they do not stand for the value; None if they do.
        overlap: of an estimate for a policy that was not shown, with what was; None for others.
    """

    sums: GroupSums
    problem: str | None
    overlap: Overlap | None = None


def ungrouped(metric: Metric, table: Table) -> str | None:
    """The reason, in a sentence, that a metric has no group sums in a table; None if it has."""
    if not table.plan.groups:
        return "No intervals are configured."
    if metric.is_per_user:
        return f"{metric.text} is a mean over users, whose sums are not kept by event day."
    if not metric.has_interval:
        return f"{metric.text} is not a mean over lists or items, so it has no interval."
    if metric.per_list not in {grouped.per_list for grouped in table.plan.grouped}:
        return (
            f"{metric.text} was not configured from the start, so its sums by user were not kept."
        )
    return None


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


def has_user_sums(metric: Metric, table: Table) -> bool:
    """Whether the values of a metric can be compared by user, as in a gap."""
    if metric.is_per_user:
        return table.plan.groups > 0 and metric.has_interval
    return ungrouped(metric, table) is None


def has_user_means(metric: Metric, table: Table) -> bool:
    """Whether a metric is a mean over users that can be compared."""
    return metric.is_per_user and has_user_sums(metric, table)


def of_users(
    metric: Metric, table: Table, cells: IntArray, method: IntervalMethod | None
) -> list[Reading]:
    """The readings of a mean or another statistic over users, with intervals if one is asked."""
    statistic, lists = kept_user_sums(metric, table), table.lists(cells).tolist()
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
            sums, shares = _by_group(metric, table, means), _shares(statistic, np.array([cell]))
            reading = with_interval(metric, reading, sums, shares, method)
        elif method is not None:
            reason = f"{metric.text} is no mean, so it has no interval."
            reading = replace(reading, no_interval=reason)
        readings.append(reading)
    return readings


def user_means_by_group(metric: Metric, table: Table, cells: IntArray) -> SliceSums:
    """The users' means by user group, over all of these cells together."""
    statistic = kept_user_sums(metric, table)
    means = statistic.over(metric.per_list, cells.tolist())
    return SliceSums(_by_group(metric, table, means), uncovered(_shares(statistic, cells)))


def _by_group(metric: Metric, table: Table, means: UserTotals) -> GroupSums:
    return means.by_group(table.plan.groups, zeros=metric.values["statistic"] == "zeros")


def _shares(statistic: UserSums, cells: IntArray) -> Shares:
    """A sample of users stands for all; lists without a user are in no sum."""
    lists, anonymous = (int(list_.sum()) for list_ in statistic.lists(cells))
    return Shares(1.0, 1.0 - anonymous / max(lists, 1))


def kept_user_sums(metric: Metric, table: Table) -> UserSums:
    """The statistic of sums by user.

    Raises:
        NotKeptError: it lacks the metric.
    """
    sums = table.user_sums
    if sums is None or metric.per_list not in sums.options.metrics:
        raise NotKeptError(metric.text, "its sums by user were not kept")
    return sums
