"""The response of /api/v1/history: one metric over time, computed from panes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec

from streameval.engine.snapshot import LIFETIME, FamilyHistory, Series, Snapshot
from streameval.engine.windows.times import FINE, HOUR, SECOND

PANE: Final = "pane"
"""The parameter `window` for single panes."""

MOST_POINTS: Final = 400
"""Most points of one series; the newest are returned."""

Point: TypeAlias = tuple[float, float | None, int | None]
"""Seconds since the epoch, value or None, and its count, None if unknown."""


class HistorySeries(msgspec.Struct, frozen=True, kw_only=True):
    """One slice over time.

    Attributes:
        labels: label name to value, including the segment's.
        points: in time order; seconds since the epoch (start of a pane, end of a window), the
            value, None without evidence, and its count, None if unknown.
    """

    labels: dict[str, str]
    points: list[Point]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over time.

    Attributes:
        version: number of the snapshot.
        metric: as in the request.
        window: as in the request.
        segment: as in the request.
        time: time of the points: event time, or the wall clock if events have none.
        series: one for each slice.
    """

    version: int
    metric: str
    window: str
    segment: str | None
    time: Literal["event", "wall"]
    series: list[HistorySeries]


class UnknownHistory(Exception):  # noqa: N818  becomes an HTTP response
    """The series is unknown."""

    def __init__(self, what: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"Unknown {what}; known: {', '.join(choices) or 'none yet'}.")


def history(snapshot: Snapshot, metric: str, window: str, segment: str | None = None) -> History:
    """One metric over time, for every slice.

    `window`: a window's name, "lifetime", or "pane" for single panes. `segment`: name of a segment;
    None for labels only.

    Raises:
        UnknownHistory: the snapshot has no such metric, window or segment.
    """
    segments = tuple(dict.fromkeys(family.segment for family in snapshot.families))
    if segment not in segments:
        raise UnknownHistory(f"segment {segment!r}", tuple(name for name in segments if name))
    of_segment = [
        entry for entry in snapshot.series if snapshot.families[entry.family].segment == segment
    ]
    of_metric = [entry for entry in of_segment if entry.metric.text == metric]
    if not of_metric:
        choices = dict.fromkeys(entry.metric.text for entry in of_segment)
        raise UnknownHistory(f"metric {metric!r}", tuple(choices))
    series_window = LIFETIME if window == PANE else window
    of_window = [entry for entry in of_metric if entry.window == series_window]
    if not of_window:
        choices = dict.fromkeys((PANE, *(entry.window for entry in of_metric)))
        raise UnknownHistory(f"window {window!r}", tuple(choices))
    return History(
        version=snapshot.version,
        metric=metric,
        window=window,
        segment=segment,
        time="wall" if snapshot.past.clock is None else "event",
        series=[
            HistorySeries(
                labels=snapshot.labels_of(entry),
                points=_points(snapshot, entry, window)[-MOST_POINTS:],
            )
            for entry in of_window
        ],
    )


def _points(snapshot: Snapshot, entry: Series, window: str) -> list[Point]:
    """Points from panes, and before and after them the observed values, if there are any."""
    past, panes = snapshot.past, list[Point]()
    family = past.families[entry.family] if entry.family < len(past.families) else None
    if family is not None and entry.metric.text in family.means and past.clock is not None:
        panes = moving(family, entry, past.clock, window)
    if window == PANE:
        return panes
    key = (entry.family, entry.metric.text, entry.labels, entry.window)
    seen: list[Point] = [
        (column.at, column.value(key), None) for column in past.seen if key in column.indexes
    ]
    if not panes:
        return seen
    earlier = [point for point in seen if point[0] < panes[0][0]]
    return [*earlier, *panes, *(point for point in seen if point[0] > panes[-1][0])]


class _Pane(msgspec.Struct, frozen=True):
    start: int
    end: int
    total: float
    count: int


def moving(past: FamilyHistory, entry: Series, clock: int, window: str) -> list[Point]:
    """A mean at the end of each pane; for `PANE` the mean of each pane at its start.

    Only for times whose whole window has panes.

    `clock`: largest event time, microseconds.
    """
    index, panes = past.means.index(entry.metric.text), list[_Pane]()
    for pane in past.panes:
        missing = (0.0 if pane.complete else math.nan, 0)
        row = pane.rows.get(entry.labels)
        total, count = missing if row is None else row[index]
        panes.append(_Pane(pane.start, pane.start + pane.size, total, count))
    if window == PANE:
        return [(pane.start / SECOND, *_mean(pane.total, pane.count)) for pane in panes]
    if window == LIFETIME:
        return _lifetime(panes, entry, clock)
    return _windows(panes, past.spans[window], past.since, clock)


def _windows(panes: Sequence[_Pane], span: int, border: int, clock: int) -> list[Point]:
    sums = (0.0 if math.isnan(pane.total) else pane.total for pane in panes)
    totals = [0.0, *accumulate(sums)]
    undefined = [0, *accumulate(math.isnan(pane.total) for pane in panes)]
    counts = [0, *accumulate(pane.count for pane in panes)]
    points: list[Point] = []
    first = 0
    for index, pane in enumerate(panes, 1):
        begin = pane.end - span
        if span > FINE:
            begin = begin // HOUR * HOUR
        while first < len(panes) and panes[first].start < begin:
            first += 1
        partial = first > 0 and panes[first - 1].end > begin
        if begin < border or partial:
            continue
        total, count = totals[index] - totals[first], counts[index] - counts[first]
        total = math.nan if undefined[index] - undefined[first] else total
        points.append((min(pane.end, clock) / SECOND, *_mean(total, count)))
    return points


def _lifetime(panes: Sequence[_Pane], entry: Series, clock: int) -> list[Point]:
    """Computed backwards from the current value, which includes events older than the panes."""
    total, count = entry.reading.total, entry.reading.count
    points: list[Point] = []
    for pane in reversed(panes):
        if total is None or count < 0:
            break
        points.append((min(pane.end, clock) / SECOND, *_mean(total, count)))
        total, count = total - pane.total, count - pane.count
    return points[::-1]


def _mean(total: float, count: int) -> tuple[float | None, int]:
    return (total / count if count > 0 and not math.isnan(total) else None), max(count, 0)
