"""`streameval evaluate`: metric values of JSON lines, counted as by the daemon, and of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from typer import Option

from streameval.evaluation.arguments import InputError, Options, Setting, as_usage_error
from streameval.evaluation.evaluation import count_call, title_of
from streameval.evaluation.partials_reader import has_partials, spans_of
from streameval.evaluation.setup import Request
from streameval.evaluation.shell.exits import refuse_invalid
from streameval.evaluation.shell.flags import (
    GroupOptions,
    PairOptions,
    ReadOptions,
    ReportFormat,
    files_of_command,
    with_struct_options,
)
from streameval.evaluation.shell.reading_tables import write_series
from streameval.evaluation.shell.terminal import SURROUNDINGS
from streameval.events.errors import (
    InvalidEventError,
    SourceError,
    UnlikeStateError,
)


class EvaluateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `evaluate` alone."""

    by: Annotated[
        list[str],
        Option(
            help="Split by this field of the events, or by this column of --recommendations, "
            "--truth or --users; may be repeated."
        ),
    ] = []
    catalog: Annotated[
        str | None, Option(help="Number of items in the catalogue, or a file of their ids.")
    ] = None
    every: Annotated[
        str | None,
        Option(help="Length of the spans of event time to split by, for example 1h."),
    ] = None


@with_struct_options
def evaluate(
    *,
    read: ReadOptions,
    split: EvaluateOptions,
    groups: GroupOptions,
    pair: PairOptions,
    format: ReportFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Evaluate files; values equal the daemon's on the same events, bit for bit.

    ```
    streameval evaluate events.ndjson.gz -m ndcg@10 -m hit_rate@10 --by variant
    streameval evaluate monday.ndjson tuesday.ndjson --config streameval.toml --format json
    streameval evaluate events.ndjson -m ctr --every 1h --time ts --time-unit iso8601
    streameval evaluate events.csv -m ctr --column interactions=clicks --separator 'clicks=;'
    streameval evaluate s3://shop/logs/2026/ -m ctr --by variant --processes 8
    streameval evaluate --recommendations recs.parquet --truth truth.csv -m recbole:ndcg@10
    streameval evaluate --recommendations recs.csv --truth truth.csv -m ndcg@10 --by segment
    streameval evaluate events.ndjson -m ndcg@10 --by variant --format html -o report.html
    ```

    With --config, -m replaces the metrics of that file and --by its labels; files on the command
    line replace its [source], which is then optional. Invalid records are left out and reported on
    standard error. The exit status is 1 if there is no valid event, if most lines are not JSON
    objects, or if most records with interactions are invalid.

    A folder, bucket or file with rows of `streameval.partials`, written by any engine, is read as
    the lists that were counted.

    Lists in CSV are JSON lists, or ids separated by |, white space or --separator. Any other cell
    is an error that names the line.

    Spans of --every are aligned to UTC; those of days are days of --time-zone. The order of events
    does not matter. Spans without events are left out.

    Rows of --recommendations and --truth are joined by user. A user without recommendations has an
    empty list; a user without truth has no interactions. Files of RecBole, RePlay and trec_eval are
    read unchanged; for others, --column names the columns: user, item, score, rank or rating. Where
    the files differ: --column recommendations.user=client --column truth.user=member.
    """
    inputs: dict[str, object] = {}
    if split.catalog is not None:
        inputs["catalog"] = int(split.catalog) if split.catalog.isdecimal() else split.catalog
    options = read.options(by=split.by, every=split.every, inputs=inputs, **pair.reading())
    if len(read.paths) == 1 and not groups.recommendations and has_partials(read.paths[0]):
        others = {"truth": pair.truth, "exclude": pair.exclude, "users": groups.users}
        values = msgspec.structs.asdict(options)
        _write_partials(read, values | dict(options.inputs) | others, format)
        return
    with as_usage_error(SourceError, InvalidEventError):
        files = files_of_command(
            read.paths, groups.recommendations, pair.truth, pair.exclude, options, groups.users
        )
        counted = count_call(Request(files, options), SURROUNDINGS)
    write_series(counted.spans, format, title_of(counted.names), read.output)
    if counted.is_doubtful:
        refuse_invalid(allowed=read.allow_invalid)


def _write_partials(read: ReadOptions, values: Mapping[str, object], format: ReportFormat) -> None:  # noqa: A002  as the option
    """Write the readings of rows of partials, with the metrics, labels and spans of the rows."""
    (path,) = read.paths
    for name, value in values.items():
        if name in ("metrics", "inputs"):
            continue
        if value and value != getattr(Options(), name, None):
            problem = f"{path} has rows of streameval.partials, which are counted already"
            raise InputError(
                "{setting}: {problem}; leave it out.", setting=Setting(name), problem=problem
            )
    with as_usage_error(SourceError, UnlikeStateError):
        spans = spans_of(path, read.metric)
    write_series(spans, format, title_of([path]), read.output)
