"""The readings of spans of event time as snapshots, for tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.engine.spans import Slice
from streameval.evaluation.result import EvaluationCounts


class SpanReadings(NamedTuple):
    """Readings of a span of event time.

    Attributes:
        start: microseconds since the epoch; None for all time.
    """

    start: int | None
    snapshot: Snapshot


def spans_of(counted: EvaluationCounts) -> Sequence[SpanReadings]:
    """The readings of each span, in time order; one without a start unless there are spans."""
    ready: Sequence[SpanReadings] | None = getattr(counted, "spans", None)
    if ready is not None:
        return ready
    family = SeriesFamily("labels", None, tuple(counted.labels))
    metrics = {metric.text: metric for metric in counted.empty().metrics}
    spans = []
    for start, rows in groupby(counted.rows(), key=lambda row: row.start):
        series = tuple(
            Series(metrics[row.reading.metric], tuple(row.labels.values()), row.reading)
            for row in rows
        )
        spans.append(SpanReadings(start, _snapshot((family,), series)))
    return spans


def snapshot_of(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> Snapshot:
    """A snapshot of the readings of slices, given by family."""
    series = tuple(
        Series(metric, labels, part.read(metric), family=number)
        for number, of_family in enumerate(slices)
        for metric in (next(iter(of_family.values())).metrics if of_family else ())
        for labels, part in of_family.items()
    )
    return _snapshot(tuple(families), series, _advice(families, slices))


def _snapshot(
    families: tuple[SeriesFamily, ...], series: tuple[Series, ...], trouble: str | None = None
) -> Snapshot:
    return Snapshot(
        version=1,
        taken_at=0.0,
        started_at=0.0,
        source="",
        families=families,
        series=series,
        health=Health(trouble=trouble),
    )


def _advice(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> str | None:
    for family, of_family in zip(families, slices, strict=True):
        for labels, part in of_family.items():
            if (text := part.advice()) is not None:
                pairs = zip(family.label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                return f"{where}: {text}" if where else text
    return None


def page_of(title: str, spans: Sequence[SpanReadings]) -> str:
    """One HTML file with the readings, which loads nothing from elsewhere."""
    from streameval.exporters.page import document  # noqa: PLC0415  rarely needed, and takes time

    return f"{document(title, spans)}\n"
