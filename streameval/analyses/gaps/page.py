"""Gaps on the page: the values of a label with their bands, the possibly worst ones marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streameval.analyses.gaps.report import Gap, GapSeries, GapValue
from streameval.analyses.gaps.words import gap_text
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.page.markup import Markup, grid, tag
from streameval.exporters.view import UNDEFINED, figure
from streameval.inference.words import confidence_text

_GAP: Final = (
    "A gap is how far the largest and the smallest value of a label are apart: their difference, "
    "and the smaller divided by the larger. In brackets are the intervals of both, which hold for "
    "all pairs of values."
)

_WIDTH: Final = 200.0
"""Width of the plot of a value, in SVG units."""


def section(gaps: Iterable[GapSeries]) -> Markup:
    """A table for each gap over the lifetime."""
    return tag(
        "",
        tag("p", _GAP, kind="quiet"),
        *(_card(gap) for gap in gaps if gap.window == LIFETIME),
    )


def _card(series: GapSeries) -> Markup:
    gap = series.gap
    where = "".join(f", {name}={value}" for name, value in series.labels.items())
    name = f"{gap.metric} by {series.by}{where}"
    scale = _scale(gap)
    columns = {series.by: "", "mean": "number", "interval": "plot", "": ""}
    return tag(
        "",
        tag("p", tag("code", name), ": ", gap_text(gap)),
        grid(
            f"Gap of {name}",
            columns,
            [_row(value, gap, scale) for value in gap.values],
            kind="rows forest",
            seen=False,
        ),
    )


def _row(value: GapValue, gap: Gap, scale: tuple[float, float]) -> Markup:
    words = "the worst" if len(gap.worst) == 1 else "may be the worst"
    mark = tag("strong", words) if value.worst else Markup()
    if value.left_out is not None:
        mark = tag("small", value.left_out)
    return tag(
        "tr",
        tag("th", value.name, scope="row"),
        tag("td", UNDEFINED if value.mean is None else figure(value.mean), data_head="mean"),
        tag("td", _plot(value, gap, scale), kind="plot"),
        tag("td", mark, kind="said"),
    )


def _scale(gap: Gap) -> tuple[float, float]:
    """The smallest and the largest number drawn."""
    ends = [
        end
        for value in gap.values
        for end in (value.mean, value.low, value.high)
        if end is not None
    ]
    return min(ends, default=0.0), max(ends, default=0.0)


def _plot(value: GapValue, gap: Gap, scale: tuple[float, float]) -> Markup:
    """A dot for the mean and a line for its interval."""
    if value.mean is None:
        return Markup()
    drawn, words = [], figure(value.mean)
    if value.low is not None and value.high is not None:
        low, high = (_x(end, scale) for end in (value.low, value.high))
        drawn.append(tag("line", x1=low, x2=high, y1="0", y2="0", kind="span"))
        percent = confidence_text(gap.confidence)
        words += f", {percent} interval {figure(value.low)} to {figure(value.high)}"
    drawn.append(tag("circle", cx=_x(value.mean, scale), cy="0", r="3.5"))
    return tag("svg", *drawn, viewBox=f"-4 -9 {_WIDTH + 8:g} 18", role="img", aria_label=words)


def _x(number: float, scale: tuple[float, float]) -> str:
    low, high = scale
    return f"{_WIDTH * (number - low) / (high - low) if high > low else _WIDTH / 2:.1f}"
