"""The interval of a reading, or the reason that it has none."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from msgspec.structs import replace

from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.inference.interval_formulas import (
    FEW_LISTS,
    FEWEST_GROUPS,
    MOST_ANONYMOUS,
    TOO_FEW_CLICKS,
    TOO_FEW_USERS,
    interval,
    pool_days,
)
from streameval.statistics.intervals import GroupSums, IntervalKind, Intervals

_COVERED: Final = 1.0 - MOST_ANONYMOUS
"""Share of the lists that the sums by user must cover, or the interval is not that of the value."""


class IntervalMethod(NamedTuple):
    """Settings and method of intervals."""

    intervals: Intervals
    kind: IntervalKind = "anytime"


def interval_method(
    intervals: Intervals | None, kind: IntervalKind = "anytime", precision: float | None = None
) -> IntervalMethod | None:
    """The computation of intervals; None if none are configured.

    Args:
        intervals: the settings.
        kind: those of all events hold at all times at once; those of one window or span are
            pointwise.
        precision: instead of that of the settings.

    Raises:
        MetricError: the precision is not valid.
    """
    if intervals is None:
        return None
    if precision is not None:
        intervals = replace(intervals, precision=precision)
    return IntervalMethod(intervals, kind)


class Coverage(NamedTuple):
    """Shares of the lists: of those read that the sums have, and of those that name their user."""

    covered: float
    named: float


def with_interval(
    metric: Metric, reading: Reading, sums: GroupSums, coverage: Coverage, method: IntervalMethod
) -> Reading:
    """The reading with its interval, or with the reason that it has none."""
    if not reading.defined or not math.isfinite(reading.value):
        return replace(reading, no_interval=f"{metric.text} has no finite value.")
    reason = coverage_problem(coverage)
    if reason is None:
        bounds = metric.definition.bounds
        interval_found = interval(sums, method.intervals, method.kind, bounds=bounds)
        if interval_found is not None:
            return replace(reading, interval=interval_found)
        reason = _unspread(metric, sums)
    return replace(reading, no_interval=reason)


def coverage_problem(coverage: Coverage) -> str | None:
    """The reason that sums by user do not stand for a value; None if they do."""
    covered, named = coverage
    if not named:
        return "No list names its user, and lists of one user resemble each other: give users."
    if covered < _COVERED:
        return (
            f"Only {math.floor(100 * covered)} % of the lists are counted by user: the others are "
            "older than these counts, or have neither a user nor an event id."
        )
    if named < 1.0 - MOST_ANONYMOUS:
        return (
            f"{100 * (1 - named):.3g} % of the lists do not name their user, and lists of "
            "one user resemble each other: give users."
        )
    return None


def _unspread(metric: Metric, sums: GroupSums) -> str:
    """The reason that a value has no interval, although its sums by user stand for it."""
    estimate = pool_days(sums)
    if estimate.groups < FEWEST_GROUPS:
        return TOO_FEW_USERS
    if not estimate.size:
        return f"{metric.text} is not above 0 so far."
    if not estimate.is_measured:
        return FEW_LISTS if metric.definition.reads == "event" else TOO_FEW_CLICKS
    return f"{metric.text} is the same for all users so far."
