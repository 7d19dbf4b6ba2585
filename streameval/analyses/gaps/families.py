"""Gaps between the values of a label as gauges of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from streameval.analyses.gaps.report import GapSeries
from streameval.engine.analysis import Gauge
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.names import slice_labels

_Row: TypeAlias = tuple[GapSeries, dict[str, str]]
"""A gap and the labels of its samples."""

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
    rows = [(gap, _labels_of(gap, legal)) for gap in gaps]
    yield from (_bound(name, text, rows) for name, text in _BOUNDS)
    yield _limits(rows)
    yield Gauge(
        "gap_values",
        "Number of values that are compared.",
        [(labels, float(len(series.gap.compared))) for series, labels in rows],
    )
    yield Gauge(
        "gap_left_out",
        "Number of values that are not compared, mostly for too few users; "
        "/api/v1/metrics has the reasons.",
        [(labels, float(len(series.gap.left_out))) for series, labels in rows],
    )
    yield Gauge(
        "gap_worst",
        "1 for each compared value that may be the worst, 0 for those that surely are not.",
        [
            ({**labels, "value": value.name}, float(value.worst))
            for series, labels in rows
            for value in series.gap.values
            if value.left_out is None
        ],
    )


def _bound(name: str, text: str, rows: Sequence[_Row]) -> Gauge:
    attribute = name.removeprefix("difference_")
    return Gauge(
        f"gap_{name}",
        f"{text} Bounds of the lifetime hold however often you look; those of other windows for "
        "one look, never for alerts. Absent if unknown.",
        [(labels, getattr(series.gap, attribute)) for series, labels in rows],
    )


def _limits(rows: Sequence[_Row]) -> Gauge:
    """The limits, without the label `window`."""
    limits = [
        ({name: value for name, value in labels.items() if name != "window"}, series.at_most)
        for series, labels in rows
        if series.window == LIFETIME
    ]
    return Gauge("gap_at_most", "Largest accepted difference.", limits)


def _labels_of(series: GapSeries, legal: Mapping[str, str]) -> dict[str, str]:
    others = {legal[name]: value for name, value in series.labels.items()}
    return {**others, "metric": series.gap.metric, "by": series.by, "window": series.window}
