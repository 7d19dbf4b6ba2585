"""The response of /api/v1/history: one metric over time, computed from panes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec

from streameval.engine.snapshot import LIFETIME, FamilyHistory, Series, Snapshot
from streameval.engine.windows.times import FINE, HOUR, SECOND

PANE: Final = "pane"
"""The parameter `window` for single panes."""

LONGEST: Final = 400
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
    series = [
        HistorySeries(
            labels=dict(
                zip(snapshot.families[entry.family].label_names, entry.labels, strict=True)
            ),
            points=_points(snapshot, entry, window),
        )
        for entry in _matching(snapshot, metric, window, segment)
    ]
    return History(
        version=snapshot.version,
        metric=metric,
        window=window,
        segment=segment,
        time="wall" if snapshot.past.clock is None else "event",
        series=series,
    )


def _matching(snapshot: Snapshot, metric: str, window: str, segment: str | None) -> list[Series]:
    segments = tuple(dict.fromkeys(family.segment for family in snapshot.families))
    if segment not in segments:
        raise UnknownHistory(f"segment {segment!r}", tuple(name for name in segments if name))
    matching = [
        entry for entry in snapshot.series if snapshot.families[entry.family].segment == segment
    ]
    of_metric = [entry for entry in matching if entry.metric.text == metric]
    if not of_metric:
        choices = dict.fromkeys(entry.metric.text for entry in matching)
        raise UnknownHistory(f"metric {metric!r}", tuple(choices))
    series_window = LIFETIME if window == PANE else window
    if all(entry.window != series_window for entry in of_metric):
        choices = dict.fromkeys((PANE, *(entry.window for entry in of_metric)))
        raise UnknownHistory(f"window {window!r}", tuple(choices))
    return [entry for entry in of_metric if entry.window == series_window]


def _points(snapshot: Snapshot, entry: Series, window: str) -> list[Point]:
    past = _history(snapshot, entry)
    clock = snapshot.past.clock
    derived: list[Point] = []
    if past is not None and clock is not None:
        derived = moving(past, entry, clock, window)
    if window == PANE:
        return derived[-LONGEST:]
    seen = list(_observed(snapshot, entry))
    if derived:
        first, last = derived[0][0], derived[-1][0]
        earlier = [point for point in seen if point[0] < first]
        later = [point for point in seen if point[0] > last]
        seen = [*earlier, *derived, *later]
    return seen[-LONGEST:]


def _history(snapshot: Snapshot, entry: Series) -> FamilyHistory | None:
    families = snapshot.past.families
    past = families[entry.family] if entry.family < len(families) else None
    return past if past is not None and entry.metric.text in past.means else None


def _observed(snapshot: Snapshot, entry: Series) -> Iterator[Point]:
    key = (entry.family, entry.metric.text, entry.labels, entry.window)
    for column in snapshot.past.seen:
        if key in column.places:
            yield column.at, column.value(key), None


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
    panes = list(_panes(past, entry))
    if window == PANE:
        return [(pane.start / SECOND, *_mean(pane.total, pane.count)) for pane in panes]
    if window == LIFETIME:
        return _lifetime(panes, entry, clock)
    return _windows(panes, past.spans[window], past.since, clock)


def _panes(past: FamilyHistory, entry: Series) -> Iterator[_Pane]:
    index = past.means.index(entry.metric.text)
    for pane in past.panes:
        row = pane.rows.get(entry.labels)
        missing = (0.0 if pane.whole else math.nan, 0)
        total, count = missing if row is None else row[index]
        yield _Pane(pane.start, pane.start + pane.size, total, count)


def _windows(panes: Sequence[_Pane], span: int, border: int, clock: int) -> list[Point]:
    totals = [
        0.0,
        *accumulate(
            0.0 if math.isnan(pane_means.total) else pane_means.total for pane_means in panes
        ),
    ]
    undefined = [0, *accumulate(math.isnan(pane_means.total) for pane_means in panes)]
    counts = [0, *accumulate(pane_means.count for pane_means in panes)]
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
