"""Columns give the same bits as events."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval import Accumulator, Columns
from streameval.events import Id
from streameval.statistics import hits, profiles
from tests.columnar.forms import FORMS, Pairs, bits, made, one_by_one
from tests.effort import dear, every_case

WORDS: tuple[Id, ...] = ("a", "b", "c", "d", "e", "ü", "物", "x y", "0", "1", "", "\x00")
NUMBERS: tuple[Id, ...] = tuple(range(12))
SCATTERED: tuple[Id, ...] = (0, 1, -1, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**62, -(2**61))


def lists(items: tuple[Id, ...]) -> SearchStrategy[list[Id]]:
    item = st.sampled_from(items)
    return st.one_of(st.lists(item, max_size=8, unique=True), st.lists(item, max_size=8))


def streams() -> SearchStrategy[Pairs]:
    """Lists and interactions with and without repeats, many of them empty."""
    pairs = [st.tuples(lists(items), lists(items)) for items in (WORDS, NUMBERS, SCATTERED)]
    return st.one_of(*(st.lists(pair, max_size=10) for pair in pairs))


@dear()
@given(pairs=streams())
@example(pairs=[])
@example(pairs=[([], []), ([], ["a"]), (["a"], [])])
@example(pairs=[([5, 5, 3], [3, 3, 5]), ([2**63 - 1, -(2**63)], [-(2**63), 0])])
def test_columns_are_events_bit_for_bit(pairs: Pairs) -> None:
    expected = bits(one_by_one(pairs, made()))
    for form in FORMS:
        assert bits(_counted(pairs, made(), form)) == expected, form


@dear()
@given(pairs=streams(), entries=st.integers(1, 20), cut=st.integers(0, 10))
def test_the_size_of_matched_parts_changes_no_bit(pairs: Pairs, entries: int, cut: int) -> None:
    """Parts of any size, a filter without effect, and earlier events."""
    expected = bits(one_by_one(pairs, made()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "_ENTRIES", entries)
        patch.setattr(hits, "_MOST_FOLDED", 1 + entries // 4)
        assert bits(_counted(pairs, made())) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "_candidates", lambda shown, _: np.arange(shown.values.size))
        assert bits(_counted(pairs, made())) == expected
    assert bits(_counted(pairs[cut:], one_by_one(pairs[:cut], made()), "table")) == expected


@every_case(
    ("metrics", "max_items"),
    [
        (("ndcg@2", "precision(denominator=length)@1", "recall(repeats=every)@2"), 1_000_000),
        (("distinct_items@2", "distinct_items", "item_coverage@2"), 5),
    ],
)
@dear()
@given(pairs=streams())
def test_items_that_are_not_kept_change_no_bit(
    pairs: Pairs, metrics: tuple[str, ...], max_items: int
) -> None:
    """Items beyond the depth, and outside a sample."""
    found, expected = made(metrics, max_items), made(metrics, max_items)
    assert bits(_counted(pairs, found)) == bits(one_by_one(pairs, expected))


def _counted(pairs: Pairs, accumulator: Accumulator, form: str = "ragged") -> Accumulator:
    accumulator.update_many(FORMS[form](*([list(each[side]) for each in pairs] for side in (0, 1))))
    return accumulator


@every_case(
    ("most", "kind"),
    [(40, np.uint64), (2**31, np.int64), (2**61, np.uint64), (2**63 - 1, np.int64)],
)
def test_many_lists_are_many_events(most: int, kind: type[np.int64 | np.uint64]) -> None:
    draw = np.random.default_rng(most)
    known = draw.integers(0, most, 60).astype(kind)
    shown = draw.choice(known, (12_000, 7))
    offsets = np.concatenate(([0], np.cumsum(draw.integers(0, 9, 12_000))))
    values = draw.choice(known, offsets[-1])
    acts = [values[start:stop] for start, stop in pairwise(offsets)]
    columns, events = (Accumulator("ndcg@5", "map@7", "mrr@7", "distinct_items@3") for _ in "ab")
    columns.update_many(Columns(recommendations=shown, interactions=(values, offsets)))
    events.update_many(zip(shown.tolist(), (each.tolist() for each in acts), strict=True))
    assert columns.read("ndcg@5").value > 0
    assert bits(columns) == bits(events)


@every_case("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_integers_of_any_width_are_the_same_ids(kind: pa.DataType) -> None:
    wide, narrow = made(), made()
    shown, acts = [[1, 2, 3], [4], []], [[3, 1], [], [7]]
    columns = {"recommendations": shown, "interactions": acts}
    narrow.update_many(
        pa.table({name: pa.array(each, pa.list_(kind)) for name, each in columns.items()})
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
