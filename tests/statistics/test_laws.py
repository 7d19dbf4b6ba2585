"""Every statistic is a commutative monoid, cell by cell, and a function of what it counted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import UnlikeStateError
from tests.effort import dear
from tests.statistics.kinds import KINDS, Kind, Piece, batch, state

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _pieces(kind: Kind) -> st.SearchStrategy[list[Piece]]:
    return st.lists(st.tuples(st.sampled_from([0, 1, 5, 2**40 + 1]), kind.piece), max_size=8)


def _merged(kind: Kind, *parts: Any) -> Any:
    whole = kind.make()
    for part in parts:
        whole.merge(part)
    return whole


@every_kind
def test_merging_is_associative_commutative_and_the_same_as_counting(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind), _pieces(kind))
    def check(a: list[Piece], b: list[Piece], c: list[Piece]) -> None:
        first, second, third = map(kind.counted, (a, b, c))
        left = _merged(kind, _merged(kind, first, second), third)
        right = _merged(kind, first, _merged(kind, second, third))
        turned = _merged(kind, third, second, first)
        whole = state(kind.counted([*a, *b, *c]))
        assert state(left) == state(right) == state(turned) == whole

    check()


@every_kind
def test_an_empty_one_changes_nothing_on_either_side(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind))
    def check(pieces: list[Piece]) -> None:
        content = state(kind.counted(pieces))
        left, right = kind.counted(pieces), kind.make()
        left.merge(kind.make())
        right.merge(kind.counted(pieces))
        assert state(left) == state(right) == content

    check()


@every_kind
def test_any_order_gives_the_same_content(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), st.data())
    def check(pieces: list[Piece], data: st.DataObject) -> None:
        shuffled = data.draw(st.permutations(pieces))
        assert state(kind.counted(pieces)) == state(kind.counted(shuffled))

    check()


@every_kind
def test_what_is_counted_is_left_as_it_was(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind))
    def check(pieces: list[Piece]) -> None:
        before = copy.deepcopy(pieces)
        other = kind.counted(pieces)
        content = state(other)
        assert pieces == before
        target = kind.counted(pieces)
        target.merge(other)
        for cell, piece in pieces:
            kind.count(target, cell, piece)
        assert state(other) == content

    check()


@every_kind
def test_a_copy_is_the_same_and_independent(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Piece], after: list[Piece]) -> None:
        statistic = kind.counted(before)
        twin = statistic.made(lambda relation: relation.copy())
        for cell, piece in after:
            kind.count(twin, cell, piece)
        assert state(twin) == state(kind.counted([*before, *after]))
        assert state(statistic) == state(kind.counted(before))

    check()


@every_kind
def test_no_cell_knows_of_another(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), st.sampled_from([0, 1, 5]))
    def check(pieces: list[Piece], cell: int) -> None:
        alone = kind.counted([piece for piece in pieces if piece[0] == cell])
        cells = np.array([cell])
        chosen = kind.counted(pieces).made(lambda relation: relation.selected(cells))
        assert state(chosen) == state(alone)
        others = kind.counted([piece for piece in pieces if piece[0] != cell])
        rest = kind.counted(pieces).made(lambda relation: relation.without(cells))
        assert state(rest) == state(others)

    check()


@every_kind
def test_cells_that_meet_are_one(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Piece], after: list[Piece]) -> None:
        names = {5: 1, 1: 0, 7: 3}
        renamed = kind.counted(before)
        renamed.rename(names)
        for cell, piece in after:
            kind.count(renamed, cell, piece)
        expected = [(names.get(cell, cell), piece) for cell, piece in before]
        assert state(renamed) == state(kind.counted([*expected, *after]))

    check()


@every_kind
def test_handed_out_by_the_upper_bits_each_part_is_what_was_counted_there(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind))
    def check(pieces: list[Piece], known: list[Piece]) -> None:
        statistic = kind.counted(pieces)
        parts = {cell >> 2: statistic.empty() for cell, _ in (*pieces, *known)}
        for cell, piece in known:
            kind.count(parts[cell >> 2], cell & 3, piece)
        statistic.hand_out(2, parts)
        for upper, part in parts.items():
            own = [(cell & 3, piece) for cell, piece in (*known, *pieces) if cell >> 2 == upper]
            assert state(part) == state(kind.counted(own))

    check()


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.name.startswith("values")], ids=lambda k: k.name
)
def test_one_batch_of_many_cells_is_event_by_event(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind))
    def check(pieces: Sequence[Piece]) -> None:
        statistic = kind.make()
        if pieces:
            events = [event for _, event in pieces]
            statistic.count(batch(*events), np.array([cell for cell, _ in pieces], np.int64))
        assert state(statistic) == state(kind.counted(pieces))

    check()


@every_kind
def test_what_was_added_can_be_taken_away(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Piece], after: list[Piece]) -> None:
        whole = kind.counted([*before, *after])
        whole.fold()
        if not whole.reduced:
            whole.subtract(kind.counted(after))
            assert state(whole) == state(kind.counted(before))

    check()


@every_kind
def test_unlike_ones_are_refused_and_both_are_named(kind: Kind) -> None:
    here, there = kind.make(), kind.unlike()
    with pytest.raises(UnlikeStateError) as error:
        here.merge(there)
    assert repr(error.value.left) in str(error.value)
    assert repr(error.value.right) in str(error.value)
    assert state(here) == state(kind.make())
