"""`streameval evaluate`: metric values of JSON lines, counted as by the daemon, and of tables."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, NoReturn

import msgspec
from typer import Argument, Exit, Option

from streameval.accumulator import Accumulator
from streameval.accumulator.readings import interval_method
from streameval.cli.counting import (
    Counts,
    count_records,
    count_tables,
    report_early,
    span_readings,
)
from streameval.cli.errors import FAILED, UsageError, report
from streameval.cli.pairs import FormOption, TiesOption, Truth, check_pair, count_pair
from streameval.cli.readings import SpanReadings, snapshot_of, write_series
from streameval.cli.request import (
    AllowInvalid,
    Columns,
    Format,
    Metrics,
    Processes,
    Request,
    Separators,
    UnitOfTime,
    config_of,
    expand_paths,
    lacking_field,
    refuse_invalid,
)
from streameval.config import Config
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.capture import ingest_snapshot
from streameval.engine.snapshot import JoinHealth, SeriesFamily, Snapshot
from streameval.engine.spans import Slice
from streameval.join.frontend import JoinStats
from streameval.partials import Cell
from streameval.windows.times import DurationError, microseconds


def evaluate(  # noqa: PLR0913  each is an option of the command
    paths: Annotated[
        list[str] | None,
        Argument(
            metavar="PATH...",
            help="JSON lines, parquet or CSV with one event per row: files (plain, .gz or .zst), "
            "folders, patterns, objects (s3://, gs://, az://); - is standard input (JSON lines).",
        ),
    ] = None,
    *,
    metric: Metrics = None,
    by: Annotated[
        list[str] | None, Option(help="Split by this field of the events; may be repeated.")
    ] = None,
    column: Columns = None,
    separator: Separators = None,
    config: Annotated[
        str | None, Option(help="Take metrics, labels, catalog and [event] from this file.")
    ] = None,
    catalog: Annotated[
        str | None, Option(help="Number of items in the catalogue, or a file of their ids.")
    ] = None,
    every: Annotated[
        str | None,
        Option(help="Length of the spans of event time to split by, for example 1h."),
    ] = None,
    time: Annotated[str | None, Option(help="Field of event time, for --every.")] = None,
    time_unit: UnitOfTime = None,
    format: Format = "table",  # noqa: A002  the option is called --format
    recommendations: Annotated[
        str | None,
        Option(help="(user, item, score) rows: a file, folder or pattern; needs --truth."),
    ] = None,
    truth: Truth = None,
    form: FormOption = "detect",
    ties: TiesOption = None,
    processes: Processes = 1,
    allow_invalid: AllowInvalid = False,
) -> None:
    """Evaluate files; values equal the daemon's on the same events, bit for bit.

    ```
    streameval evaluate events.ndjson.gz -m ndcg@10 -m hit_rate@10 --by variant
    streameval evaluate monday.ndjson tuesday.ndjson --config streameval.toml --format json
    streameval evaluate events.ndjson -m ctr --every 1h --time ts --time-unit iso8601
    streameval evaluate events.csv -m ctr --column interactions=clicks --separator 'clicks=;'
    streameval evaluate s3://shop/logs/2026/ -m ctr --by variant --processes 8
    streameval evaluate --recommendations recs.parquet --truth truth.csv -m recbole:ndcg@10
    ```

    With --config, -m replaces the metrics of that file and --by its labels; files on the command
    line replace its [source], which may be missing then. Invalid records are left out and reported
    on standard error. The exit status is 1 without a valid event, or if most records with
    interactions are invalid.

    Lists in CSV are JSON lists, or ids separated by |, white space or --separator. Any other cell
    is an error that names the line.

    Spans of --every are aligned to UTC. The order of events does not matter. Spans without events
    are left out.

    Rows of --recommendations and --truth are joined by user. A user without recommendations has an
    empty list; a user without truth has no interactions. Files of RecBole, RePlay and trec_eval are
    read unchanged; for others, --column names the columns: user, item, score, rank or rating. Where
    the files differ: --column recommendations.user=client --column truth.user=member.
    """
    request = Request(
        paths=expand_paths(paths or []),
        recommendations=recommendations,
        truth=truth,
        form=form,
        ties=ties,
        columns=column or [],
        separators=separator or [],
        metrics=metric or [],
        labels=by or [],
        config=config,
        catalog=catalog,
        every=every,
        time=time,
        time_unit=time_unit,
        allow_invalid=allow_invalid,
        format=format,
        processes=processes,
    )
    if request.is_pair:
        evaluate_pair(request)
    elif ties is not None or form != "detect":
        raise UsageError(
            "--ties and --form are for --recommendations with --truth; leave them out."
        )
    elif request.is_tables:
        evaluate_tables(request)
    else:
        evaluate_records(request)


def evaluate_records(request: Request) -> None:
    """Evaluate the files and write the readings."""
    config = config_of(request)
    counts = count_records(config, _span_length(config, request), request.processes)
    join, tally = _join_health(counts, config), counts.ingest.tally
    warning = tally.warning() or (join.warning() if join is not None else None)
    doubt = None if counts.spans is None else counts.ingest.doubt()
    if not tally.valid:
        _fail_without("no valid event", config.source.logs, warning)
    if counts.spans is None:
        snapshot = ingest_snapshot(counts.ingest, labels=config.labels, now=time.time(), join=join)
        spans = [SpanReadings(None, snapshot)]
    else:
        spans = list(span_readings(config, counts.spans))
    _report_absent_labels([each.snapshot for each in spans])
    if counts.spans is not None and (problem := warning or doubt):
        report(problem)
    _write(spans, config, request)
    if warning is not None:
        refuse_invalid(request)


def _fail_without(what: str, files: Sequence[str], warning: str | None = None) -> NoReturn:
    """Exit with status 1: there is no value to print."""
    if warning is not None:
        report(warning)
    report(f"{what} in {', '.join(files)}.")
    raise Exit(FAILED)


def _span_length(config: Config, request: Request) -> int | None:
    """The length of a span, microseconds; None without --every."""
    if request.every is None:
        return None
    try:
        every = microseconds(request.every)
    except DurationError as error:
        raise UsageError(f"--every: {error}") from None
    if not every:
        raise UsageError(f"--every: found {request.every!r}; give at least 1s.")
    if config.event.time is None:
        raise UsageError(
            "--every needs event time: name its field and unit with --time and --time-unit, or as "
            "time and time_unit under [event] in --config FILE."
        )
    return every


def _join_health(counts: Counts, config: Config) -> JoinHealth | None:
    options = config.attribution
    if options is None:
        return None
    stats = JoinStats(options.names, by_request=options.key == "request_id")
    return stats.health(counts.ingest.partitions)


def _report_absent_labels(snapshots: Sequence[Snapshot]) -> None:
    values: dict[str, set[str]] = {}
    for snapshot in snapshots:
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            for name, value in zip(names, entry.labels, strict=True):
                values.setdefault(name, set()).add(value)
    for name, found in values.items():
        if found == {MISSING_LABEL}:
            report(f"no event has the label {name!r}; --by or [event.labels] names its field.")


def evaluate_tables(request: Request) -> None:
    """Evaluate files with one event per row, and write the readings."""
    config = config_of(request)
    _span_length(config, request)
    _written(count_tables(request, config).found, config, request)


def evaluate_pair(request: Request) -> None:
    """Evaluate recommendations against the truth, and write the readings."""
    if request.labels:
        raise UsageError("--by splits events; --recommendations and --truth have no labels.")
    check_pair(request)
    config = config_of(request)
    found = count_pair(request, config, _span_length(config, request)).found
    # The labels of a daemon's configuration are in its events.
    _written(found, msgspec.structs.replace(config, labels=[]), request)


def _written(found: Mapping[Cell, Accumulator], config: Config, request: Request) -> None:
    if config.windows is not None or config.segments or config.metric or config.dedup is not None:
        names = "windows, segments, dedup and [[metric]]"
        report(f"{names} apply to JSON lines only; they are ignored here.")
    for text in config.metrics:
        if lacking := lacking_field(text, config, tables=True):
            report(f"do not use the value of {text}: it needs {lacking}.")
    if not any(each.lists for each in found.values()):
        _fail_without("no event", request.files)
    _write(_span_readings(found, config), config, request)


def _span_readings(found: Mapping[Cell, Accumulator], config: Config) -> list[SpanReadings]:
    """The readings of each span, in time order."""
    families = [SeriesFamily("labels", None, tuple(config.labels))]
    spans: dict[int | None, dict[tuple[str, ...], Slice]] = {}
    for cell, each in sorted(found.items(), key=lambda item: (item[0].start or 0, item[0].labels)):
        method = interval_method(config.intervals, whole=cell.start is None)
        found_slice = Slice(each.metrics, each.table, 0, method, each.doubts)
        spans.setdefault(cell.start, {})[cell.labels] = found_slice
    return [SpanReadings(start, snapshot_of(families, [slices])) for start, slices in spans.items()]


def _write(spans: Sequence[SpanReadings], config: Config, request: Request) -> None:
    """Write the readings; doubts about the events go to standard error."""
    report_early(config, [each.start for each in spans if each.start is not None])
    for trouble in dict.fromkeys(each.snapshot.health.trouble for each in spans):
        if trouble is not None:
            report(trouble)
    write_series(spans, request.format)
