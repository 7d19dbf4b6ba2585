"""Counts pairs of files with one item per row: recommendations and truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from streameval.config import Config
from streameval.errors import InvalidEventError, SourceError
from streameval.events.columns import Columns as EventColumns
from streameval.offline.counting import CountedTables, of_kind
from streameval.offline.request import Request, names_in
from streameval.offline.surroundings import UsageError, as_usage_error
from streameval.partials import Cell
from streameval.tables.files import Kind, is_table
from streameval.tables.rows import (
    Rows,
    by_span,
    common_topics,
    is_trec,
    joined,
    recommendation_rows,
    refuse_unread_scores,
    row_warnings,
    trec_rows,
    truth_rows,
)


def check_pair(request: Request) -> None:
    """Refuse one file of a pair alone, and arguments that a pair does not take."""
    if request.recommendations is None or request.truth is None:
        raise UsageError("--recommendations and --truth belong together; give both.")
    if request.paths:
        both = "--recommendations with --truth"
        raise UsageError(f"found {request.paths[0]!r} and {both}; give one or the other.")
    if request.separators:
        raise UsageError("--separator is for files with one event per row; leave it out.")


def count_pair(
    request: Request, config: Config, every: int | None, note: Callable[[str], None]
) -> CountedTables:
    """Count the lists of a pair of files, one for each user and span of time.

    `every`: length of a span, microseconds; None for one span. `note`: takes each doubt.
    """
    config = msgspec.structs.replace(config, labels=[])
    with as_usage_error(SourceError):
        found = list(_joined_by_span(request, config, every, note))
        kinds: set[Kind] = {kind for _, (kind, _) in found}
        empty = of_kind(config, kinds.pop() if kinds else "string").accumulator()
    counted = {Cell((), start): empty.copy() for start, _ in found}
    for start, (_, columns) in found:
        with as_usage_error(InvalidEventError):
            counted[Cell((), start)].update_many(columns)
    return CountedTables(empty, counted)


def _joined_by_span(
    request: Request, config: Config, every: int | None, note: Callable[[str], None]
) -> Iterator[tuple[int | None, tuple[Kind, EventColumns]]]:
    """The events of each span, with its start and the kind of their ids."""
    paths = request.recommendations or "", request.truth or ""
    trec = request.form == "trec" or (request.form == "detect" and _are_trec(*paths))
    if trec and every is not None:
        raise UsageError("--every needs event time, and trec_eval's files have none.")
    shown, truth = _of_trec(*paths, note) if trec else _of_tables(paths, request, config)
    for doubt in row_warnings(shown, truth):
        note(doubt)
    for start, *rows in by_span(shown, truth, every):
        yield (
            start,
            joined(
                *rows,
                ties=request.ties or ("id_desc" if trec else "arrival"),
                ids=config.event.ids,
                scores=bool(config.reads() & {"scores", "ranksums", "event"}),
                named=config.intervals is not None or "users" in config.reads(),
            ),
        )


def _are_trec(results: str, qrels: str) -> bool:
    """Whether both are trec_eval's files; refuses one of them alone, and both swapped."""
    if is_trec(results, "qrels") and is_trec(qrels, "results"):
        raise UsageError(
            f"{results} looks like trec_eval's qrels and {qrels} like its results; give the "
            "results as --recommendations and the qrels as --truth."
        )
    found = is_trec(results, "results"), is_trec(qrels, "qrels")
    if found[0] != found[1]:
        known, other = (results, qrels) if found[0] else (qrels, results)
        raise UsageError(
            f"{known} looks like a file of trec_eval and {other} does not; give two of trec_eval "
            "or two tables, or say which they are with --form."
        )
    return all(found)


def _of_tables(paths: tuple[str, str], request: Request, config: Config) -> tuple[Rows, Rows]:
    shown = recommendation_rows(paths[0], names_in(request, "recommendations", config))
    if request.ties is None:
        refuse_unread_scores(paths[0], shown)
    return shown, truth_rows(paths[1], names_in(request, "truth", config))


def _of_trec(results: str, qrels: str, note: Callable[[str], None]) -> tuple[Rows, Rows]:
    shown, truth, unmatched = common_topics(
        trec_rows(results, "results"), trec_rows(qrels, "qrels")
    )
    if unmatched:
        note(f"{unmatched:,} topics are in only one file and are left out, as in trec_eval.")
    return shown, truth


def models_option(texts: Sequence[str]) -> dict[str, str]:
    """Variant -> file of each --recommendations, which is NAME=PATH or a path."""
    found: dict[str, str] = {}
    for text in texts:
        name, path = _named_path(text)
        if name in found:
            raise UsageError(
                f"--recommendations: {found[name]} and {path} are both {name!r}; name one, like "
                f"--recommendations other={path}."
            )
        found[name] = path
    if len(found) == 1:
        raise UsageError(
            f"--recommendations: only {texts[0]!r}; give a file for each model to compare, the "
            "control first."
        )
    return found


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
