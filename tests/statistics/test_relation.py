"""Relations of any size add up; equal keys, items and integers are saved and restored."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from streameval.events import Id
from streameval.statistics.arrays import group_sum
from streameval.statistics.relation import Relation, Shape, decode_column, encode_column
from streameval.statistics.vocabulary import Items, SavedItems, decode_names, encode_names

_SIZES = (1, 63, 1_023, 1_025, 3_000)
"""Sizes below, at and above the number of rows that may wait."""

int64 = st.integers(-(2**63), 2**63 - 1)


def _relation(size: int, shift: int = 0) -> Relation:
    relation = Relation(Shape(keys=1))
    keys = np.arange(size) + shift
    relation.add([keys], [keys + 1])
    return relation


def _expected(*relations: tuple[int, int]) -> list[list[int]]:
    total: Counter[int] = Counter()
    for size, shift in relations:
        total.update({key: key + 1 for key in range(shift, shift + size)})
    return [[key, total[key]] for key in sorted(total)]


@pytest.mark.parametrize("shift", [0, 1, 1_000])
def test_relations_add_up(shift: int) -> None:
    for first, second in product(_SIZES, repeat=2):
        total = _relation(first)
        for _ in range(3):
            total.merge(_relation(second, shift))
        assert total.rows() == _expected((first, 0), *[(second, shift)] * 3), (first, second)


@pytest.mark.parametrize("size", _SIZES)
def test_relations_that_share_parts_are_independent(size: int) -> None:
    part = _relation(size)
    total = Relation(Shape(keys=1))
    total.merge(part)
    duplicate = total.copy()
    total.merge(_relation(size, 7))
    duplicate.merge(_relation(3, 9))
    assert part.rows() == _expected((size, 0))
    assert total.rows() == _expected((size, 0), (size, 7))
    assert duplicate.rows() == _expected((size, 0), (3, 9))


def test_many_short_parts_are_joined_and_add_up() -> None:
    relation, expected = Relation(Shape(keys=2)), Counter[tuple[int, int]]()
    for number in range(900):
        cell, key = number % 3, number * 7 % 400
        relation.add([np.array([cell]), np.array([key])], [np.array([1])])
        expected[cell, key] += 1
        assert len(relation.parts) <= 65
        assert relation.size == sum(part[0].size for part in relation.parts)
    assert [tuple(row) for row in relation.rows()] == [
        (*keys, count) for keys, count in sorted(expected.items())
    ]


@given(st.lists(int64))
def test_integers_are_restored_from_the_fewest_bytes(values: list[int]) -> None:
    saved = encode_column(np.array(values, np.int64))
    assert decode_column(saved).tolist() == values
    bits = max(((value if value >= 0 else ~value).bit_length() + 1 for value in values), default=1)
    assert saved.code == next(width for width in (1, 2, 4, 8) if bits <= 8 * width)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([Ext(3, b"abc"), Ext(1, b"a")], "integers of 3 bytes"),
        ([Ext(2, b"abc"), Ext(1, b"a")], "buffer size"),
        ([Ext(1, b"abc"), Ext(1, b"a")], "columns of"),
        ([Ext(1, b"abc")], "columns of"),
        ([Ext(1, b"\x01\x00"), Ext(1, b"ab")], "ascend"),
        ([Ext(1, b"\x00\x00"), Ext(1, b"ab")], "ascend"),
        ([Ext(1, b"\x05"), Ext(1, b"a")], "code 5 of only 3 codes"),
    ],
)
def test_an_invalid_relation_is_refused(saved: list[Ext], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Relation(Shape(keys=1)).restore(saved, np.arange(3), np.arange(0))


large = st.one_of(st.integers(0, 5), st.integers(2**52 - 3, 2**53 + 3), st.integers(0, 2**58))
tables = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), large, large), max_size=12)
Row = tuple[int, int, int, int]


def _columns(table: list[Row]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array([row[index] for row in table], np.int64) for index in range(4)]


def _by_hand(table: list[Row]) -> list[list[int]]:
    first: Counter[tuple[int, int]] = Counter()
    second: Counter[tuple[int, int]] = Counter()
    for row_number, two, left, right in table:
        first[row_number, two] += left
        second[row_number, two] += right
    keys = sorted({(row[0], row[1]) for row in table})
    return [[*key, first[key], second[key]] for key in keys]


def _grouped(table: list[Row]) -> list[list[int]]:
    columns = _columns(table)
    keys, sums = group_sum(columns[:2], columns[2:])
    return [list(row) for row in zip(*(column.tolist() for column in (*keys, *sums)), strict=True)]


@given(tables)
def test_sums_are_exact_whatever_their_size(table: list[Row]) -> None:
    assert _grouped(table) == _by_hand(table)


@pytest.mark.parametrize("count", [2**51, 2**52, 2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1])
def test_a_count_beyond_the_exact_floats_keeps_its_last_bit(count: int) -> None:
    table = [(0, 1, count, 1), (0, 1, 1, 1), (0, 2, count, 1)]
    assert _grouped(table) == [[0, 1, count + 1, 2], [0, 2, count, 1]]


def test_distant_keys_need_no_memory() -> None:
    assert _grouped([(2**20, 2**31, 1, 2), (0, 0, 3, 4)]) == [[0, 0, 3, 4], [2**20, 2**31, 1, 2]]


@pytest.mark.parametrize("low", [-(2**63), 0])
def test_keys_that_do_not_fit_into_one_integer_are_grouped_too(low: int) -> None:
    table = [(low, 2**62, 1, 2), (2**62, low, 3, 4), (low, 2**62, 5, 6), (low, low, 7, 8)]
    assert _grouped(table) == _by_hand(table)
    assert _grouped(table[:1]) == [[*table[0]]]


@pytest.mark.parametrize("far", [5, 2**62])
def test_ascending_rows_are_returned_unchanged(far: int) -> None:
    keys, large = [np.array([0, 0, 2]), np.array([-far, far, 0])], [np.array([1, 1, 1])]
    summed, _ = group_sum(keys, large)
    assert all(summed_column is other for summed_column, other in zip(summed, keys, strict=True))


texts = st.text(st.characters(exclude_categories=()), max_size=4)
numbers = st.integers(-(2**70), 2**70)
ids = st.lists(st.one_of(texts, numbers), unique=True, max_size=30)


def _pieces(names: Iterable[Any]) -> tuple[list[bytes], list[Id]]:
    items = Items()
    *pieces, order = encode_names(items, items.codes(names))
    assert isinstance(order, np.ndarray)
    return [piece for piece in pieces if isinstance(piece, bytes)], items.named(order)


def _read(data: bytes) -> list[Id]:
    items = Items()
    return items.named(decode_names(items, msgspec.msgpack.decode(data, type=SavedItems)))


@given(ids)
def test_ids_are_restored_in_written_order(names: list[Id]) -> None:
    """Including lone surrogates and integers beyond 64 bits."""
    pieces, order = _pieces(names)
    assert _read(b"".join(pieces)) == order
    assert set(order) == set(names)


@given(ids, st.data())
def test_any_order_gives_the_same_bytes(names: list[Id], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(names))
    assert _pieces(shuffled) == _pieces(names)


@pytest.mark.parametrize("more", [[], range(0, 20_000 * 2**40, 2**40)], ids=["text", "mixed"])
def test_many_items_are_written_in_small_pieces(more: Sequence[int]) -> None:
    names: list[Id] = [*(f"item {number}" for number in range(20_000)), *more]
    pieces, order = _pieces(names)
    assert len(pieces) > len(names) / 2_000
    assert max(map(len, pieces)) < 100_000
    assert _read(b"".join(pieces)) == order
    assert _pieces(reversed(names))[0] == pieces


def test_threads_that_share_a_vocabulary_give_each_item_a_code_of_its_own() -> None:
    """Copies of an accumulator share one, and may be on several threads."""
    items = Items()

    def add(thread: int) -> None:
        for batch in range(60):
            items.codes_of([f"{thread}-{batch}-{number}" for number in range(20)])
            assert items.unit_hashes(items.codes([f"{thread}+{batch}"])).size

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add, range(4)))
    finally:
        sys.setswitchinterval(usual)
    alone = Items()
    assert alone.codes_of(items.names).tolist() == list(range(4 * 60 * 21))
    assert items == alone
    every = np.arange(len(items))
    assert np.array_equal(items.unit_hashes(every), alone.unit_hashes(every))


def test_subtypes_of_ids_are_written_as_str_and_int() -> None:
    special = [np.str_("a"), np.int64(7), True]
    assert _pieces(special)[0] == _pieces(["a", 7, 1])[0]
    assert {type(item) for item in _read(b"".join(_pieces(special)[0]))} == {str, int}


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        decode_names(Items(), [["a", "b"], ["a"]])


@pytest.mark.parametrize(
    ("keys", "counts", "found"),
    [
        ([[0, 0]], [[1, 1]], r"found 1 and 1: int64 \(2,\), int64 \(2,\)"),
        ([[0, 0], [5, 5]], [[1.5, 1.0]], r"float64 \(2,\)$"),
        ([[0, 0], [5]], [[1, 1]], r"int64 \(1,\), int64 \(2,\)$"),
    ],
)
def test_columns_of_another_shape_are_refused(
    keys: list[list[int]], counts: list[list[float]], found: str
) -> None:
    with pytest.raises(ValueError, match=f"2 key columns and 1 count columns.* {found}"):
        Relation(Shape(keys=2)).add(list(map(np.array, keys)), list(map(np.array, counts)))
