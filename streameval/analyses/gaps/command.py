"""`streameval gaps`: the worst and the best value of a field, as a table, JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from typer import Option

from streameval.analyses.gaps.analysis import GAPS, gaps_in
from streameval.analyses.gaps.statistics import Gap, GapValue
from streameval.analyses.gaps.words import gap_table, gap_text
from streameval.decoding.values import MISSING_LABEL
from streameval.evaluation.arguments import as_usage_error, no_events
from streameval.evaluation.result import FileCounts, count, note_idle
from streameval.evaluation.setup import Request, refuse_idle, setup_of
from streameval.evaluation.shell.flags import (
    GroupOptions,
    IntervalOptions,
    MethodOption,
    OutputFormat,
    PairOptions,
    ReadOptions,
    events_of_command,
    with_struct_options,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.evaluation.sources import field_suggestion
from streameval.evaluation.stores import (
    StateCounts,
    method_of,
    restore_states,
    without_sets,
)
from streameval.events.errors import InvalidEventError, SourceError, UsageError
from streameval.events.spelling import suggestion
from streameval.inference.text_table import TextTable
from streameval.statistics.intervals import Intervals, Method


@with_struct_options
def gaps(
    *,
    by: Annotated[
        str,
        Option(
            metavar="FIELD",
            help="Field whose values are compared, like country; or a column of --recommendations, "
            "--truth or --users.",
        ),
    ],
    read: ReadOptions,
    groups: GroupOptions,
    pair: PairOptions,
    intervals: IntervalOptions,
    method: MethodOption = None,
    format: OutputFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Compare the values of a field: which is served worst, and by how much at least?

    ```
    streameval gaps events.ndjson -m ndcg@10 -m ctr --by country
    streameval gaps --recommendations recs.csv --truth truth.csv -m ndcg@10 --by segment
    streameval gaps state --by country    # what a daemon has saved, all partitions together
    ```

    Bounds hold for all pairs of values together, so they stay valid for the worst and the best,
    which were picked for being extreme. Events must name their users. Values with too few users,
    `__missing__` and `__other__` are shown but not compared.
    """
    with as_usage_error(SourceError, InvalidEventError):
        # The field is the only label.
        options = read.options(by=[by], **pair.reading())
        events = events_of_command(
            read.paths,
            options,
            recommendations=groups.recommendations,
            truth=pair.truth,
            exclude=pair.exclude,
            users=groups.users,
        )
        refuse_idle(options, events)
        request = Request(events, options)
        gap_list, is_doubtful = _find(request, by, method, intervals.explicit)
    forms = Forms(
        partial(_parts, gap_list, by),
        lambda: {"by": by, "gaps": msgspec.to_builtins(gap_list)},
        partial(_records, gap_list, by),
    )
    read.write(forms, format, is_doubtful=is_doubtful)


def _find(
    request: Request, by: str, method: Method | None, intervals: Mapping[str, Any]
) -> tuple[list[Gap], bool]:
    """The gaps of each metric, and whether most records with interactions are invalid.

    `intervals`: given fields of Intervals, which override the configuration.

    Raises:
        UsageError: the request names what is not there.
        NoEventsError: there is no valid event.
    """
    kind = method_of(request, method, SURROUNDINGS)
    counted: StateCounts | FileCounts
    texts: Sequence[str] = []
    if request.call.is_state:
        counted, texts = restore_states(request, SURROUNDINGS), request.options.metrics
        names = counted.config.series_dimensions()
        if by not in names:
            choices = ", ".join(names) or "none"
            problem = f"--by {by}: neither a label nor a segment of the state: {choices}."
            raise UsageError(f"{problem}{suggestion(by, names)}")
    else:
        alone = without_sets(request, SURROUNDINGS).with_options(intervals=Intervals())
        counted = count(setup_of(alone, GAPS), SURROUNDINGS)
        note_idle(SURROUNDINGS, counted)
    how = replace(counted.intervals, **intervals)
    gap_list = gaps_in(counted.families, by, how, kind, texts)
    if not gap_list:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    values = {value.name for gap in gap_list for value in gap.values}
    if not values:
        raise no_events(request.files)
    if values == {MISSING_LABEL}:
        raise UsageError(
            f"no event in {', '.join(request.files)} has the field {by!r}; name it with --by FIELD "
            f"or --column {by}=FIELD.{field_suggestion(request.call, by)}"
        )
    return gap_list, counted.is_doubtful


def _records(gaps: Sequence[Gap], by: str) -> Iterator[dict[str, Any]]:
    for gap in gaps:
        record: dict[str, Any] = msgspec.to_builtins(gap)
        values = record.pop("values")
        named = {f"gap_{name}": record.pop(name) for name in ("low", "high")}
        for value in values:
            yield {"metric": record["metric"], by: value.pop("name")} | value | record | named


def _parts(gaps: Sequence[Gap], by: str) -> Iterator[str | TextTable[GapValue]]:
    """Yield for each metric its gap in a sentence, and a table of the values."""
    for gap in gaps:
        yield f"{gap.metric} by {by}: {gap_text(gap)}"
        yield gap_table(gap, by)
