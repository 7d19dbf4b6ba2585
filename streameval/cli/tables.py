"""Counts the events of tables: divides the files, and merges the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.catalogue.metric import Reads
from streameval.cli.ending import WrongCallError, wrong_call_where
from streameval.cli.evaluation import Request
from streameval.cli.screen import progress
from streameval.config import Config
from streameval.errors import SourceError
from streameval.parallel import Counted, TableCounting, results, shared
from streameval.partials import Cell, Partial, merged
from streameval.tables.events import Form, kind_of, separators_of
from streameval.tables.files import Kind, is_table, table_file


class CountedTables(NamedTuple):
    """The counts of tables."""

    empty: Accumulator
    found: Mapping[Cell, Accumulator]


def counted_tables(request: Request, config: Config) -> CountedTables:
    """Count the files, which hold one event a row, with a bar."""
    others = [path for path in request.paths if not is_table(path)]
    if others:
        raise WrongCallError(
            f"{others[0]} is not a table, but other files are; evaluate them separately."
        )
    by_user = config.intervals is not None
    form = Form(
        fields=config.event,
        gains=request.gains,
        labels=config.labels,
        separators=separators_of(request.separators),
        users=by_user or "users" in reads(config),
        times=by_user or request.every is not None,
    )
    with wrong_call_where(SourceError):
        files = [table_file(path) for path in request.paths]
        kind = kind_of(files, form)
        if config.event.ids == "integer" and kind == "string":
            kind, form = "integer", msgspec.structs.replace(form, integers=True)
        config = of_kind(config, kind)
        empty, inputs = config.accumulator(), config.inputs() | {"depth": config.depth}
        pieces = [piece for file in files for piece in file.pieces]
        tasks = shared(pieces, [piece.size for piece in pieces], request.processes)
        count = TableCounting(form, [each.text for each in empty.metrics], request.every, inputs)
        with (
            results(count, tasks, request.processes) as parts,
            progress(sum(piece.size for piece in pieces)) as shown,
        ):
            known = {name: inputs[name] for name in ("catalog", "popularity", "similarity")}
            return CountedTables(empty, merged(_rows(parts, shown), **known))


def _rows(parts: Iterable[Counted], shown: Callable[[int, int], None]) -> Iterator[Partial]:
    size = lists = 0
    for part in parts:
        size, lists = size + part.size, lists + part.lists
        shown(size, lists)
        yield from part.rows


def of_kind(config: Config, kind: Kind) -> Config:
    """The catalogue with ids of the kind that the files have."""
    event = msgspec.structs.replace(config.event, ids=kind)
    return msgspec.structs.replace(config, event=event)


def reads(config: Config) -> set[Reads]:
    """The columns that the metrics read."""
    texts = [*config.metrics, *(each.name for each in config.metric)]
    return {parse(text).definition.reads for text in texts}
