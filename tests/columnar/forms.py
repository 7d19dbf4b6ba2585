"""Columns of every library that say the same lists and interactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from streameval import Columns, Event
from streameval.events import Id


def ragged(lists: Sequence[list[Id]]) -> tuple[Any, Any]:
    values = array(list(chain.from_iterable(lists)))
    return values, np.cumsum([0, *map(len, lists)])


def array(ids: list[Id]) -> Any:
    return np.array(ids, np.int64 if all(isinstance(item, int) for item in ids) else object)


def matrix(lists: Sequence[list[Id]]) -> tuple[Any, Any]:
    """The rows padded with the first id, and their lengths."""
    width = max(map(len, lists), default=0)
    filler = next(chain.from_iterable(lists), 0)
    rows = [[*items, *[filler] * (width - len(items))] for items in lists]
    return array(list(chain.from_iterable(rows))).reshape(len(lists), width), list(map(len, lists))


def _matrix_and_arrays(ranked: Any, clicks: Any) -> Columns:
    rows, lengths = matrix(ranked)
    arrays = [array(items) for items in clicks]
    return Columns(recommendations=rows, lengths=np.array(lengths, np.int32), interactions=arrays)


def _masked_and_lists(ranked: Any, clicks: Any) -> Columns:
    rows, lengths = matrix(ranked)
    mask = np.arange(rows.shape[1]) >= np.array(lengths, np.int64)[:, None]
    return Columns(recommendations=np.ma.MaskedArray(rows, mask), interactions=clicks)


def _ragged(ranked: Any, clicks: Any) -> Columns:
    return Columns(recommendations=ragged(ranked), interactions=ragged(clicks))


def _objects(ranked: Any, clicks: Any) -> Columns:
    """A column as pandas reads it from a parquet file."""
    column = np.empty(len(ranked), object)
    column[:] = [array(items) for items in ranked]
    return Columns(recommendations=column, interactions=clicks)


def _arrow_arrays(ranked: Any, clicks: Any) -> Columns:
    return Columns(
        recommendations=pa.array(ranked, kind(ranked, clicks)),
        interactions=pa.chunked_array([clicks[:1], clicks[1:]], kind(ranked, clicks)),
    )


def _table(ranked: Any, clicks: Any) -> Any:
    columns = {"recommendations": ranked, "interactions": clicks}
    lists = {name: pa.array(column, kind(ranked, clicks)) for name, column in columns.items()}
    return pa.table(lists)


def _sliced_batch(ranked: Any, clicks: Any) -> Any:
    """A record batch in the middle of a larger one, with 64-bit offsets."""
    large = pa.large_list(kind(ranked, clicks).value_type)
    columns = {"recommendations": ranked, "interactions": clicks}
    around = {
        name: pa.array([column[-1], *column, column[0]] if column else [], large)
        for name, column in columns.items()
    }
    batch = pa.record_batch(around)
    return batch.slice(1, len(ranked)) if ranked else batch


def _dictionary(ranked: Any, clicks: Any) -> Any:
    """Dictionary-encoded strings, as in a parquet file of categories."""
    table = _table(ranked, clicks)
    if not pa.types.is_string(kind(ranked, clicks).value_type):
        return table
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return pa.table(
        {
            name: pa.ListArray.from_arrays(column.offsets, column.values.dictionary_encode())
            for name, column in columns.items()
        }
    )


def kind(*columns: Sequence[list[Id]]) -> Any:
    ids = chain.from_iterable(chain.from_iterable(columns))
    return pa.list_(pa.int64() if all(isinstance(item, int) for item in ids) else pa.string())


def whole(events: Sequence[Event]) -> Columns:
    """All that columns can say of events: they have no baselines or histories."""
    return Columns(
        recommendations=ragged([list(event.recommendations) for event in events]),
        interactions=ragged([list(event.interactions) for event in events]),
        gains=[
            list(clicks.values()) if isinstance(clicks, Mapping) else [1] * len(clicks)
            for clicks in (event.interactions for event in events)
        ],
        typed=[list(event.typed) for event in events],
        positions=pa.array([event.positions for event in events], pa.list_(pa.int64())),
        scores=pa.array([event.scores for event in events], pa.list_(pa.float64())),
        per_item=[event.per_item for event in events],
        shown_instead=[event.shown_instead for event in events],
        users=[event.user for event in events],
        times=[event.ts for event in events],
    )


FORMS: Mapping[str, Callable[[Any, Any], Any]] = {
    form.__name__.strip("_"): form
    for form in (
        _matrix_and_arrays,
        _masked_and_lists,
        _ragged,
        _objects,
        _arrow_arrays,
        _table,
        _sliced_batch,
        _dictionary,
    )
}
