"""`streameval gaps`: the worst and the best value of a field, as a table, JSON or CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from typer import Option

from streameval.analyses.gaps.files import GapsOptions, find_gaps
from streameval.analyses.gaps.report import Gap, GapValue
from streameval.analyses.gaps.words import gap_text
from streameval.evaluation.options import Options
from streameval.evaluation.request import Request, given_options
from streameval.evaluation.result import as_usage_error
from streameval.evaluation.shell.errors import refuse_invalid
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
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.events.errors import InvalidEventError, SourceError
from streameval.exporters.view import figure
from streameval.inference.table import TextColumn, TextTable


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
    forms = Forms(
        partial(_parts, result.gaps, by),
        lambda: {"by": by, "gaps": msgspec.to_builtins(result.gaps)},
        partial(_records, result.gaps, by),
    )
    forms.write(format)
    if result.is_doubtful:
        refuse_invalid(allowed=allow_invalid)


def _records(gaps: Sequence[Gap], by: str) -> Iterator[dict[str, Any]]:
    """One for each metric and value."""
    for gap in gaps:
        whole: dict[str, Any] = msgspec.to_builtins(gap)
        values = whole.pop("values")
        named = {f"gap_{name}": whole.pop(name) for name in ("low", "high")}
        for value in values:
            yield {"metric": whole["metric"], by: value.pop("name")} | value | whole | named


def _parts(gaps: Sequence[Gap], by: str) -> Iterator[str | TextTable[GapValue]]:
    """For each metric its gap in a sentence, and a table of the values."""
    columns: list[TextColumn[GapValue]] = [
        TextColumn(by, lambda value: value.name),
        TextColumn("mean", lambda value: figure(_known(value.mean)), "right"),
        TextColumn("interval", _bounds, "right"),
        TextColumn("", lambda value: "may be the worst" if value.worst else value.left_out or ""),
    ]
    for gap in gaps:
        yield f"{gap.metric} by {by}: {gap_text(gap)}"
        yield TextTable(columns, gap.values)


def _known(mean: float | None) -> float:
    return math.nan if mean is None else mean


def _bounds(value: GapValue) -> str:
    if value.low is None or value.high is None:
        return ""
    return f"{figure(value.low)} to {figure(value.high)}"
