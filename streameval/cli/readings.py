"""Readings as a table, as JSON and as CSV; every value in full, the shortest text that is it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Final

from rich.table import Table

from streameval.cli.screen import printed
from streameval.pipeline.snapshot import Series, Snapshot


def as_json(snapshot: Snapshot) -> str:
    """A list of objects with metric, labels, value (null when undefined) and count."""
    rows = (json.dumps(_row(snapshot, series), ensure_ascii=False) for series in snapshot.series)
    listed = ",\n ".join(rows)
    return f"[{listed}]\n"


def as_csv(snapshot: Snapshot) -> str:
    """One line a reading: metric, a column for each label, value (empty when undefined), count."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["metric", *snapshot.label_names, "value", "count"])
    for series in snapshot.series:
        value = repr(series.reading.value) if series.reading.defined else ""
        writer.writerow([series.metric.text, *series.labels, value, series.reading.count])
    return text.getvalue()


def as_table(snapshot: Snapshot) -> str:
    """The same for a person, with values to six digits; "-" when undefined."""
    table = Table(header_style="bold")
    for name in ("metric", *snapshot.label_names):
        table.add_column(name)
    for name in ("value", "count"):
        table.add_column(name, justify="right")
    for series in snapshot.series:
        table.add_row(series.metric.text, *series.labels, *_numbers(series))
    return printed(table)


FORMATS: Final[Mapping[str, Callable[[Snapshot], str]]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
}


def _row(snapshot: Snapshot, series: Series) -> dict[str, object]:
    reading = series.reading
    return {
        "metric": series.metric.text,
        "labels": dict(zip(snapshot.label_names, series.labels, strict=True)),
        "value": reading.value if reading.defined else None,
        "count": reading.count,
    }


def _numbers(series: Series) -> tuple[str, str]:
    reading = series.reading
    value = f"{reading.value:.6g}" if reading.defined else "-"
    return f"{'~' if reading.estimated else ''}{value}", f"{reading.count:,}"
