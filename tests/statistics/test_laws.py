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
from tests.effort import dear, every_case
from tests.statistics.kinds import KINDS, Kind, Piece, batch, state

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _pieces(kind: Kind) -> st.SearchStrategy[list[Piece]]:
    return st.lists(st.tuples(st.sampled_from([0, 1, 5, 2**40 + 1]), kind.piece), max_size=8)


def _merged(kind: Kind, *parts: Any) -> Any:
    whole = kind.make()
    for part in parts:
        whole.merge(part)
    return whole


# One draw of events is dear: each test below tries on it all that it has to say.


@every_kind
def test_counted_in_parts_and_in_any_order_it_is_the_same(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind), _pieces(kind), st.data())
    def check(a: list[Piece], b: list[Piece], c: list[Piece], data: st.DataObject) -> None:
        first, second, third = map(kind.counted, (a, b, c))
        whole = state(kind.counted([*a, *b, *c]))
        assert state(_merged(kind, _merged(kind, first, second), third)) == whole
        assert state(_merged(kind, first, _merged(kind, second, third))) == whole
        assert state(_merged(kind, third, second, first)) == whole
        assert state(kind.counted(data.draw(st.permutations([*a, *b, *c])))) == whole
        first.merge(kind.make())
        assert state(first) == state(_merged(kind, kind.counted(a))) == state(kind.counted(a))

    check()


@every_kind
def test_what_was_counted_merged_or_copied_is_left_as_it_was(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Piece], after: list[Piece]) -> None:
        kept = copy.deepcopy(before)
        statistic = kind.counted(before)
        assert before == kept
        content, both = state(statistic), state(kind.counted([*before, *after]))
        target, twin = kind.counted(before), statistic.mapped(lambda relation: relation.copy())
        target.merge(statistic)
        for cell, piece in after:
            kind.count(target, cell, piece)
            kind.count(twin, cell, piece)
        assert state(twin) == both
        if not twin.reduced:
            twin.subtract(kind.counted(after))
            assert state(twin) == content
        assert state(statistic) == content

    check()


@every_kind
def test_cells_are_chosen_renamed_and_handed_out_with_what_was_counted_there(kind: Kind) -> None:
    @dear()
    @given(_pieces(kind), _pieces(kind), st.sampled_from([0, 1, 5]))
    def check(pieces: list[Piece], known: list[Piece], cell: int) -> None:
        cells = np.array([cell])
        chosen = kind.counted(pieces).mapped(lambda relation: relation.selected(cells))
        assert state(chosen) == state(kind.counted(each for each in pieces if each[0] == cell))
        names = {5: 1, 1: 0, 7: 3}
        renamed = kind.counted(pieces)
        renamed.rename(names)
        for number, piece in known:
            kind.count(renamed, number, piece)
        expected = [(names.get(number, number), piece) for number, piece in pieces]
        assert state(renamed) == state(kind.counted([*expected, *known]))
        _check_handed_out(kind, pieces, known)

    check()


def _check_handed_out(kind: Kind, pieces: list[Piece], known: list[Piece]) -> None:
    """By the upper bits of their cells."""
    statistic = kind.counted(pieces)
    parts = {cell >> 2: statistic.empty() for cell, _ in (*pieces, *known)}
    for cell, piece in known:
        kind.count(parts[cell >> 2], cell & 3, piece)
    statistic.distribute(2, parts)
    for upper, part in parts.items():
        own = [(cell & 3, piece) for cell, piece in (*known, *pieces) if cell >> 2 == upper]
        assert state(part) == state(kind.counted(own))


@every_case("kind", [kind for kind in KINDS if not kind.name.startswith("values")])
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
def test_unlike_ones_are_refused_and_both_are_named(kind: Kind) -> None:
    here, there = kind.make(), kind.unlike()
    with pytest.raises(UnlikeStateError) as error:
        here.merge(there)
    assert repr(error.value.left) in str(error.value)
    assert repr(error.value.right) in str(error.value)
    assert state(here) == state(kind.make())
