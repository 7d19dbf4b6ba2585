"""The work of `streameval evaluate` on tables: parquet, CSV and trec_eval's files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from typer import Exit

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.cli.ending import FAILED, WrongCallError, tell, wrong_call_where
from streameval.cli.readings import write_readings
from streameval.columns import Columns
from streameval.config import Config
from streameval.errors import InvalidEventError, SourceError
from streameval.metric import Metric
from streameval.pipeline.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.tables.events import event_table, kind_of, with_integers
from streameval.tables.joining import Ties, joined
from streameval.tables.rows import Names, Rows, recommendation_rows, truth_rows
from streameval.tables.trec import is_trec, shared, trec_rows
from streameval.tables.values import Kind

Form: TypeAlias = Literal["detect", "table", "trec"]
Part: TypeAlias = tuple[tuple[str, ...], Columns]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two files that are joined by user.

    Attributes:
        recommendations: rows of user, item and score.
        truth: rows of user, item and, where there is one, rating.
        names: columns that were named.
        form: what the files look like.
        ties: which of two items with one score stands first; None leaves it to the form.
    """

    recommendations: str
    truth: str
    names: Names
    form: Form = "detect"
    ties: Ties | None = None


def evaluated_tables(
    paths: Sequence[str], config: Config, separator: str | None, written_as: str
) -> None:
    """Evaluate files with one event a row, and write the readings.

    Raises:
        WrongCallError: a file cannot be read as a table.
        ConfigError: what is asked for does not fit together.
        MissingExtraError: pyarrow is not installed.
    """
    with wrong_call_where(SourceError):
        tables = [event_table(path, config.event, config.labels, separator) for path in paths]
        kind = kind_of(tables)
        if config.event.ids == "integer" and kind == "string":
            tables, kind = [with_integers(table) for table in tables], "integer"
    parts = (part for table in tables for part in table.parts())
    _written(parts, _of_kind(config, kind), paths, written_as)


def evaluated_pair(pair: Pair, config: Config, written_as: str) -> None:
    """Evaluate recommendations against the truth, and write the readings.

    Raises:
        WrongCallError: a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MissingExtraError: pyarrow is not installed.
    """
    if config.labels:
        raise WrongCallError("--by splits events; rows of users and items have no labels.")
    paths = (pair.recommendations, pair.truth)
    with wrong_call_where(SourceError):
        trec = pair.form == "trec" or (
            pair.form == "detect" and is_trec(paths[0], "results") and is_trec(paths[1], "qrels")
        )
        shown, truth = _of_trec(*paths) if trec else _of_tables(pair)
        kind, columns = joined(
            shown,
            truth,
            ties=pair.ties or ("id_desc" if trec else "arrival"),
            ids=config.event.ids,
            scores=_reads_scores(config),
        )
    _written([((), columns)], _of_kind(config, kind), paths, written_as)


def _of_tables(pair: Pair) -> tuple[Rows, Rows]:
    names = pair.names
    return recommendation_rows(pair.recommendations, names), truth_rows(pair.truth, names)


def _of_trec(results: str, qrels: str) -> tuple[Rows, Rows]:
    shown, truth, alone = shared(trec_rows(results, "results"), trec_rows(qrels, "qrels"))
    if alone:
        tell(f"{alone:,} topics stand in one of the files only and are left out, as by trec_eval.")
    return shown, truth


def _reads_scores(config: Config) -> bool:
    texts = [*config.metrics, *(each.name for each in config.metric)]
    reads = {parse(text).definition.reads for text in texts}
    return bool(reads & {"scores", "ranksums", "event"})


def _of_kind(config: Config, kind: Kind) -> Config:
    """The same for ids as they are in the files: a file of a catalogue is read alike."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)


def _written(parts: Iterable[Part], config: Config, paths: Sequence[str], written_as: str) -> None:
    if config.windows is not None or config.segments or config.metric:
        tell("windows, segments and [[metric]] are read from JSON lines; here all is by labels.")
    whole = config.accumulator()
    slices: dict[tuple[str, ...], Accumulator] = {}
    for labels, columns in parts:
        try:
            slices.setdefault(labels, whole.copy()).update_many(columns)
        except InvalidEventError as error:
            raise WrongCallError(f"{' and '.join(paths)}: {error}") from error
    slices = dict(sorted(slices.items()))
    for advice in filter(None, (each.advice() for each in slices.values())):
        tell(advice)
    write_readings(_snapshot(config.labels, whole.metrics, slices), written_as)
    if not any(each.lists for each in slices.values()):
        tell(f"no event in {', '.join(paths)}.")
        raise Exit(FAILED)


def _snapshot(
    labels: Sequence[str], metrics: Sequence[Metric], slices: Mapping[tuple[str, ...], Accumulator]
) -> Snapshot:
    lists = sum(each.lists for each in slices.values())
    return Snapshot(
        version=1,
        taken_at=time.time(),
        started_at=0.0,
        source="",
        families=(SeriesFamily("labels", None, tuple(labels)),),
        series=tuple(
            Series(metric, values, each.read(metric.text))
            for metric in metrics
            for values, each in slices.items()
        ),
        health=Health(
            consumed=lists,
            valid=lists,
            invalid={},
            tombstones=0,
            partitions=(),
            ready=True,
            trouble=None,
        ),
    )
