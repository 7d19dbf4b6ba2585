"""`streameval gaps`: the worst and the best value of a field, as a table, JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from typer import Option

from streameval.analyses.gaps.files import GapsOptions, find_gaps
from streameval.analyses.gaps.report import Gap, GapValue
from streameval.analyses.gaps.words import gap_table, gap_text
from streameval.evaluation.result import as_usage_error
from streameval.evaluation.shell.options import (
    Format,
    IntervalOptions,
    MethodOption,
    ReadOptions,
    with_fields,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.events.errors import InvalidEventError, SourceError
from streameval.inference.table import TextTable


@with_fields
def gaps(
    *,
    by: Annotated[
        str, Option(metavar="FIELD", help="Field whose values are compared, like country.")
    ],
    read: ReadOptions,
    intervals: IntervalOptions,
    method: MethodOption = None,
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
    with as_usage_error(SourceError, InvalidEventError):
        options = GapsOptions(by, method, intervals.given)
        result = find_gaps(read.request(), options, SURROUNDINGS)
    forms = Forms(
        partial(_parts, result.gaps, by),
        lambda: {"by": by, "gaps": msgspec.to_builtins(result.gaps)},
        partial(_records, result.gaps, by),
    )
    read.write(forms, format, is_doubtful=result.is_doubtful)


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
    for gap in gaps:
        yield f"{gap.metric} by {by}: {gap_text(gap)}"
        yield gap_table(gap, by)
