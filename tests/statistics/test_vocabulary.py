"""The encoding of item names restores any ids, depends only on them, and has small pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.events import Id
from streameval.statistics.vocabulary import Items, SavedItems, decode_names, encode_names

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


def test_subtypes_of_ids_are_written_as_str_and_int() -> None:
    special = [np.str_("a"), np.int64(7), True]
    assert _pieces(special)[0] == _pieces(["a", 7, 1])[0]
    assert {type(item) for item in _read(b"".join(_pieces(special)[0]))} == {str, int}


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        decode_names(Items(), [["a", "b"], ["a"]])
