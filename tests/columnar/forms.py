"""One stream of events in every supported form of columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streameval import Accumulator, Columns
from streameval.events import Id

Pairs: TypeAlias = Sequence[tuple[list[Id], list[Id]]]

# All statistics, all ways to find hits, and values of lists.
METRICS = (
    *("hit_rate@2", "precision(denominator=length)@3", "recall@5", "mrr@2", "map@3", "ndcg@5"),
    *("recall(repeats=every)@5", "recall(counting=every)@4", "ndcg(min_gain=2.0)@3"),
    *("ndcg(statistic=median)@3", "map(repeats=compact_after_cut)@3", "recall(type=click)@3"),
    *("capri:ndcg@3", "lenskit:recip_rank", "replay:Precision@3", "recommenders_jl:MeanNDCG@3"),
    *("ctr@3", "ctr", "distinct_items@1", "distinct_items@3", "distinct_items", "item_coverage@3"),
    *("personalization@3", "replay:RocAuc@3"),
)
CATALOG = 40


def made(metrics: Sequence[str] = METRICS, max_items: int = 1_000_000) -> Accumulator:
    return Accumulator(*metrics, catalog=CATALOG, depth=None, max_items=max_items)


def bits(accumulator: Accumulator) -> str:
    """State and values as JSON, which refuses numpy ids."""
    readings = [repr(accumulator.read(metric.text)) for metric in accumulator.metrics]
    return json.dumps([accumulator.state_dict(), accumulator.lists, readings])


def one_by_one(pairs: Pairs, accumulator: Accumulator) -> Accumulator:
    for recommendations, interactions in pairs:
        accumulator.update(recommendations, interactions)
    return accumulator


def ragged(lists: Sequence[list[Id]]) -> tuple[Any, Any]:
    values = array(list(chain.from_iterable(lists)))
    return values, np.cumsum([0, *map(len, lists)])


def array(ids: list[Id]) -> Any:
    return np.array(ids, np.int64 if all(isinstance(item, int) for item in ids) else object)


def matrix(lists: Sequence[list[Id]]) -> tuple[Any, Any]:
    """The rows padded with the first id, and their lengths."""
    width = max(map(len, lists), default=0)
    filler = next(chain.from_iterable(lists), 0)
    rows = [[*each, *[filler] * (width - len(each))] for each in lists]
    return array(list(chain.from_iterable(rows))).reshape(len(lists), width), list(map(len, lists))


def _matrix_and_arrays(shown: Any, acts: Any) -> Columns:
    rows, lengths = matrix(shown)
    arrays = [array(each) for each in acts]
    return Columns(recommendations=rows, lengths=np.array(lengths, np.int32), interactions=arrays)


def _masked_and_lists(shown: Any, acts: Any) -> Columns:
    rows, lengths = matrix(shown)
    mask = np.arange(rows.shape[1]) >= np.array(lengths, np.int64)[:, None]
    return Columns(recommendations=np.ma.MaskedArray(rows, mask), interactions=acts)


def _ragged(shown: Any, acts: Any) -> Columns:
    return Columns(recommendations=ragged(shown), interactions=ragged(acts))


def _objects(shown: Any, acts: Any) -> Columns:
    """A column as pandas reads it from a parquet file."""
    column = np.empty(len(shown), object)
    column[:] = [array(each) for each in shown]
    return Columns(recommendations=column, interactions=acts)


def _arrow_arrays(shown: Any, acts: Any) -> Columns:
    return Columns(
        recommendations=pa.array(shown, kind(shown, acts)),
        interactions=pa.chunked_array([acts[:1], acts[1:]], kind(shown, acts)),
    )


def _table(shown: Any, acts: Any) -> Any:
    columns = {"recommendations": shown, "interactions": acts}
    lists = {name: pa.array(column, kind(shown, acts)) for name, column in columns.items()}
    return pa.table(lists)


def _sliced_batch(shown: Any, acts: Any) -> Any:
    """A record batch in the middle of a larger one, with 64-bit offsets."""
    large = pa.large_list(kind(shown, acts).value_type)
    columns = {"recommendations": shown, "interactions": acts}
    around = {
        name: pa.array([column[-1], *column, column[0]] if column else [], large)
        for name, column in columns.items()
    }
    batch = pa.record_batch(around)
    return batch.slice(1, len(shown)) if shown else batch


def _dictionary(shown: Any, acts: Any) -> Any:
    """Dictionary-encoded strings, as in a parquet file of categories."""
    table = _table(shown, acts)
    if not pa.types.is_string(kind(shown, acts).value_type):
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
