"""The readings of spans of event time as snapshots, for tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot


class SpanReadings(NamedTuple):
    """Readings of a span of event time.

    Attributes:
        start: microseconds since the epoch; None for all time.
    """

    start: int | None
    snapshot: Snapshot


def snapshot_of(families: Sequence[SeriesFamily], series: Sequence[Series]) -> Snapshot:
    """A snapshot of what is counted, without a daemon."""
    return Snapshot(
        version=1,
        taken_at=0.0,
        started_at=0.0,
        source="",
        families=tuple(families),
        series=tuple(series),
        health=Health(),
    )


def page_of(
    title: str, spans: Sequence[SpanReadings], about: Mapping[str, str] = MappingProxyType({})
) -> str:
    """One HTML file with the readings, which loads nothing from elsewhere.

    `about`: how it was made, name and text.
    """
    from streameval.exporters.page import document  # noqa: PLC0415  rarely needed, and takes time

    return f"{document(title, spans, about)}\n"
