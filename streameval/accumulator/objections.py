"""Reasons not to judge a metric: an estimate without support, or lists that were not shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streameval.accumulator.kinds.experiment import USER_METRICS
from streameval.accumulator.kinds.groups import (
    groups_of,
    not_comparable,
    summed_together,
    ungrouped,
)
from streameval.accumulator.kinds.user_sums import (
    has_user_sums,
    means_by_group,
    user_coverage,
    user_sums_of,
)
from streameval.accumulator.overlap import (
    Overlap,
    bias_reason,
    bias_together,
    distrust,
    lacking,
    overlap_together,
)
from streameval.accumulator.reading_intervals import Coverage, IntervalMethod, coverage_problem
from streameval.accumulator.readings import merge_cells, overlaps, readings_of
from streameval.accumulator.table import Table
from streameval.catalogue.companions import checks_of
from streameval.catalogue.metric import Metric
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import GroupSums, Intervals


def objection(metric: Metric, table: Table, cells: IntArray) -> str | None:
    """The first reason, in a sentence, not to judge a metric here; None without one."""
    if (bias := bias_together(table, cells)) is not None:
        return bias
    method = IntervalMethod(Intervals())
    readings = readings_of(metric, table, cells) if checks_of(metric) else []
    for reading, overlap in zip(readings, overlaps(metric, table, cells, method), strict=True):
        if (reason := distrust(reading, overlap) or lacking(overlap)) is not None:
            return reason
    return None


def objection_together(metric: Metric, table: Table, cells: Sequence[int]) -> str | None:
    """The first reason not to judge a metric over all of these cells together."""
    if not checks_of(metric):
        return bias_together(table, np.array(cells, np.int64))
    return objection(metric, merge_cells(table, cells), np.array(cells[:1])) if cells else None


class Objection(NamedTuple):
    """Why not to judge a metric.

    Attributes:
        reason: a sentence.
        overlap: of lists that were not shown, with those shown; None if they were shown.
    """

    reason: str
    overlap: float | None = None


def objections_to(
    metrics: Sequence[Metric], table: Table, cells: Sequence[int]
) -> dict[str, Objection]:
    """Text of a metric -> why not to judge it in these cells; without those that may be."""
    indices = np.array(cells, np.int64)
    if (overlap := overlap_together(table, indices)) is not None:
        per_user = (metric.text for metric in USER_METRICS)
        bias = Objection(bias_reason(overlap), overlap)
        return dict.fromkeys([*(metric.text for metric in metrics), *per_user], bias)
    reasons = ((metric.text, objection(metric, table, indices)) for metric in metrics)
    return {text: Objection(reason) for text, reason in reasons if reason is not None}


class SliceSums(NamedTuple):
    """Sums by user over some slices.

    Attributes:
        problem: the reason, in a sentence, that they do not stand for the value; None if they do.
        overlap: of an estimate for a policy that was not shown, with what was; None for others.
    """

    sums: GroupSums
    problem: str | None
    overlap: Overlap | None = None


def user_means_by_group(metric: Metric, table: Table, cells: IntArray) -> SliceSums:
    """The users' means by user group, over all of these cells together."""
    statistic = user_sums_of(metric, table)
    sums = means_by_group(metric, table, statistic.over(metric.per_list, cells.tolist()))
    return SliceSums(sums, coverage_problem(user_coverage(statistic, cells)))


def user_sums(metric: Metric, table: Table, cells: IntArray, method: IntervalMethod) -> SliceSums:
    """The sums by user of a metric over all of these cells together.

    `method`: of the interval that the overlap of an estimate is for.

    Raises:
        NotComparableError: the table has none.
    """
    if metric.is_per_user and has_user_sums(metric, table):
        sums = user_means_by_group(metric, table, cells)
        return sums._replace(problem=bias_together(table, cells) or sums.problem)
    reason, groups = ungrouped(metric, table), groups_of(table)
    if reason is not None or groups is None:
        raise not_comparable(metric.text, reason)
    lists, anonymous = (int(list_.sum()) for list_ in groups.lists(cells))
    count = sum(reading.count for reading in readings_of(metric, table, cells))
    counted = groups.summed(metric.per_list, cells.tolist()).denominators.sum()
    covered = float(counted) / count if count else 1.0
    coverage = Coverage(covered, 1.0 - anonymous / max(lists, 1))
    together = summed_together(metric, groups, cells.tolist())
    total = merge_cells(table, cells.tolist())
    overlap = next(iter(overlaps(metric, total, cells[:1], method)), None)
    return SliceSums(
        together, coverage_problem(coverage) or objection(metric, table, cells), overlap
    )
