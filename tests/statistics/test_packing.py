"""What is written in pieces: any ids, any integers, in any order, to the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from streameval.events import Id
from streameval.statistics.packing import (
    SavedItems,
    array_from,
    column_of,
    columns_of,
    integers,
    item_rows,
    rows_of,
    sorted_counts,
)

texts = st.text(st.characters(exclude_categories=()), max_size=4)
numbers = st.integers(-(2**70), 2**70)
int64 = st.integers(-(2**63), 2**63 - 1)
counts = st.dictionaries(st.one_of(texts, numbers), st.integers(1, 2**62), max_size=30)
some = settings(max_examples=60, print_blob=True)


def _written(known: dict[Id, int]) -> bytes:
    return b"".join(item_rows(known, array_from(known.values())))


def _read(data: bytes) -> dict[Id, int]:
    items, (column,) = rows_of(msgspec.msgpack.decode(data, type=SavedItems), columns=1)
    return dict(zip(items, column, strict=True))


@some
@given(counts)
def test_any_ids_return(known: dict[Id, int]) -> None:
    """Lone surrogates and integers beyond 64 bits too."""
    assert _read(_written(known)) == known


@some
@given(counts, st.data())
def test_any_order_gives_the_same_bytes(known: dict[Id, int], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations([*known.items()])))
    assert _written(shuffled) == _written(known)


@pytest.mark.parametrize("more", [[], range(0, 20_000 * 2**40, 2**40)], ids=["text", "mixed"])
def test_many_items_are_written_in_small_pieces(more: Sequence[int]) -> None:
    items: list[Id] = [*(f"item {number}" for number in range(20_000)), *more]
    known = {item: place + 1 for place, item in enumerate(items)}
    found = [*item_rows(known, array_from(known.values()))]
    assert len(found) > len(items) / 2_000
    assert max(map(len, found)) < 100_000
    assert _read(b"".join(found)) == known
    assert _written(dict(reversed(known.items()))) == b"".join(found)


def test_ids_of_special_kinds_are_written_as_what_they_are() -> None:
    special: dict[Any, int] = {np.str_("a"): 1, np.int64(7): 2, True: 3}
    assert _written(special) == _written({"a": 1, 7: 2, 1: 3})
    assert {type(item) for item in _read(_written(special))} == {str, int}


def test_an_item_may_have_several_rows() -> None:
    columns = (np.array([2, 1, 1]), np.array([5, 6, 7]))
    data = b"".join(item_rows(["a", "b", "a"], *columns))
    other = (columns[0][::-1], columns[1][::-1])
    assert data == b"".join(item_rows(["a", "b", "a"], *other))
    items, (first, second) = rows_of(msgspec.msgpack.decode(data, type=SavedItems), columns=2)
    assert [*zip(items, first, second, strict=True)] == [("a", 1, 7), ("a", 2, 5), ("b", 1, 6)]


@some
@given(st.lists(int64))
def test_any_integers_return_in_the_fewest_bytes(values: list[int]) -> None:
    saved = integers(np.array(values, np.int64))
    assert column_of(saved).tolist() == values
    bits = max((value.bit_length() + 1 for value in [*values, *(~v for v in values)]), default=1)
    assert saved.code == next(width for width in (1, 2, 4, 8) if bits <= 8 * width)


@some
@given(st.dictionaries(int64, st.integers(0, 2**62)))
def test_counts_are_sorted_by_their_keys(known: dict[int, int]) -> None:
    keys, values = sorted_counts(known)
    assert [*zip(keys.tolist(), values.tolist(), strict=True)] == sorted(known.items())


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([Ext(3, b"abc"), Ext(1, b"a")], "integers of 3 bytes"),
        ([Ext(2, b"abc"), Ext(1, b"a")], "buffer size"),
        ([Ext(1, b"abc"), Ext(1, b"a")], "columns of"),
        ([Ext(1, b"abc")], "2 were saved"),
    ],
)
def test_what_are_no_columns_is_refused(saved: list[Ext], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns_of(saved, columns=2)


def test_items_without_a_row_each_are_refused() -> None:
    with pytest.raises(ValueError, match="2 items with 1 rows"):
        rows_of([(["a", "b"], [Ext(1, b"a")])], columns=1)
