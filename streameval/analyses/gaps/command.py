"""`streameval compare --gap`: the worst and the best value of a field, as a table, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from streameval.analyses.gaps.files import compare_values
from streameval.analyses.gaps.report import Gap
from streameval.analyses.gaps.words import gap_text
from streameval.evaluation.offline.request import ExperimentOptions, Request
from streameval.evaluation.shell.errors import output, refuse_invalid
from streameval.evaluation.shell.terminal import SURROUNDINGS, csv_text, json_text, render
from streameval.evaluation.stores import method_of
from streameval.exporters.view import UNDEFINED, figure


def write_gaps(request: Request, options: ExperimentOptions, by: str) -> None:
    """Compare the values of a field with each other, and write the gaps."""
    method = method_of(request, options, SURROUNDINGS)
    result = compare_values(request, options, by, method, SURROUNDINGS)
    with output():
        sys.stdout.write(_FORMATS[request.format](result.gaps, by))
    if result.is_doubtful:
        refuse_invalid(allowed=request.allow_invalid)


def _as_json(gaps: Sequence[Gap], by: str) -> str:
    """An object: the field, and a list of gaps; null if unknown."""
    return json_text({"by": by, "gaps": msgspec.to_builtins(gaps)}, indent=1) + "\n"


def _as_csv(gaps: Sequence[Gap], by: str) -> str:
    """One line for each metric and value."""
    rows = [row for gap in gaps for row in _flat(gap, by)]
    return csv_text(rows[0], (row.values() for row in rows))


def _flat(gap: Gap, by: str) -> Iterator[dict[str, Any]]:
    whole: dict[str, Any] = msgspec.to_builtins(gap)
    del whole["values"]
    named = {f"gap_{name}": whole.pop(name) for name in ("low", "high")}
    for gap_value in gap.values:
        value: dict[str, Any] = msgspec.to_builtins(gap_value)
        yield {"metric": whole["metric"], by: value.pop("name")} | value | whole | named


def _as_table(gaps: Sequence[Gap], by: str) -> str:
    """For each metric its gap in a sentence, and a table of the values."""
    return "".join(
        f"{gap.metric} by {by}: {gap_text(gap)}\n{render(_grid(gap, by))}" for gap in gaps
    )


def _grid(gap: Gap, by: str) -> Table:
    grid = Table(header_style="bold")
    grid.add_column(by, overflow="fold")
    grid.add_column("mean", justify="right")
    grid.add_column("interval", justify="right")
    grid.add_column("")
    for value in gap.values:
        bounds = "" if value.low is None or value.high is None else _bounds(value.low, value.high)
        note = "may be the worst" if value.worst else value.left_out or ""
        mean = UNDEFINED if value.mean is None else figure(value.mean)
        grid.add_row(*map(Text, (value.name, mean, bounds, note)))
    return grid


def _bounds(low: float, high: float) -> str:
    return f"{figure(low)} to {figure(high)}"


_FORMATS: Final[Mapping[str, Callable[[Sequence[Gap], str], str]]] = {
    "table": _as_table,
    "json": _as_json,
    "csv": _as_csv,
}
