"""Readings as records, and as a page to send to a colleague."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.engine.windows.times import Spans


class SpanReadings(NamedTuple):
    """Readings of a span.

    Attributes:
        start: microseconds since the epoch; None for all time.
        every: the spans; None for all time.
    """

    start: int | None
    snapshot: Snapshot
    every: Spans | None = None

    @property
    def begin(self) -> str | None:
        """The start as text; None for all time."""
        if self.start is None or self.every is None:
            return None
        return self.every.text(self.start)


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

    drawn = [
        (at if at is None or every is None else every.drawn_at(at), snapshot)
        for at, snapshot, every in spans
    ]
    return f"{document(title, drawn, about, spans[-1].begin)}\n"


def records_of(spans: Sequence[SpanReadings]) -> Iterator[dict[str, Any]]:
    """Records, one for each reading: metric, labels, value (None if undefined) and count.

    `start` of the span, `window` and `since` (the value is complete from then on) are present only
    if there are any; `estimated`, `low` and `high` only for inexact values, None without bounds.
    With intervals, `interval` is an object, or None with the reason in `no_interval`. `estimate`,
    `weight`, `verdict` and `note` are present only if there are any.
    """
    windowed = any(span.snapshot.has_windows for span in spans)
    for span in spans:
        for entry in span.snapshot.series:
            reading = entry.reading
            fields: dict[str, Any] = {}
            if (begin := span.begin) is not None:
                fields["start"] = begin
            fields |= {"metric": entry.metric.text, "labels": span.snapshot.labels_of(entry)}
            if windowed:
                fields["window"] = entry.window
            if entry.since is not None:
                fields["since"] = entry.since
            value = reading.value if reading.defined else None
            fields |= {"value": value, "count": reading.count}
            if reading.estimated or reading.low is not None:
                fields |= {
                    "estimated": reading.estimated,
                    "low": reading.low,
                    "high": reading.high,
                }
            if reading.interval is not None:
                fields["interval"] = msgspec.structs.asdict(reading.interval)
            elif reading.no_interval is not None:
                fields |= {"interval": None, "no_interval": reading.no_interval}
            remarks = {
                "estimate": entry.metric.definition.estimates_policy or None,
                "weight": reading.weight,
                "verdict": reading.verdict,
                "note": reading.note,
            }
            yield fields | {name: text for name, text in remarks.items() if text is not None}


_COLUMNS: Final = frozenset(
    {"start", "metric", "window", "value", "low", "high", "count", "lists", "users", "estimated"}
)


def label_column(name: str) -> str:
    """The column of a label in a table of readings, which has columns of its own.

    Example:
        >>> label_column("variant"), label_column("value")
        ('variant', 'label_value')
    """
    return f"label_{name}" if name in _COLUMNS else name
