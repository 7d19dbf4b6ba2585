"""Gaps on the page: the values of a label with their bands, the possibly worst ones marked."""

from __future__ import annotations

from collections.abc import Iterable

from streameval.analyses.gaps.report import Gap, GapSeries, GapValue
from streameval.analyses.gaps.words import gap_text, worst_text
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.page.templates import number, render
from streameval.inference.table import ForestPlot, TextColumn, TextTable
from streameval.inference.words import confidence_text


def section(gaps: Iterable[GapSeries]) -> str:
    """A table for each gap over the lifetime."""
    lifetime = [series for series in gaps if series.window == LIFETIME]
    return render(
        "analyses/gaps/section.html",
        gaps=[(_name(series), gap_text(series.gap), _table(series)) for series in lifetime],
    )


def _name(series: GapSeries) -> str:
    where = "".join(f", {name}={value}" for name, value in series.labels.items())
    return f"{series.gap.metric} by {series.by}{where}"


def _table(series: GapSeries) -> TextTable[GapValue]:
    gap = series.gap
    ends = _ends(gap)
    columns: list[TextColumn[GapValue]] = [
        TextColumn(series.by, lambda value: value.name),
        TextColumn("mean", lambda value: number(value.mean), "right"),
        TextColumn("interval", lambda _: "", plot=lambda value: _plot(value, gap, ends)),
        TextColumn(
            "",
            lambda value: worst_text(value, gap),
            tone=lambda value: "open" if value.worst else "",
            more=lambda value: [] if value.left_out is None else [(value.left_out, "")],
        ),
    ]
    return TextTable(columns, gap.values, f"Gap of {_name(series)}")


def _ends(gap: Gap) -> tuple[float, float]:
    """The smallest and the largest number drawn."""
    numbers = [
        end
        for value in gap.values
        for end in (value.mean, value.low, value.high)
        if end is not None
    ]
    return min(numbers, default=0.0), max(numbers, default=0.0)


def _plot(value: GapValue, gap: Gap, ends: tuple[float, float]) -> ForestPlot:
    words = number(value.mean)
    if value.low is not None and value.high is not None:
        level = confidence_text(gap.confidence)
        words += f", {level} interval {number(value.low)} to {number(value.high)}"
    return ForestPlot(value.mean, value.low, value.high, ends, words)
