"""From the means of single panes to what every window was then."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

import msgspec

from streameval.aggregation.time import FINE, HOUR, SECOND
from streameval.pipeline.past import FamilyPast
from streameval.pipeline.snapshot import LIFETIME, Series

Point: TypeAlias = tuple[float, float | None, int | None]
"""Seconds since the epoch, value or None, and the count behind it, None where not known."""


class _Pane(msgspec.Struct, frozen=True):
    start: int
    end: int
    total: float
    count: int


def moving(kept: FamilyPast, entry: Series, clock: int, window: str) -> list[Point]:
    """What a mean was at the end of each pane; of "pane" itself at its beginning.

    Only where all of the window is kept: what it was before nobody knows any more.

    Args:
        kept: the means of the panes.
        entry: of which series.
        clock: largest event time, microseconds.
        window: its name, "lifetime" or "pane".
    """
    panes = list(_panes(kept, entry))
    if window == "pane":
        return [(each.start / SECOND, *_mean(each.total, each.count)) for each in panes]
    if window == LIFETIME:
        return _lifetime(panes, entry, clock)
    return _windows(panes, kept.spans[window], kept.since, clock)


def _panes(kept: FamilyPast, entry: Series) -> Iterator[_Pane]:
    place = kept.means.index(entry.metric.text)
    for pane in kept.panes:
        row = pane.rows.get(entry.labels)
        missing = (0.0 if pane.whole else math.nan, 0)
        total, count = missing if row is None else row[place]
        yield _Pane(pane.start, pane.start + pane.size, total, count)


def _windows(panes: Sequence[_Pane], span: int, border: int, clock: int) -> list[Point]:
    totals = [0.0, *accumulate(0.0 if math.isnan(each.total) else each.total for each in panes)]
    spoilt = [0, *accumulate(math.isnan(each.total) for each in panes)]
    counts = [0, *accumulate(each.count for each in panes)]
    found: list[Point] = []
    first = 0
    for index, pane in enumerate(panes, 1):
        begin = pane.end - span
        if span > FINE:
            begin = begin // HOUR * HOUR
        while first < len(panes) and panes[first].start < begin:
            first += 1
        cut = first > 0 and panes[first - 1].end > begin
        if begin < border or cut:
            continue
        total, count = totals[index] - totals[first], counts[index] - counts[first]
        total = math.nan if spoilt[index] - spoilt[first] else total
        found.append((min(pane.end, clock) / SECOND, *_mean(total, count)))
    return found


def _lifetime(panes: Sequence[_Pane], entry: Series, clock: int) -> list[Point]:
    """Backwards from what it is now, so that what lies before the panes is in it."""
    total, count = entry.reading.total, entry.reading.count
    found: list[Point] = []
    for pane in reversed(panes):
        if total is None or count < 0:
            break
        found.append((min(pane.end, clock) / SECOND, *_mean(total, count)))
        total, count = total - pane.total, count - pane.count
    return found[::-1]


def _mean(total: float, count: int) -> tuple[float | None, int]:
    return (total / count if count > 0 and not math.isnan(total) else None), max(count, 0)
