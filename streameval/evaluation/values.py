"""The value of each list, or of each user, for a test of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.intake import checked_batch
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.events import Id
from streameval.events.errors import MetricError

Per: TypeAlias = Literal["list", "user"]
"""What has one value: each list, or all lists of a user together."""


class EventChunk(NamedTuple):
    """Some events of one slice and span.

    Attributes:
        events: as `Accumulator.update_many` takes them.
        labels: label values.
        start: start of the span, microseconds since the epoch; None for all time.
    """

    events: Any
    labels: tuple[str, ...] = ()
    start: int | None = None


_Key: TypeAlias = tuple[int | None, tuple[str, ...], Id | None]
"""Span, labels, and user."""


def values_of(
    empty: Accumulator, chunks: Iterable[EventChunk], names: Sequence[str], per: Per
) -> dict[str, list[Any]]:
    """Columns: span and labels if there are any, the user, and the value of each metric.

    A value that is undefined is NaN. Metrics of all lists together have no value of a list.

    `empty`: an accumulator of the metrics, without intervals. `names`: of the labels.

    Raises:
        MetricError: none of the metrics has a value for a list.
    """
    metrics = [metric for metric in empty.metrics if metric.definition.per != "slice"]
    if not metrics:
        named = ", ".join(metric.text for metric in empty.metrics)
        raise MetricError(f"{named}: no value of a single list; they are of all lists together")
    table, keys = empty.table.empty(), list[_Key]()
    cell_of: dict[_Key, int] = {}
    for chunk in chunks:
        table.ids, batch = checked_batch(table.ids, chunk.events, table.search)
        users = batch.users or repeat(None, len(batch))
        rows = [(chunk.start, chunk.labels, user) for user in users]
        if per == "list":
            cells = np.arange(len(keys), len(keys) + len(rows))
            keys += rows
        else:
            cells = np.array([cell_of.setdefault(key, len(cell_of)) for key in rows], np.int64)
            keys += list(cell_of)[len(keys) :]
        table.count(batch, cells)
    columns = _named(keys, names)
    for metric in metrics:
        columns[metric.text] = list(_values(metric, table, len(keys)))
    return columns


def _values(metric: Metric, table: Table, cells: int) -> Iterator[float]:
    for reading in readings_of(metric, table, np.arange(cells), None) if cells else ():
        yield reading.value if reading.defined else math.nan


def _named(keys: Sequence[_Key], names: Sequence[str]) -> dict[str, list[Any]]:
    """The columns that say which list or user a row is of."""
    columns: dict[str, list[Any]] = {}
    if any(start is not None for start, _, _ in keys):
        columns["start"] = [start for start, _, _ in keys]
    for place, name in enumerate(names):
        columns[name] = [labels[place] for _, labels, _ in keys]
    if any(user is not None for _, _, user in keys):
        columns["user"] = [user for _, _, user in keys]
    return columns
