"""`streameval gaps`: the worst and the best value of a field, as a table, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from rich.table import Table
from rich.text import Text
from typer import Option

from streameval.analyses.gaps.files import GapsOptions, find_gaps
from streameval.analyses.gaps.report import Gap
from streameval.analyses.gaps.words import gap_text
from streameval.evaluation.options import Options
from streameval.evaluation.request import Request, given_options
from streameval.evaluation.result import as_usage_error
from streameval.evaluation.shell.errors import output, refuse_invalid
from streameval.evaluation.shell.options import (
    AllowInvalid,
    Columns,
    Confidence,
    ConfigFile,
    Format,
    MethodOption,
    Metrics,
    Paths,
    Precision,
    Processes,
    Separators,
    TimeField,
    UnitOfTime,
    columns_option,
    events_given,
    separators_option,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, csv_text, json_text, render
from streameval.events.errors import InvalidEventError, SourceError
from streameval.exporters.view import UNDEFINED, figure


def gaps(  # noqa: PLR0913  each is an option of the command
    paths: Paths = None,
    *,
    by: Annotated[
        str, Option(metavar="FIELD", help="Field whose values are compared, like country.")
    ],
    metric: Metrics = None,
    method: MethodOption = None,
    confidence: Confidence = None,
    precision: Precision = None,
    column: Columns = None,
    separator: Separators = None,
    config: ConfigFile = None,
    time: TimeField = None,
    time_unit: UnitOfTime = None,
    processes: Processes = 1,
    allow_invalid: AllowInvalid = False,
    format: Format = "table",  # noqa: A002  the option is called --format
) -> None:
    """Compare the values of a field: which is served worst, and by how much at least?

    ```
    streameval gaps events.ndjson -m ndcg@10 -m ctr --by country
    streameval gaps state --by country    # what a daemon has saved, all partitions together
    ```

    Bounds hold for all pairs of values together, so the worst and the best may be chosen for being
    extreme. Events must name their users, in 256 groups. Values with too few users, `__missing__`
    and `__other__` are shown and not compared.
    """
    options = Options(
        metrics=metric or [],
        columns=columns_option(column or [], time),
        time_unit=time_unit,
        separator=separators_option(separator or []),
        config=config,
        processes=processes,
    )
    intervals = given_options(confidence=confidence, precision=precision)
    with as_usage_error(SourceError, InvalidEventError):
        request = Request(events_given(paths or [], options), options)
        result = find_gaps(request, GapsOptions(by, method, intervals), SURROUNDINGS)
    with output():
        sys.stdout.write(_FORMATS[format](result.gaps, by))
    if result.is_doubtful:
        refuse_invalid(allowed=allow_invalid)


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
    return "".join(render(f"{gap.metric} by {by}: {gap_text(gap)}", _grid(gap, by)) for gap in gaps)


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
