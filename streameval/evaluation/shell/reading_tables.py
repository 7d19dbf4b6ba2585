"""Readings as a table for people, and as JSON and CSV with exact values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.text import Text

from streameval.catalogue.reading import UndefinedReading
from streameval.engine.snapshot import Series, Snapshot
from streameval.evaluation.shell.exits import report
from streameval.evaluation.shell.terminal import Forms, command_text
from streameval.evaluation.span_readings import (
    SpanReadings,
    label_column,
    page_of,
    records_of,
)
from streameval.events.printable import printable
from streameval.exporters.view import (
    ESTIMATE_WARNING,
    Division,
    by_slice,
    certainty,
    divisions,
    figure,
    has_estimates,
)
from streameval.inference.text_table import TextColumn, TextTable

_SIDE_BY_SIDE: Final = 4
"""Most slices shown side by side; more have a row each."""


def write_series(
    spans: Sequence[SpanReadings], format_name: str, title: str = "", to: Path | None = None
) -> None:
    """Write the readings of spans in order; reasons for missing values go to standard error.

    `title`: heading of the format "html". `to`: a file; None for standard output.
    """
    readings = [entry.reading for span in spans for entry in span.snapshot.series]
    refused = [reading for reading in readings if isinstance(reading, UndefinedReading)]
    for metric, problem in {reading.metric: reading.problem for reading in refused}.items():
        report(f"{metric} has no value: {problem}.")
    forms = Forms(
        lambda: _parts(spans),
        lambda: list(records_of(spans)),
        lambda: _rows(spans),
        {"html": lambda: page_of(title, spans, command_text())},
    )
    forms.write(format_name, to)


def _label_names(spans: Iterable[SpanReadings]) -> list[str]:
    families = (family for span in spans for family in span.snapshot.families)
    return list(dict.fromkeys(name for family in families for name in family.label_names))


def _rows(spans: Sequence[SpanReadings]) -> Iterator[dict[str, Any]]:
    """Rows, one for each reading: metric, each label, value (None if undefined) and count.

    The span's start comes first, and the window before the value, if there are any; estimated,
    low and high come last, if any value is inexact, then the bounds of intervals.
    """
    objects, labels = list(records_of(spans)), _label_names(spans)

    def present(*names: str) -> list[str]:
        return [name for name in names if any(name in row for row in objects)]

    front = [*present("start"), "metric"]
    behind = [*present("window"), "value", "count", *present("estimated", "low", "high")]
    ends = [end for _ in present("interval") for end in ("low", "high")]
    for row in objects:
        bounds = row.get("interval") or {}
        yield {
            **{name: row.get(name) for name in front},
            **{label_column(name): row["labels"].get(name) for name in labels},
            **{name: row.get(name) for name in behind},
            **{f"interval_{end}": bounds.get(end) for end in ends},
        }


class _Line(NamedTuple):
    """The words of a row, and its readings by window, by labels, or under None if there is one."""

    words: Sequence[str]
    series: Mapping[Any, Series]


def _parts(spans: Sequence[SpanReadings]) -> Iterator[TextTable[_Line] | Text]:
    """Tables for people: up to four slices side by side, more one per row, as are spans."""
    if all(span.start is None for span in spans):
        for span in spans:
            yield from tables(span.snapshot)
        return
    names, rows = _label_names(spans), []
    for span in spans:
        begin, snapshot = span.begin or "", span.snapshot
        for entry in snapshot.series:
            labels = snapshot.labels_of(entry)
            words = (begin, entry.metric.text, *(labels.get(name, "") for name in names))
            rows.append(_Line(words, {None: entry}))
    yield _line_table(("start", "metric", *names), rows)


def tables(snapshot: Snapshot) -> Iterator[TextTable[_Line] | Text]:
    """Values with their counts: a row for each metric, a column for each slice.

    More than four slices get a row each. With windows, the columns are the windows. Each segment
    has its own table. An undefined value is a dash. Below are other names, where peers count
    otherwise, and the warning about estimates, a line each.
    """
    splits = divisions(snapshot)
    if not splits:
        yield TextTable(_words(["metric"]), [])
    for number, division in enumerate(splits):
        yield _table(division, f"by {division.by}" if number else "")
    for metric in dict.fromkeys(entry.metric for entry in snapshot.series):
        for sentence in metric.naming:
            yield Text(f"{sentence}.")
    estimates = [entry for entry in snapshot.series if has_estimates([entry.metric])]
    if estimates:
        yield Text(ESTIMATE_WARNING)
    for entry in estimates:
        reading = entry.reading
        for sentence in filter(None, (reading.no_interval, reading.note)):
            words = (entry.metric.text, *entry.labels)
            yield Text(f"{' / '.join(map(printable, words))}: {sentence}")


def _table(division: Division, title: str) -> TextTable[_Line]:
    words = ["metric", *division.family.label_names]
    heads: Mapping[Any, str]
    slices = list(dict.fromkeys(entry.labels for _, of in division.metrics for entry in of))
    if division.windowed:
        heads = {window: window for window in division.windows}
        rows = [
            _Line((metric.text, *of), by_window)
            for metric, series in division.metrics
            for of, by_window in by_slice(series).items()
        ]
    elif len(slices) > _SIDE_BY_SIDE:
        entries = [entry for _, series in division.metrics for entry in series]
        rows = [_Line((entry.metric.text, *entry.labels), {None: entry}) for entry in entries]
        return _line_table(words, rows, title)
    else:
        words, heads = ["metric"], {labels: " / ".join(labels) or "value" for labels in slices}
        rows = [
            _Line((metric.text,), {entry.labels: entry for entry in series})
            for metric, series in division.metrics
        ]
    columns = [*_words(words), *(_reading(key, head) for key, head in heads.items())]
    return TextTable(columns, rows, title)


def _line_table(heads: Iterable[str], rows: Sequence[_Line], title: str = "") -> TextTable[_Line]:
    value = TextColumn[_Line]("value", lambda row: _value(row.series[None]), "right")
    count = TextColumn[_Line]("count", lambda row: f"{row.series[None].reading.count:,}", "right")
    return TextTable([*_words(heads), value, count], rows, title)


def _words(heads: Iterable[str]) -> list[TextColumn[_Line]]:
    def column(number: int, head: str) -> TextColumn[_Line]:
        return TextColumn(head, lambda row: row.words[number])

    return [column(number, head) for number, head in enumerate(heads)]


def _reading(key: object, head: str) -> TextColumn[_Line]:
    """Values with their counts; empty where there is none."""
    return TextColumn(
        head,
        lambda row: _value(row.series[key]) if key in row.series else "",
        "right",
        aside=lambda row: f"  of {row.series[key].reading.count:,}" if key in row.series else "",
    )


def _value(entry: Series) -> str:
    reading = entry.reading
    value = reading.value if reading.defined else math.nan
    mark = ["estimate"] if has_estimates([entry.metric]) else []
    details = ", ".join(filter(None, (*mark, certainty(reading), reading.verdict)))
    return f"{figure(value)} ({details})" if details else figure(value)
