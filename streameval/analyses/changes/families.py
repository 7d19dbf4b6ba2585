"""Gauges of series that are watched for changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, get_args

from streameval.analyses.changes.report import Change, ChangesReport, ChangeVerdict
from streameval.engine.analysis import Gauge
from streameval.exporters.names import slice_labels

_GAUGES: Final = (
    ("ratio", "effect", "Relative change since the day on which it most likely began."),
    ("low_ratio", "low", "Lower bound of the change; absent without one."),
    ("high_ratio", "high", "Upper bound of the change; absent without one."),
    (
        "lists_ratio",
        "lists_ratio",
        "Lists of the last closed day, relative to the same weekday of earlier weeks.",
    ),
    (
        "mix_ratio",
        "mix",
        "Part of the relative change that is the audience: other shares of the segments.",
    ),
)
"""Name of a gauge, the attribute of a change, and the HELP text."""

_OWN: Final = frozenset({"against", "direction", "metric", "verdict"})
"""Labels of these gauges."""


def change_gauges(report: ChangesReport) -> Iterator[Gauge]:
    """Gauges of every series that is watched; one label names the slice, the total has none."""
    (slice_name,) = slice_labels([report.settings.label or ""], [])
    slice_name = f"label_{slice_name}" if slice_name in _OWN else slice_name
    rows: list[tuple[Change, dict[str, str]]] = []
    for change in report.changes:
        named = {} if change.slice is None else {slice_name: change.slice}
        rows.append((change, {"metric": change.metric, "against": change.against, **named}))
    for name, attribute, text in _GAUGES:
        values = [(labels, getattr(change, attribute)) for change, labels in rows]
        yield Gauge(f"change_{name}", f"{text} Absent if unknown.", values)
    yield Gauge(
        "change_evidence_days",
        "Chance alone shows as much evidence of a change at most once in so many days, over all "
        "series together; up to 1e300. An alert above 91 is false at most once in 91 days; below "
        "28 it is no evidence. Absent for series that are not judged.",
        [
            ({**labels, "direction": direction}, days)
            for change, labels in rows
            for direction, days in _directions(change)
        ],
    )
    yield Gauge(
        "change_since_timestamp_seconds",
        "Day on which a change most likely began, seconds since the epoch; absent without one.",
        [(labels, _seconds(change.since)) for change, labels in rows if change.since is not None],
    )
    yield Gauge(
        "change_verdict",
        "1 for the verdict on a series, 0 for all other verdicts.",
        [
            ({**labels, "verdict": verdict}, float(change.verdict == verdict))
            for change, labels in rows
            for verdict in get_args(ChangeVerdict)
        ],
    )
    until = report.until
    yield Gauge(
        "change_until_timestamp_seconds",
        "End of the last day that the verdicts count, seconds since the epoch.",
        [] if until is None else [({}, _seconds(until + timedelta(1)))],
    )


def _directions(change: Change) -> tuple[tuple[str, float | None], ...]:
    if change.worse_days is not None and change.better_days is None:
        return (("any", change.worse_days),)
    return ("worse", change.worse_days), ("better", change.better_days)


def _seconds(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
