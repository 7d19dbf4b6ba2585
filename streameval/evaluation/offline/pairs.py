"""Pairs of files with one item per row: recommendations and truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streameval.config import Config
from streameval.evaluation.offline.request import (
    OF_ONE_FILE,
    ROLES,
    Request,
    source_name,
    unknown_column,
)
from streameval.evaluation.tables.files import Kind, is_table, join_tables
from streameval.evaluation.tables.rows import (
    Names,
    Rows,
    by_span,
    common_topics,
    is_trec,
    join_rows,
    recommendation_rows,
    refuse_unread_scores,
    row_warnings,
    trec_rows,
    truth_rows,
)
from streameval.events.errors import UsageError


def check_pair(request: Request) -> None:
    """Refuse one file of a pair alone, and arguments that a pair does not take."""
    option = request.wording.option
    option_name, other = option("recommendations"), option("truth")
    if request.aligned is None and (request.recommendations is None or request.truth is None):
        raise UsageError(f"{option_name} and {other} belong together; give both.")
    if request.paths:
        name = source_name(request.paths[0])
        raise UsageError(f"found {name!r} and {option_name} with {other}; give one or the other.")
    if request.separators:
        raise UsageError(
            f"{option('separator')} is for files with one event per row; leave it out."
        )


class PairEvents(NamedTuple):
    """The events of one span of time.

    Attributes:
        start: microseconds since the epoch; None for all time.
        kind: of their item ids; None if the first id decides.
    """

    start: int | None
    kind: Kind | None
    columns: Any


def pair_events(
    request: Request, config: Config, every: int | None, note: Callable[[str], None]
) -> Iterator[PairEvents]:
    """The events of each span; `note` takes each doubt about the rows."""
    scores = bool(config.reads() & {"scores", "ranksums", "event"})
    if request.aligned is not None:
        for columns in request.aligned.columns(config.kept_depth(), scores=scores):
            yield PairEvents(None, None, columns)
        return
    is_trec_pair = _is_trec_pair(request)
    if is_trec_pair and every is not None:
        every_ = request.wording.option("every")
        raise UsageError(f"{every_} needs event time, and trec_eval's files have none.")
    rows = _of_trec(request, note) if is_trec_pair else _of_tables(request, config)
    for doubt in row_warnings(*rows, request.wording):
        note(doubt)
    for start, *parts in by_span(*rows, every):
        kind, columns = join_rows(
            *parts,
            ties=request.ties or ("id_desc" if is_trec_pair else "arrival"),
            ids=config.event.ids,
            scores=scores,
            named=config.by_user,
        )
        yield PairEvents(start, kind, columns)


def with_truth_read(request: Request) -> Request:
    """The request with the rows of its truth, which several models share, read once."""
    if request.aligned is not None or not isinstance(request.truth, str):
        return request
    if _is_trec_pair(request):
        rows = trec_rows(request.truth, "qrels")
        return msgspec.structs.replace(request, truth=rows, form="trec")
    return msgspec.structs.replace(request, truth=join_tables(request.truth), form="table")


def _is_trec_pair(request: Request) -> bool:
    """Whether both are trec_eval's files; refuses one of them alone, and both swapped."""
    results, qrels = request.recommendations, request.truth
    if request.form != "detect" or not (isinstance(results, str) and isinstance(qrels, str)):
        return request.form == "trec"
    names = [request.wording.option(role) for role in ("recommendations", "truth")]
    if is_trec(results, "qrels") and is_trec(qrels, "results"):
        raise UsageError(
            f"{results} looks like trec_eval's qrels and {qrels} like its results; give the "
            f"results as {names[0]} and the qrels as {names[1]}."
        )
    alike = is_trec(results, "results"), is_trec(qrels, "qrels")
    if alike[0] != alike[1]:
        trec, other = (results, qrels) if alike[0] else (qrels, results)
        raise UsageError(
            f"{trec} looks like a file of trec_eval and {other} does not; give two of trec_eval "
            f"or two tables, or say which they are with {request.wording.option('form')}."
        )
    return all(alike)


def _of_tables(request: Request, config: Config) -> tuple[Rows, Rows]:
    shown, truth = request.recommendations or "", request.truth or ""
    if not isinstance(shown, Rows):
        name = source_name(shown)
        shown = recommendation_rows(shown, names_in(request, "recommendations", config))
        if request.ties is None:
            refuse_unread_scores(name, shown, request.wording)
    if not isinstance(truth, Rows):
        truth = truth_rows(truth, names_in(request, "truth", config))
    return shown, truth


def _of_trec(request: Request, note: Callable[[str], None]) -> tuple[Rows, Rows]:
    results = trec_rows(source_name(request.recommendations or ""), "results")
    qrels = request.truth
    if not isinstance(qrels, Rows):
        qrels = trec_rows(source_name(qrels or ""), "qrels")
    shown, truth, unmatched = common_topics(results, qrels)
    if unmatched:
        note(f"{unmatched:,} topics are in only one file and are left out, as in trec_eval.")
    return shown, truth


def names_in(request: Request, file: str, config: Config) -> Names:
    """The columns of --recommendations or --truth; `truth.user=member` is of one file alone."""
    names = request.column_names
    of_one = {
        f"{file_name}.{role}" for file_name in ("recommendations", "truth") for role in OF_ONE_FILE
    }
    for field in names:
        if field not in {*ROLES, *of_one}:
            raise UsageError(unknown_column(field, [*ROLES, *sorted(of_one)]))
    here = {role: names[f"{file}.{role}"] for role in OF_ONE_FILE if f"{file}.{role}" in names}
    return Names(
        **{role: names[role] for role in ROLES if role in names} | here,
        time=None if request.every is None else config.event.time,
        time_unit=config.event.time_unit or "iso8601",
        wording=request.wording,
    )


def models_option(texts: Sequence[str]) -> dict[str, str]:
    """Variant -> file of each --recommendations, which is NAME=PATH or a path."""
    models: dict[str, str] = {}
    for text in texts:
        name, path = _named_path(text)
        if name in models:
            raise UsageError(
                f"--recommendations: {models[name]} and {path} are both {name!r}; name one, like "
                f"--recommendations other={path}."
            )
        models[name] = path
    if len(models) == 1:
        raise UsageError(
            f"--recommendations: only {texts[0]!r}; give a file for each model to compare, the "
            "control first."
        )
    return models


def _named_path(text: str) -> tuple[str, str]:
    """A path with the name before its equal sign, else with the name of the file.

    >>> _named_path("new=runs/1.parquet"), _named_path("runs/old.csv.gz")
    (('new', 'runs/1.parquet'), ('old', 'runs/old.csv.gz'))
    """
    name, given, path = text.partition("=")
    # A folder of a data lake is called like day=2026-03-01.
    if given and "/" not in name and not Path(text).exists():
        if not name or not path:
            raise UsageError(f"--recommendations: found {text!r}; give NAME=PATH or a path.")
        return name, path
    file = Path(text).name.removesuffix(".gz").removesuffix(".zst")
    return Path(file).stem if is_table(text) else file, text
