"""Columns give the same bits as events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval import Accumulator, Columns
from streameval.accumulator import table
from streameval.events import Id
from tests.effort import few_examples

Pairs: TypeAlias = Sequence[tuple[list[Id], list[Id]]]

# All statistics, all ways to find hits, and values of lists.
METRICS = (
    *("hit_rate@2", "precision(denominator=length)@3", "recall@5", "mrr@2", "map@3", "ndcg@5"),
    *("recall(repeats=every)@5", "capri:recall@4", "ndcg(min_gain=2.0)@3"),
    *("ndcg(statistic=median)@3", "replay:map@3", "recall(type=click)@3"),
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
    rows = [[*items, *[filler] * (width - len(items))] for items in lists]
    return array(list(chain.from_iterable(rows))).reshape(len(lists), width), list(map(len, lists))


def _matrix_and_arrays(shown: Any, acts: Any) -> Columns:
    rows, lengths = matrix(shown)
    arrays = [array(items) for items in acts]
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
    column[:] = [array(items) for items in shown]
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


WORDS: tuple[Id, ...] = ("a", "b", "c", "d", "e", "ü", "物", "x y", "0", "1", "\x00")
NUMBERS: tuple[Id, ...] = tuple(range(12))
SCATTERED: tuple[Id, ...] = (0, 1, -2, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**62, -(2**61))


def lists(items: tuple[Id, ...]) -> SearchStrategy[list[Id]]:
    item = st.sampled_from(items)
    return st.one_of(st.lists(item, max_size=8, unique=True), st.lists(item, max_size=8))


def streams() -> SearchStrategy[Pairs]:
    """Lists and interactions with and without repeats, many of them empty."""
    pairs = [
        st.tuples(lists(items), lists(items)).filter(_have_ids)
        for items in (WORDS, NUMBERS, SCATTERED)
    ]
    return st.one_of(*(st.lists(pair, max_size=10) for pair in pairs))


def _have_ids(pair: tuple[list[Id], list[Id]]) -> bool:
    """Whether the interactions are ids, not marks: some other item, or one that was shown."""
    marks: set[Id] = {0, 1, "0", "1"}
    return not marks.issuperset(pair[1]) or not marks.isdisjoint(pair[0])


@few_examples()
@given(pairs=streams())
@example(pairs=[])
@example(pairs=[([], []), ([], ["a"]), (["a"], [])])
@example(pairs=[([5, 5, 3], [3, 3, 5]), ([2**63 - 1, -(2**63)], [-(2**63), 0])])
def test_columns_are_events_bit_for_bit(pairs: Pairs) -> None:
    expected = bits(one_by_one(pairs, made()))
    for form in FORMS:
        assert bits(_counted(pairs, made(), form)) == expected, form


@few_examples()
@given(pairs=streams(), pending=st.integers(1, 6), cut=st.integers(0, 10))
def test_earlier_and_pending_events_change_no_bit(pairs: Pairs, pending: int, cut: int) -> None:
    expected = bits(one_by_one(pairs, made()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_MOST_IDS", pending)
        assert bits(_counted(pairs, made())) == expected
    assert bits(_counted(pairs[cut:], one_by_one(pairs[:cut], made()), "table")) == expected


@pytest.mark.parametrize(
    ("metrics", "max_items"),
    [
        (("ndcg@2", "precision(denominator=length)@1", "recall(repeats=every)@2"), 1_000_000),
        (("distinct_items@2", "distinct_items", "item_coverage@2"), 5),
    ],
)
@few_examples()
@given(pairs=streams())
def test_items_that_are_not_kept_change_no_bit(
    pairs: Pairs, metrics: tuple[str, ...], max_items: int
) -> None:
    """Items beyond the depth, and outside a sample."""
    counted, expected = made(metrics, max_items), made(metrics, max_items)
    assert bits(_counted(pairs, counted)) == bits(one_by_one(pairs, expected))


def _counted(pairs: Pairs, accumulator: Accumulator, form: str = "ragged") -> Accumulator:
    accumulator.update_many(FORMS[form](*([list(pair[side]) for pair in pairs] for side in (0, 1))))
    return accumulator


@pytest.mark.parametrize(
    ("most", "kind"),
    [(40, np.uint64), (2**31, np.int64), (2**61, np.uint64), (2**63 - 1, np.int64)],
)
def test_many_lists_are_many_events(most: int, kind: type[np.int64 | np.uint64]) -> None:
    draw = np.random.default_rng(most)
    shown_ids = draw.integers(0, most, 60).astype(kind)
    shown = draw.choice(shown_ids, (12_000, 7))
    offsets = np.concatenate(([0], np.cumsum(draw.integers(0, 9, 12_000))))
    values = draw.choice(shown_ids, offsets[-1])
    acts = [values[start:stop] for start, stop in pairwise(offsets)]
    columns, events = (Accumulator("ndcg@5", "map@7", "mrr@7", "distinct_items@3") for _ in "ab")
    columns.update_many(Columns(recommendations=shown, interactions=(values, offsets)))
    events.update_many(zip(shown.tolist(), (items.tolist() for items in acts), strict=True))
    assert columns.read("ndcg@5").value > 0
    assert bits(columns) == bits(events)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_integers_of_any_width_are_the_same_ids(kind: pa.DataType) -> None:
    wide, narrow = made(), made()
    shown, acts = [[1, 2, 3], [4], []], [[3, 1], [], [7]]
    columns = {"recommendations": shown, "interactions": acts}
    narrow.update_many(
        pa.table({name: pa.array(column, pa.list_(kind)) for name, column in columns.items()})
    )
    one_by_one([(list(a), list(b)) for a, b in zip(shown, acts, strict=True)], wide)
    assert bits(narrow) == bits(wide)


def test_unsigned_ids_beyond_63_bits_are_kept() -> None:
    shown = np.array([[2**64 - 1, 2**63], [1, 2]], np.uint64)
    accumulator = made()
    accumulator.update_many(Columns(recommendations=shown, interactions=[[2**63], [2]]))
    assert bits(accumulator) == bits(
        one_by_one([([2**64 - 1, 2**63], [2**63]), ([1, 2], [2])], made())
    )
