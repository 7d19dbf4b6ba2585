"""Relations of any size add up, with pending rows, equal keys and shared parts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from streameval.statistics.relation import Relation, Shape, decode_column, encode_column
from tests.effort import every_case

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


@every_case("shift", [0, 1, 1_000])
def test_relations_add_up(shift: int) -> None:
    for first, second in product(_SIZES, repeat=2):
        whole = _relation(first)
        for _ in range(3):
            whole.merge(_relation(second, shift))
        assert whole.rows() == _expected((first, 0), *[(second, shift)] * 3), (first, second)


@every_case("size", _SIZES)
def test_a_relation_added_to_itself_is_twice_it(size: int) -> None:
    relation = _relation(size)
    relation.merge(relation)
    assert relation.rows() == _expected((size, 0), (size, 0))


@every_case("size", _SIZES)
def test_relations_that_share_parts_are_independent(size: int) -> None:
    part = _relation(size)
    whole = Relation(Shape(keys=1))
    whole.merge(part)
    twin = whole.copy()
    whole.merge(_relation(size, 7))
    twin.merge(_relation(3, 9))
    assert part.rows() == _expected((size, 0))
    assert whole.rows() == _expected((size, 0), (size, 7))
    assert twin.rows() == _expected((size, 0), (3, 9))


def test_subtracted_rows_are_removed() -> None:
    whole = _relation(10)
    whole.merge(_relation(5, 3))
    whole.subtract(_relation(10))
    assert whole.rows() == _expected((5, 3))


def test_a_maximum_combines_equal_keys() -> None:
    relation = Relation(Shape(keys=1, combine=np.maximum))
    for count in (3, 7, 5):
        relation.add([np.array([2])], [np.array([count])])
    assert relation.rows() == [[2, 7]]
    assert relation.value(np.array([1, 2, 9])).tolist() == [0, 7, 0]


def test_rows_follow_the_order_of_the_cells() -> None:
    relation = Relation(Shape(keys=2))
    relation.add([np.array([4, 4, 9]), np.array([1, 0, 8])], [np.array([10, 20, 30])])
    owner, (keys, counts) = relation.of(np.array([9, 3, 4]))
    assert (owner.tolist(), keys.tolist(), counts.tolist()) == ([0, 2, 2], [8, 0, 1], [30, 20, 10])


@given(st.lists(int64))
def test_integers_are_restored_from_the_fewest_bytes(values: list[int]) -> None:
    saved = encode_column(np.array(values, np.int64))
    assert decode_column(saved).tolist() == values
    bits = max(((value if value >= 0 else ~value).bit_length() + 1 for value in values), default=1)
    assert saved.code == next(width for width in (1, 2, 4, 8) if bits <= 8 * width)


@every_case(
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
        Relation(Shape(keys=1)).restored(saved, np.arange(3), np.arange(0))
