"""Gaps between the values of a label as gauges of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streameval.analyses.gaps.report import GapSeries
from streameval.engine.analysis import Gauge
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.names import slice_labels

_BOUNDS: Final = (
    ("difference", "Largest mean of a value minus the smallest."),
    ("difference_low", "Lower bound of the difference, at least 0; above 0 the values differ."),
    ("difference_high", "Upper bound of the difference."),
    ("ratio", "Smallest mean / largest mean."),
    ("ratio_low", "Lower bound of the ratio."),
    ("ratio_high", "Upper bound of the ratio, at most 1."),
)
"""Name of a gauge, and the HELP text."""


def gap_gauges(gaps: Sequence[GapSeries]) -> Iterator[Gauge]:
    """Gauges of every gap: its difference, its ratio, and which values may be the worst."""
    names = tuple(dict.fromkeys(name for gap in gaps for name in gap.labels))
    legal = dict(zip(names, slice_labels(names, [], ("by", "metric", "value")), strict=True))
    rows: list[tuple[GapSeries, dict[str, str]]] = []
    for series in gaps:
        others = {legal[name]: value for name, value in series.labels.items()}
        rows.append((series, {**others, "metric": series.gap.metric, "by": series.by}))
    windowed = [(series, {**labels, "window": series.window}) for series, labels in rows]
    for name, text in _BOUNDS:
        attribute = name.removeprefix("difference_")
        yield Gauge(
            f"gap_{name}",
            f"{text} Bounds of the lifetime hold however often you look; those of other windows "
            "for one look, never for alerts. Absent if unknown.",
            [(labels, getattr(series.gap, attribute)) for series, labels in windowed],
        )
    yield Gauge(
        "gap_at_most",
        "Largest accepted difference.",
        [(labels, series.at_most) for series, labels in rows if series.window == LIFETIME],
    )
    yield Gauge(
        "gap_values",
        "Number of values that are compared.",
        [(labels, float(len(series.gap.compared))) for series, labels in windowed],
    )
    yield Gauge(
        "gap_left_out",
        "Number of values that are not compared, mostly for too few users; "
        "/api/v1/metrics has the reasons.",
        [(labels, float(len(series.gap.left_out))) for series, labels in windowed],
    )
    yield Gauge(
        "gap_worst",
        "1 for each compared value that may be the worst, 0 for those that surely are not.",
        [
            ({**labels, "value": value.name}, float(value.worst))
            for series, labels in windowed
            for value in series.gap.values
            if value.left_out is None
        ],
    )
