"""Readings as a table for a person; as JSON and CSV with the shortest text that is the value."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Callable, Mapping
from typing import Final

from streameval.cli.ending import output, tell
from streameval.cli.screen import printed
from streameval.exporters.table import table
from streameval.pipeline.snapshot import Series, Snapshot
from streameval.reading import UndefinedReading


def write_readings(snapshot: Snapshot, written_as: str) -> None:
    """Write the readings on standard output, and why any has no value on standard error."""
    for metric, problem in _refusals(snapshot).items():
        tell(f"{metric} has no value: {problem}.")
    with output():
        sys.stdout.write(FORMATS[written_as](snapshot))


def _refusals(snapshot: Snapshot) -> dict[str, str]:
    """What a convention refuses: metric -> why, once however many slices there are."""
    readings = (entry.reading for entry in snapshot.series)
    return {each.metric: each.problem for each in readings if isinstance(each, UndefinedReading)}


def as_json(snapshot: Snapshot) -> str:
    """A list of objects with metric, labels, value (null when undefined) and count."""
    escaped = codecs.lookup(sys.stdout.encoding).name != "utf-8"
    rows = (json.dumps(_row(snapshot, each), ensure_ascii=escaped) for each in snapshot.series)
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
    """The same for a person: up to four slices side by side, more below each other."""
    return printed(table(snapshot))


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
