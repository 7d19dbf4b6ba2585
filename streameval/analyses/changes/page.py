"""Changes on the page: a sentence for each series, and its last days beside what is usual."""

from __future__ import annotations

from typing import Final

from streameval.analyses.changes.report import CHANGED, Change, ChangesReport
from streameval.analyses.changes.words import (
    changes_promise,
    changes_table,
    day_text,
    sentence,
    series_name,
)
from streameval.exporters.page.charts import Drawing, at_day, chart_line
from streameval.exporters.page.templates import render

_HALF_DAY: Final = 43_200.0


def section(report: ChangesReport) -> str:
    """A table of all series, and a chart of the total and of each series that changed."""
    changes = sorted(report.changes, key=lambda change: change.verdict not in CHANGED)
    told = [change for change in changes if change.slice is None or change.verdict in CHANGED]
    return render(
        "analyses/changes/section.html",
        told=[(sentence(change), _drawing(change)) for change in told],
        table=changes_table(changes, "Watched series"),
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
