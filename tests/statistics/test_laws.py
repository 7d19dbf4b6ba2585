"""Every statistic is a commutative monoid per cell, and a function of the events counted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.events.errors import UnlikeStateError
from tests.effort import few_examples
from tests.statistics.kinds import KINDS, Kind, Piece, batch, state

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _pieces(kind: Kind) -> st.SearchStrategy[list[Piece]]:
    return st.lists(st.tuples(st.sampled_from([0, 1, 5, 2**40 + 1]), kind.piece), max_size=8)


def _merged(kind: Kind, *parts: Any) -> Any:
    total = kind.make()
    for part in parts:
        total.merge(part)
    return total


# Drawing events is expensive, so each test checks several properties of one draw.


@every_kind
def test_merging_is_associative_and_commutative(kind: Kind) -> None:
    @few_examples()
    @given(_pieces(kind), _pieces(kind), _pieces(kind), st.data())
    def check(a: list[Piece], b: list[Piece], c: list[Piece], data: st.DataObject) -> None:
        first, second, third = map(kind.counted, (a, b, c))
        total = state(kind.counted([*a, *b, *c]))
        assert state(_merged(kind, _merged(kind, first, second), third)) == total
        assert state(_merged(kind, first, _merged(kind, second, third))) == total
        assert state(_merged(kind, third, second, first)) == total
        assert state(kind.counted(data.draw(st.permutations([*a, *b, *c])))) == total
        first.merge(kind.make())
        assert state(first) == state(_merged(kind, kind.counted(a))) == state(kind.counted(a))

    check()


@every_kind
def test_counting_merging_and_copying_leave_their_inputs_unchanged(kind: Kind) -> None:
    @few_examples()
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Piece], after: list[Piece]) -> None:
        copied = copy.deepcopy(before)
        statistic = kind.counted(before)
        assert before == copied
        content, both = state(statistic), state(kind.counted([*before, *after]))
        target, duplicate = kind.counted(before), statistic.mapped(lambda relation: relation.copy())
        target.merge(statistic)
        for cell, piece in after:
            kind.count(target, cell, piece)
            kind.count(duplicate, cell, piece)
        assert state(duplicate) == both
        if not duplicate.reduced:
            duplicate.subtract(kind.counted(after))
            assert state(duplicate) == content
        assert state(statistic) == content

    check()


@every_kind
def test_cells_are_selected_renamed_and_distributed_with_their_counts(kind: Kind) -> None:
    @few_examples()
    @given(_pieces(kind), _pieces(kind), st.sampled_from([0, 1, 5]))
    def check(pieces: list[Piece], earlier: list[Piece], cell: int) -> None:
        cells = np.array([cell])
        selected = kind.counted(pieces).mapped(lambda relation: relation.selected(cells))
        assert state(selected) == state(kind.counted(part for part in pieces if part[0] == cell))
        names = {5: 1, 1: 0, 7: 3}
        renamed = kind.counted(pieces)
        renamed.rename(names)
        for number, piece in earlier:
            kind.count(renamed, number, piece)
        expected = [(names.get(number, number), piece) for number, piece in pieces]
        assert state(renamed) == state(kind.counted([*expected, *earlier]))
        _check_distributed(kind, pieces, earlier)

    check()


def _check_distributed(kind: Kind, pieces: list[Piece], earlier: list[Piece]) -> None:
    """Distribution by the upper bits of cells."""
    statistic = kind.counted(pieces)
    parts = {cell >> 2: statistic.empty() for cell, _ in (*pieces, *earlier)}
    for cell, piece in earlier:
        kind.count(parts[cell >> 2], cell & 3, piece)
    statistic.distribute(2, parts)
    for upper, part in parts.items():
        upper_pieces = [
            (cell & 3, piece) for cell, piece in (*earlier, *pieces) if cell >> 2 == upper
        ]
        assert state(part) == state(kind.counted(upper_pieces))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.name.startswith("values")])
def test_a_batch_of_many_cells_equals_its_events_one_by_one(kind: Kind) -> None:
    @few_examples()
    @given(_pieces(kind))
    def check(pieces: Sequence[Piece]) -> None:
        statistic = kind.make()
        if pieces:
            events = [event for _, event in pieces]
            statistic.count(batch(*events), np.array([cell for cell, _ in pieces], np.int64))
        assert state(statistic) == state(kind.counted(pieces))

    check()


@every_kind
def test_different_options_do_not_merge_and_both_are_named(kind: Kind) -> None:
    here, there = kind.make(), kind.unlike()
    with pytest.raises(UnlikeStateError) as error:
        here.merge(there)
    assert repr(error.value.left) in str(error.value)
    assert repr(error.value.right) in str(error.value)
    assert state(here) == state(kind.make())
