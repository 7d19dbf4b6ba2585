"""`streameval evaluate` on columns: parquet, CSV, rows joined by user, and trec_eval's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from typer import Exit

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.cli.ending import FAILED, WrongCallError, tell, wrong_call_where
from streameval.cli.evaluation import (
    Request,
    configured,
    snapshot_of,
    span_length,
    span_text,
    write,
)
from streameval.cli.readings import Taken
from streameval.config import Config
from streameval.errors import InvalidEventError, SourceError
from streameval.events.columns import Columns
from streameval.pipeline.snapshot import SeriesFamily
from streameval.pipeline.spans import Slice
from streameval.tables.events import (
    EventTable,
    Form,
    Place,
    event_table,
    kind_of,
    separators_of,
    with_integers,
)
from streameval.tables.files import Kind, is_table
from streameval.tables.rows import (
    Names,
    Rows,
    by_span,
    is_trec,
    joined,
    recommendation_rows,
    shared,
    trec_rows,
    truth_rows,
)


def evaluate_tables(request: Request) -> None:
    """Evaluate files with one event a row, and write the readings.

    Raises:
        WrongCallError: a file cannot be read as a table.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        MissingExtraError: pyarrow is not installed.
    """
    config = configured(request)
    tables, kind = read_tables(request, config, every=span_length(config, request))
    parts = (part for table in tables for part in table.parts())
    _written(parts, of_kind(config, kind), request)


def read_tables(
    request: Request, config: Config, *, every: int | None = None, seen: bool = False
) -> tuple[list[EventTable], Kind]:
    """The files as tables, and what their ids are.

    Args:
        request: which files.
        config: which columns they have.
        every: length of the spans of event time to split by, microseconds.
        seen: whether it is read who saw each list, and when.

    Raises:
        WrongCallError: a file cannot be read as a table.
        MissingExtraError: pyarrow is not installed.
    """
    others = [path for path in request.paths if not is_table(path)]
    if others:
        raise WrongCallError(f"{others[0]} is no table, and others are; evaluate them apart.")
    form = Form(
        fields=config.event,
        gains=request.gains,
        labels=config.labels,
        separators=separators_of(request.separators),
        every=every,
        seen=seen,
    )
    with wrong_call_where(SourceError):
        tables = [event_table(path, form) for path in request.paths]
        kind = kind_of(tables)
        if config.event.ids == "integer" and kind == "string":
            return [with_integers(table) for table in tables], "integer"
    return tables, kind


def evaluate_pair(request: Request) -> None:
    """Evaluate recommendations against the truth, and write the readings.

    Raises:
        WrongCallError: the options contradict each other, or a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        MissingExtraError: pyarrow is not installed.
    """
    paths = _pair(request)
    config = configured(request)
    if config.labels:
        raise WrongCallError("--by splits events; rows of users and items have no labels.")
    every = span_length(config, request)
    with wrong_call_where(SourceError):
        trec = request.form == "trec" or (
            request.form == "detect" and is_trec(paths[0], "results") and is_trec(paths[1], "qrels")
        )
        if trec and every is not None:
            raise WrongCallError("--every needs event time, and trec_eval's files have none.")
        shown, truth = _of_trec(*paths) if trec else _of_tables(paths, request, config)
        found = [
            (
                start,
                joined(
                    *rows,
                    ties=request.ties or ("id_desc" if trec else "arrival"),
                    ids=config.event.ids,
                    scores=_reads_scores(config),
                ),
            )
            for start, *rows in by_span(shown, truth, every)
        ]
    kinds: set[Kind] = {kind for _, (kind, _) in found}
    parts: Iterator[tuple[Place, Columns]] = (
        ((start, ()), columns) for start, (_, columns) in found
    )
    _written(parts, of_kind(config, kinds.pop() if kinds else "string"), request)


def _pair(request: Request) -> tuple[str, str]:
    if request.recommendations is None or request.truth is None:
        raise WrongCallError("--recommendations and --truth belong together; give both.")
    both = "--recommendations with --truth"
    if request.paths:
        raise WrongCallError(f"found {request.paths[0]!r} beside {both}; give one or the other.")
    if request.columns or request.separators:
        option = "--column" if request.columns else "--separator"
        problem = f"{option} is for files with one event a row; of {both}, name columns with"
        raise WrongCallError(f"{problem} --user, --item, --score and --rating.")
    return request.recommendations, request.truth


def _of_tables(paths: tuple[str, str], request: Request, config: Config) -> tuple[Rows, Rows]:
    names = Names(
        user=request.user,
        item=request.item,
        score=request.score,
        rating=request.rating,
        time=None if request.every is None else config.event.time,
        time_unit=config.event.time_unit or "iso8601",
    )
    return recommendation_rows(paths[0], names), truth_rows(paths[1], names)


def _of_trec(results: str, qrels: str) -> tuple[Rows, Rows]:
    shown, truth, alone = shared(trec_rows(results, "results"), trec_rows(qrels, "qrels"))
    if alone:
        tell(f"{alone:,} topics stand in one of the files only and are left out, as by trec_eval.")
    return shown, truth


def _reads_scores(config: Config) -> bool:
    texts = [*config.metrics, *(each.name for each in config.metric)]
    reads = {parse(text).definition.reads for text in texts}
    return bool(reads & {"scores", "ranksums", "event"})


def of_kind(config: Config, kind: Kind) -> Config:
    """The same for ids as they are in the files: a file of a catalogue is read alike."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)


def _written(parts: Iterable[tuple[Place, Columns]], config: Config, request: Request) -> None:
    if config.windows is not None or config.segments or config.metric:
        tell("windows, segments and [[metric]] are read from JSON lines; here all is by labels.")
    whole = config.accumulator()
    found: dict[Place, Accumulator] = {}
    for place, columns in parts:
        try:
            found.setdefault(place, whole.copy()).update_many(columns)
        except InvalidEventError as error:
            raise WrongCallError(f"{' and '.join(request.files)}: {error}") from error
    taken = _taken(found or ({} if config.labels or request.every else {(None, ()): whole}), config)
    write(taken, request)
    if not any(each.lists for each in found.values()):
        tell(f"no event in {', '.join(request.files)}.")
        raise Exit(FAILED)


def _taken(found: Mapping[Place, Accumulator], config: Config) -> list[Taken]:
    """The readings of each span, in the order of time."""
    families = [SeriesFamily("labels", None, tuple(config.labels))]
    spans: dict[int | None, dict[tuple[str, ...], Slice]] = {}
    for (start, labels), each in sorted(found.items(), key=_standing):
        spans.setdefault(start, {})[labels] = Slice(each.metrics, each.table, 0)
    return [
        Taken(None if start is None else span_text(start), snapshot_of(families, [slices]))
        for start, slices in spans.items()
    ]


def _standing(item: tuple[Place, Accumulator]) -> tuple[int, tuple[str, ...]]:
    (start, labels), _ = item
    return start or 0, labels
