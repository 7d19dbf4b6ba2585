"""Sentences about gaps."""

from __future__ import annotations

from streameval.analyses.gaps.statistics import Gap, GapValue
from streameval.exporters.page.templates import number
from streameval.exporters.view import figure
from streameval.inference.text_table import ForestPlot, TextColumn, TextTable
from streameval.inference.words import confidence_text


def gap_text(gap: Gap) -> str:
    """The difference, the ratio and the values that may be the worst, in a sentence or two.

    Example:
        >>> gap_text(Gap(metric="ctr", kind="fixed", confidence=0.95))
        'fewer than two values can be compared.'
        >>> bounds = {"difference": 0.1, "low": 0.0, "high": 0.2}
        >>> gap_text(Gap(metric="ctr", **bounds, kind="fixed", confidence=0.95))
        'difference 0.1000 (0.0000 to 0.2000), which may be chance.'
    """
    if gap.difference is None:
        return "fewer than two values can be compared."
    if gap.low is None or gap.high is None:
        return f"difference {figure(gap.difference)}; nothing varies between users."
    parts = [_with_bounds("difference", gap.difference, gap.low, gap.high)]
    if gap.ratio is not None and gap.ratio_low is not None and gap.ratio_high is not None:
        parts.append(_with_bounds("ratio", gap.ratio, gap.ratio_low, gap.ratio_high))
    chance = ", which may be chance" if gap.low <= 0 else ""
    worst = gap.worst
    named = f" The worst is {'' if len(worst) == 1 else 'one of '}{', '.join(worst)}."
    return f"{', '.join(parts)}{chance}.{named if not chance else ''}"


def gap_table(gap: Gap, by: str, title: str = "") -> TextTable[GapValue]:
    """The values of a label with their intervals; those marked may be the worst.

    `by`: the label.
    """
    numbers = [
        end
        for value in gap.values
        for end in (value.mean, value.low, value.high)
        if end is not None
    ]
    ends = min(numbers, default=0.0), max(numbers, default=0.0)
    mark = "the worst" if len(gap.worst) == 1 else "may be the worst"
    columns: list[TextColumn[GapValue]] = [
        TextColumn(by, lambda value: value.name, is_data=True),
        TextColumn("mean", lambda value: number(value.mean), "right"),
        TextColumn("interval", _bounds, "right", plot=lambda value: _plot(value, gap, ends)),
        TextColumn(
            "",
            lambda value: mark if value.worst else value.left_out or "",
            tone=lambda value: "open" if value.worst else "",
        ),
    ]
    return TextTable(columns, gap.values, title)


def _bounds(value: GapValue) -> str:
    if value.low is None or value.high is None:
        return ""
    return f"{figure(value.low)} to {figure(value.high)}"


def _plot(value: GapValue, gap: Gap, ends: tuple[float, float]) -> ForestPlot:
    bounds = _bounds(value)
    words = f"{number(value.mean)}, {confidence_text(gap.confidence)} interval {bounds}"
    return ForestPlot(
        value.mean, value.low, value.high, ends, words if bounds else number(value.mean)
    )


def _with_bounds(name: str, value: float, low: float, high: float) -> str:
    return f"{name} {figure(value)} ({figure(low)} to {figure(high)})"
