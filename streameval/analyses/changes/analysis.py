"""Changes that a configuration watches for: did it get worse, and since when?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from streameval.analyses.changes.monitoring import gauge_label, monitoring
from streameval.analyses.changes.reader import change_reader
from streameval.analyses.changes.report import (
    CHANGED,
    Change,
    ChangeSettings,
    ChangesReport,
    ChangeVerdict,
    change_problems,
)
from streameval.analyses.changes.words import (
    changes_promise,
    changes_table,
    day_text,
    sentence,
    series_name,
    until_text,
    with_sentences,
)
from streameval.engine.analysis import Analysis, Gauge
from streameval.exporters.page.charts import Drawing, at_day, chart_line
from streameval.exporters.page.templates import render
from streameval.inference.days import Calendar, calendar_of, number_of_day

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


def change_gauges(report: ChangesReport) -> Iterator[Gauge]:
    """Gauges of every series that is watched; one label names the slice, the total has none."""
    label = gauge_label(report.settings.label)
    calendar = calendar_of(report.time_zone)
    rows: list[tuple[Change, dict[str, str]]] = []
    for change in report.changes:
        named = {} if change.slice is None else {label: change.slice}
        rows.append((change, {"metric": change.metric, "against": change.against, **named}))
    for name, attribute, text in _GAUGES:
        values = [(labels, getattr(change, attribute)) for change, labels in rows]
        yield Gauge(f"change_{name}", f"{text} Absent if unknown.", values)
    yield Gauge(
        "change_evidence_days",
        "Chance alone shows as much evidence of a change at most once in so many days, over all "
        "series together; up to 1e300. An alert above 91 is false at most once in 91 days; below "
        "28 there is no evidence. Absent for series that are not judged.",
        [
            ({**labels, "direction": direction}, days)
            for change, labels in rows
            for direction, days in _directions(change)
        ],
    )
    yield Gauge(
        "change_since_timestamp_seconds",
        "Day on which a change most likely began, seconds since the epoch; absent without one.",
        [
            (labels, _begin(change.since, calendar))
            for change, labels in rows
            if change.since is not None
        ],
    )
    yield Gauge(
        "change_verdict",
        "1 for the verdict on a series, 0 for all other verdicts.",
        [
            ({**labels, "verdict": verdict.value}, float(change.verdict == verdict))
            for change, labels in rows
            for verdict in ChangeVerdict
        ],
    )
    until = report.until
    yield Gauge(
        "change_until_timestamp_seconds",
        "End of the last day that the verdicts count, seconds since the epoch.",
        [] if until is None else [({}, _begin(until + timedelta(1), calendar))],
    )


def _directions(change: Change) -> tuple[tuple[str, float | None], ...]:
    if change.worse_days is not None and change.better_days is None:
        return (("any", change.worse_days),)
    return ("worse", change.worse_days), ("better", change.better_days)


def _begin(day: date, calendar: Calendar) -> float:
    """The time at which a day begins, seconds since the epoch."""
    return calendar.begin(number_of_day(day)) / 1e6


_HALF_DAY: Final = 43_200.0


def section(report: ChangesReport) -> str:
    """A table of all series, and a chart of the total and of each series that changed."""
    changes = sorted(report.changes, key=lambda change: change.verdict not in CHANGED)
    reported = [change for change in changes if change.slice is None or change.verdict in CHANGED]
    return render(
        "analyses/changes/section.html",
        reported=[(sentence(change), _drawing(change)) for change in reported],
        table=changes_table(changes, f"Watched series {until_text(report)}".rstrip()),
        promise=changes_promise(report),
    )


def _drawing(change: Change) -> Drawing | None:
    """The last days, what is usual, the days of the change, and rollouts; None without a line."""
    points = [(at_day(day.day), day.value) for day in change.days]
    if sum(value is not None for _, value in points) < 2:
        return None
    first, last = change.first, change.last
    name = f"{series_name(change)} by day"
    return Drawing(
        title=name,
        label=f"{name}: {sentence(change)}",
        note=" ".join(
            f"{rollout.value} began on {day_text(rollout.day)}." for rollout in change.rollouts
        ),
        lines=[chart_line(series_name(change), 0, points)],
        band=[
            (at_day(day.day), day.low, day.high)
            for day in change.days
            if day.low is not None and day.high is not None
        ],
        # Each day is half before its noon.
        span=None
        if first is None or last is None
        else (at_day(first) - _HALF_DAY, at_day(last) + _HALF_DAY),
        marks=[at_day(rollout.day) for rollout in change.rollouts],
    )


def _answer(report: ChangesReport | None) -> ChangesReport:
    return with_sentences(report or ChangesReport())


CHANGES: Final = Analysis(
    name="changes",
    title="Changes",
    table="changes",
    settings=ChangeSettings,
    describes="series watched for changes; needs `intervals` and event time.",
    check=change_problems,
    reader=change_reader,
    gauges=change_gauges,
    section=section,
    answer=_answer,
    answers=ChangesReport,
    about="Did it get worse, and since when? The watched series.",
    is_alone=True,
    monitoring=monitoring,
)
