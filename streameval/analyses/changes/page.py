"""Changes on the page: a sentence for each series, and its last days beside what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streameval.analyses.changes.report import CHANGED, Change, ChangesReport
from streameval.analyses.changes.words import (
    chance_text,
    change_text,
    changes_promise,
    day_text,
    sentence,
    set_text,
)
from streameval.exporters.page.charts import Drawing, at_day, line
from streameval.exporters.page.templates import render
from streameval.exporters.view import UNDEFINED
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent

_HALF_DAY: Final = 43_200.0


def section(report: ChangesReport) -> str:
    """A table of all series, and a chart of the total and of each series that changed."""
    changes = sorted(report.changes, key=lambda change: change.verdict not in CHANGED)
    told = [change for change in changes if change.slice is None or change.verdict in CHANGED]
    return render(
        "analyses/changes/section.html",
        told=[(sentence(change), _drawing(change)) for change in told],
        table=_table(changes),
        promise=changes_promise(report),
    )


def _table(changes: Sequence[Change]) -> TextTable[Change]:
    columns: list[TextColumn[Change]] = [
        TextColumn("metric", _name),
        TextColumn("since", _since, "right"),
        TextColumn("change", lambda change: _share(change.effect), "right"),
        TextColumn(
            "by chance alone",
            lambda change: chance_text(change.evidence_days or 0.0) or UNDEFINED,
            "right",
        ),
        TextColumn("lists, of the usual", _lists, "right"),
        TextColumn(
            "verdict",
            change_text,
            tone=lambda change: change.verdict if change.verdict in CHANGED else "",
            more=lambda change: [] if change.reason is None else [(change.reason, "")],
        ),
    ]
    return TextTable(columns, changes, "Watched series")


def _name(change: Change) -> str:
    return change.metric if change.slice is None else f"{change.metric} of {change.slice}"


def _since(change: Change) -> str:
    if change.since is None:
        return UNDEFINED
    return f"{day_text(change.since)}{set_text(change)}"


def _share(share: float | None) -> str:
    return UNDEFINED if share is None else percent(share, "+")


def _lists(change: Change) -> str:
    return UNDEFINED if change.lists_ratio is None else f"{100 * change.lists_ratio:.0f} %"


def _drawing(change: Change) -> Drawing | None:
    """The last days, what is usual, the days of the change, and rollouts; None without a line."""
    points = [(at_day(day.day), day.value) for day in change.days]
    if sum(value is not None for _, value in points) < 2:
        return None
    first, last = change.first, change.last
    name = f"{_name(change)} by day"
    return Drawing(
        title=name,
        label=f"{name}: {sentence(change)}",
        note=" ".join(
            f"{rollout.value} began on {day_text(rollout.day)}." for rollout in change.rollouts
        ),
        lines=[line(_name(change), 0, points)],
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
