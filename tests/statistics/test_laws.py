"""Every statistic is a commutative monoid, and a function of what it counted alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StateVersionError, UnlikeStateError
from tests.statistics.kinds import KINDS, Kind, adopt, dumped

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
saved_kind = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.unlike], ids=lambda kind: kind.name
)
some = settings(max_examples=15, print_blob=True)


def _pieces(kind: Kind) -> st.SearchStrategy[list[Any]]:
    return st.lists(kind.piece, max_size=8)


def _merged(kind: Kind, *parts: Any) -> Any:
    whole = kind.make()
    for part in parts:
        whole.merge(part)
    return whole


@every_kind
def test_merging_is_associative_commutative_and_the_same_as_counting(kind: Kind) -> None:
    @some
    @given(_pieces(kind), _pieces(kind), _pieces(kind))
    def check(a: list[Any], b: list[Any], c: list[Any]) -> None:
        first, second, third = map(kind.counted, (a, b, c))
        whole = kind.counted([*a, *b, *c])
        left = _merged(kind, _merged(kind, first, second), third)
        right = _merged(kind, first, _merged(kind, second, third))
        turned = _merged(kind, third, second, first)
        assert kind.bytes(left) == kind.bytes(right) == kind.bytes(turned) == kind.bytes(whole)
        assert left == right == turned == whole

    check()


@every_kind
def test_an_empty_one_changes_nothing_on_either_side(kind: Kind) -> None:
    @some
    @given(_pieces(kind))
    def check(pieces: list[Any]) -> None:
        content = kind.bytes(kind.counted(pieces))
        left, right = kind.counted(pieces), kind.make()
        left.merge(kind.make())
        right.merge(kind.counted(pieces))
        assert kind.bytes(left) == kind.bytes(right) == content

    check()


@every_kind
def test_any_order_gives_the_same_bytes(kind: Kind) -> None:
    @some
    @given(_pieces(kind), st.data())
    def check(pieces: list[Any], data: st.DataObject) -> None:
        shuffled = data.draw(st.permutations(pieces))
        assert kind.bytes(kind.counted(pieces)) == kind.bytes(kind.counted(shuffled))

    check()


@every_kind
def test_what_is_counted_is_left_as_it_was(kind: Kind) -> None:
    @some
    @given(_pieces(kind))
    def check(pieces: list[Any]) -> None:
        before = copy.deepcopy(pieces)
        other = kind.counted(pieces)
        content = kind.bytes(other)
        assert pieces == before
        target = kind.counted(pieces)
        target.merge(other)
        for piece in pieces:
            kind.count(target, piece)
        assert kind.bytes(other) == content

    check()


@every_kind
def test_different_content_is_not_equal(kind: Kind) -> None:
    @some
    @given(_pieces(kind))
    def check(pieces: list[Any]) -> None:
        one, more = kind.counted(pieces), kind.counted([*pieces, *pieces])
        assert (one == more) == (kind.bytes(one) == kind.bytes(more))
        assert one != "something else"

    check()


@every_kind
def test_what_changes_cannot_be_hashed(kind: Kind) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind.make())


@saved_kind
def test_a_state_returns_through_json_and_goes_on_counting(kind: Kind) -> None:
    @some
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Any], after: list[Any]) -> None:
        statistic = kind.counted(before)
        loaded = kind.counted(after)
        loaded.load_state_dict(json.loads(kind.bytes(statistic)))
        assert kind.bytes(loaded) == kind.bytes(statistic)
        for piece in after:
            kind.count(loaded, piece)
        assert kind.bytes(loaded) == kind.bytes(kind.counted([*before, *after]))

    check()


@saved_kind
def test_a_dump_is_adopted_and_goes_on_counting(kind: Kind) -> None:
    @some
    @given(_pieces(kind), _pieces(kind), st.data())
    def check(before: list[Any], after: list[Any], data: st.DataObject) -> None:
        statistic, adopted = kind.counted(before), kind.counted(after)
        saved = dumped(statistic)
        assert dumped(kind.counted(data.draw(st.permutations(before)))) == saved
        adopt(adopted, saved)
        assert dumped(adopted) == saved
        assert kind.bytes(adopted) == kind.bytes(statistic)
        for piece in after:
            kind.count(adopted, piece)
        assert kind.bytes(adopted) == kind.bytes(kind.counted([*before, *after]))

    check()


@saved_kind
def test_a_copy_is_the_same_and_independent(kind: Kind) -> None:
    @some
    @given(_pieces(kind), _pieces(kind))
    def check(before: list[Any], after: list[Any]) -> None:
        statistic = kind.counted(before)
        twin = statistic.copy()
        for piece in after:
            kind.count(twin, piece)
        assert kind.bytes(twin) == kind.bytes(kind.counted([*before, *after]))
        assert kind.bytes(statistic) == kind.bytes(kind.counted(before))

    check()


@saved_kind
def test_a_part_of_a_dump_is_refused_and_nothing_changes(kind: Kind) -> None:
    @some
    @given(_pieces(kind), st.data())
    def check(pieces: list[Any], data: st.DataObject) -> None:
        saved = dumped(kind.counted(pieces))
        here = kind.make()
        cut = data.draw(st.integers(0, len(saved) - 1))
        with pytest.raises((ValueError, msgspec.DecodeError)):
            adopt(here, saved[:cut])
        assert kind.bytes(here) == kind.bytes(kind.make())

    check()


@saved_kind
def test_unlike_ones_are_refused_and_both_are_named(kind: Kind) -> None:
    assert kind.unlike is not None
    here, there = kind.make(), kind.unlike()
    with pytest.raises(UnlikeStateError) as error:
        here.merge(there)
    assert repr(error.value.left) in str(error.value)
    assert repr(error.value.right) in str(error.value)
    with pytest.raises(UnlikeStateError):
        here.load_state_dict(there.state_dict())
    assert kind.bytes(here) == kind.bytes(kind.make())


@saved_kind
@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_an_unknown_version_is_refused(kind: Kind, version: object) -> None:
    with pytest.raises(StateVersionError) as error:
        kind.make().load_state_dict({**kind.make().state_dict(), "version": version})
    assert error.value.found == version
