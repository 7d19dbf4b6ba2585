"""The JSON of /api/v1/history: one metric over time."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streameval.exporters.web.moving import Point, moving
from streameval.pipeline.past import FamilyPast
from streameval.pipeline.snapshot import LIFETIME, Series, Snapshot

PANE = "pane"
"""Asks for each span of event time by itself instead of a window."""

_SECOND = 1_000_000
LONGEST = 400
"""Points of one series; the newest are given."""


class UnknownHistory(Exception):  # noqa: N818  an answer over HTTP, no error of the program
    """There is no such series.

    Args:
        what: was asked for.
        known: what there is.
    """

    def __init__(self, what: str, known: tuple[str, ...]) -> None:
        super().__init__(f"There is no {what}; there is: {', '.join(known) or 'nothing yet'}.")


def history(snapshot: Snapshot, metric: str, window: str, segment: str | None = None) -> bytes:
    """One metric over time, for every slice, as JSON.

    `time` says what points are placed by: `event`, or `wall` where the stream has no time. Each of
    `series` has `labels` and `points`: `[seconds since the epoch, value or null, count or null]`.

    Args:
        snapshot: whose past it is.
        metric: text of the metric as configured.
        window: a window's name, "lifetime", or "pane" for each span of event time by itself.
        segment: name of a segment; None for the labels alone.

    Raises:
        UnknownHistory: the snapshot has no such metric, window or segment.
    """
    series = _asked(snapshot, metric, window, segment)
    past = snapshot.past
    answer = {
        "version": snapshot.version,
        "metric": metric,
        "window": window,
        "segment": segment,
        "time": "wall" if past.clock is None else "event",
        "series": [
            {
                "labels": dict(
                    zip(snapshot.families[entry.family].label_names, entry.labels, strict=True)
                ),
                "points": _points(snapshot, entry, window),
            }
            for entry in series
        ],
    }
    return msgspec.json.encode(answer)


def _asked(snapshot: Snapshot, metric: str, window: str, segment: str | None) -> list[Series]:
    segments = tuple(dict.fromkeys(family.segment for family in snapshot.families))
    if segment not in segments:
        raise UnknownHistory(f"segment {segment!r}", tuple(name for name in segments if name))
    found = [
        entry for entry in snapshot.series if snapshot.families[entry.family].segment == segment
    ]
    of_metric = [entry for entry in found if entry.metric.text == metric]
    if not of_metric:
        known = dict.fromkeys(entry.metric.text for entry in found)
        raise UnknownHistory(f"metric {metric!r}", tuple(known))
    shown = LIFETIME if window == PANE else window
    if all(entry.window != shown for entry in of_metric):
        known = dict.fromkeys((PANE, *(entry.window for entry in of_metric)))
        raise UnknownHistory(f"window {window!r}", tuple(known))
    return [entry for entry in of_metric if entry.window == shown]


def _points(snapshot: Snapshot, entry: Series, window: str) -> list[Point]:
    kept = _kept(snapshot, entry)
    clock = snapshot.past.clock
    derived: list[Point] = []
    if kept is not None and clock is not None:
        derived = moving(kept, entry, clock, window)
    if window == PANE:
        return derived[-LONGEST:]
    seen = list(_seen(snapshot, entry))
    if derived:
        first, last = derived[0][0], derived[-1][0]
        earlier = [point for point in seen if point[0] < first]
        later = [point for point in seen if point[0] > last]
        seen = [*earlier, *derived, *later]
    return seen[-LONGEST:]


def _kept(snapshot: Snapshot, entry: Series) -> FamilyPast | None:
    families = snapshot.past.families
    kept = families[entry.family] if entry.family < len(families) else None
    return kept if kept is not None and entry.metric.text in kept.means else None


def _seen(snapshot: Snapshot, entry: Series) -> Iterator[Point]:
    key = (entry.family, entry.metric.text, entry.labels, entry.window)
    for column in snapshot.past.seen:
        if key in column.places:
            yield column.at, column.value(key), None
