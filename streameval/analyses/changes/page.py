"""Changes on the page: a sentence for each series, and its last days beside what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streameval.analyses.changes.report import CHANGED, Change, ChangeDay, ChangesReport
from streameval.analyses.changes.words import (
    chance_text,
    change_text,
    changes_promise,
    day_text,
    sentence,
    set_text,
)
from streameval.exporters.page.markup import Markup, grid, tag
from streameval.exporters.view import UNDEFINED, figure
from streameval.inference.words import percent

_CHANCE: Final = "by chance alone"
_LISTS: Final = "lists, of the usual"

_DRAWING: Final = (
    "The line is the value by day, and the grey band is what is usual for the day. A change may "
    "have begun on the coloured days; a mark at the top is the first day of a rollout."
)

_WIDTH: Final = 630.0
_HEIGHT: Final = 100.0
"""Size of a chart, in SVG units; it is stretched to the room that it has."""


def section(report: ChangesReport) -> Markup:
    """A table of all series, and a chart of the total and of each series that changed."""
    changes = sorted(report.changes, key=lambda change: change.verdict not in CHANGED)
    columns = {"metric": ""} | dict.fromkeys(("since", "change", _CHANCE, _LISTS), "number")
    columns["verdict"] = ""
    drawn = [change for change in changes if change.slice is None or change.verdict in CHANGED]
    return tag(
        "",
        tag("p", _DRAWING, kind="quiet") if drawn else "",
        *(_chart(change) for change in drawn),
        grid(
            "Watched series",
            columns,
            map(_row, changes),
            frame="card",
            kind="rows forest",
            seen=False,
        ),
        tag("p", changes_promise(report), kind="quiet"),
    )


def _row(change: Change) -> Markup:
    since = UNDEFINED
    if change.since is not None:
        since = f"{day_text(change.since)}{set_text(change)}"
    ratio, days = change.lists_ratio, change.evidence_days
    verdict = tag("strong", change_text(change)) if change.verdict in CHANGED else change.verdict
    reason = Markup() if change.reason is None else tag("small", change.reason)
    return tag(
        "tr",
        tag("th", _name(change), scope="row"),
        tag("td", since, data_head="since"),
        tag("td", _share(change.effect), data_head="change", kind="number"),
        tag("td", UNDEFINED if days is None else chance_text(days) or UNDEFINED, data_head=_CHANCE),
        tag("td", UNDEFINED if ratio is None else f"{100 * ratio:.0f} %", data_head=_LISTS),
        tag("td", verdict, reason, kind="said"),
    )


def _name(change: Change) -> str:
    return change.metric if change.slice is None else f"{change.metric} of {change.slice}"


def _share(share: float | None) -> str:
    return UNDEFINED if share is None else percent(share, "+")


def _chart(change: Change) -> Markup:
    """The last days as a line, what is usual as a band, the day of the change, and rollouts."""
    values = [day.value for day in change.days if day.value is not None]
    # Without a break before the percent sign on a narrow screen.
    said = tag("p", sentence(change).replace(" %", "\N{NO-BREAK SPACE}%"))
    if len(values) < 2:
        return tag("div", said, kind="card days")
    numbers = [
        number
        for day in change.days
        for number in (day.value, day.low, day.high)
        if number is not None
    ]
    scale = min(numbers), max(numbers)
    svg = tag(
        "svg",
        *_marks(change),
        *_band(change.days, scale),
        *_line(change.days, scale),
        viewBox=f"0 -4 {_WIDTH:g} {_HEIGHT + 8:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{_name(change)} by day: {sentence(change)}",
    )
    ends = (day_text(change.days[0].day), day_text(change.days[-1].day))
    span = f"from {figure(scale[0])} to {figure(scale[1])}"
    below = tag("p", tag("span", ends[0]), tag("span", span), tag("span", ends[1]), kind="ends")
    return tag("div", said, svg, below, kind="card days changes")


def _line(days: Sequence[ChangeDay], scale: tuple[float, float]) -> list[Markup]:
    """Lines through consecutive days; a day without lists leaves a gap."""
    runs: list[list[str]] = [[]]
    for index, day in enumerate(days):
        if day.value is None:
            runs.append([])
        else:
            runs[-1].append(f"{_x(index, days)},{_y(day.value, scale)}")
    return [tag("polyline", points=" ".join(run)) for run in runs if run]


def _band(days: Sequence[ChangeDay], scale: tuple[float, float]) -> list[Markup]:
    banded = [
        (index, day.low, day.high)
        for index, day in enumerate(days)
        if day.low is not None and day.high is not None
    ]
    if len(banded) < 2:
        return []
    upper = [f"{_x(index, days)},{_y(high, scale)}" for index, _, high in banded]
    lower = [f"{_x(index, days)},{_y(low, scale)}" for index, low, _ in reversed(banded)]
    return [tag("polygon", points=" ".join([*upper, *lower]), kind="usual")]


def _marks(change: Change) -> list[Markup]:
    """The days on which the change may have begun, the likeliest, and the rollouts."""
    indices = {day.day: index for index, day in enumerate(change.days)}
    marks = []
    first, last = change.first, change.last
    if first is not None and last is not None and first in indices and last in indices:
        left, right = indices[first], indices[last]
        step = _WIDTH / max(len(indices) - 1, 1)
        start = max(left - 0.5, 0.0) * step
        width = min((right + 0.5) * step, _WIDTH) - start
        size = {"x": f"{start:.1f}", "width": f"{width:.1f}", "y": "-4"}
        marks.append(tag("rect", kind="began", height=f"{_HEIGHT + 8:g}", **size))
    for rollout in change.rollouts:
        if rollout.day in indices:
            x = _x(indices[rollout.day], change.days)
            words = tag("title", f"{rollout.value} began on {day_text(rollout.day)}")
            marks.append(tag("line", words, x1=x, x2=x, y1="-4", y2="12", kind="rollout"))
    return marks


def _x(index: int, days: Sequence[ChangeDay]) -> str:
    return f"{_WIDTH * index / max(len(days) - 1, 1):.1f}"


def _y(number: float, scale: tuple[float, float]) -> str:
    low, high = scale
    return f"{_HEIGHT * (high - number) / (high - low) if high > low else _HEIGHT / 2:.1f}"
