from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.pipeline.ranges import Ranges

OFFSETS = st.integers(0, 30)


def _of(offsets: set[int]) -> Ranges:
    found = Ranges()
    for offset in sorted(offsets):
        found.add(offset)
    return found


@given(st.lists(st.tuples(st.sampled_from([Ranges.add, Ranges.discard]), OFFSETS)))
def test_it_is_a_set_of_offsets(steps: list[tuple[Callable[[Ranges, int], bool], int]]) -> None:
    found, plain = Ranges(), set[int]()
    for step, offset in steps:
        there = offset in plain
        assert step(found, offset) is (there if step is Ranges.discard else not there)
        (plain.discard if step is Ranges.discard else plain.add)(offset)
        assert len(found) == len(plain)
    assert list(found) == sorted(plain)
    assert [offset for offset in range(-2, 33) if offset in found] == sorted(plain)


@given(st.lists(OFFSETS), st.sets(OFFSETS))
def test_equal_sets_have_one_form_whatever_led_to_them(
    offsets: list[int], passing: set[int]
) -> None:
    direct = _of(set(offsets))
    found = Ranges()
    for offset in [*offsets, *passing]:
        found.add(offset)
    for offset in passing - set(offsets):
        found.discard(offset)
    assert found == direct
    assert found.as_list() == direct.as_list()


@given(st.sets(OFFSETS))
def test_its_list_gives_it_back(offsets: set[int]) -> None:
    found = _of(offsets)
    again = Ranges.from_list(found.as_list())
    assert again == found
    assert len(again) == len(offsets)
    assert again.add(100)
    assert again != found


@given(st.sets(OFFSETS))
def test_its_ranges_neither_overlap_nor_touch(offsets: set[int]) -> None:
    edges = [edge for pair in _of(offsets).as_list() for edge in pair]
    assert edges == sorted(set(edges))


@given(st.sets(OFFSETS), st.integers(0, 8))
def test_forgetting_keeps_the_highest_ranges_and_says_how_many_offsets_went(
    offsets: set[int], most: int
) -> None:
    found = _of(offsets)
    before = found.as_list()
    gone = found.forget(most)
    assert found.as_list() == before[max(len(before) - most, 0) :]
    assert len(found) == len(offsets) - gone == len(list(found))


@pytest.mark.parametrize(
    "listed",
    [
        [[3, 3]],
        [[4, 2]],
        [[-1, 2]],
        [[0, 2], [2, 3]],
        [[5, 6], [0, 1]],
        [[0, 1, 2]],
        [[0]],
        [[0, 1.5]],
        [[False, True]],
        [[0, "1"]],
        [3],
    ],
)
def test_what_is_no_list_of_ranges_is_refused(listed: list[list[int]]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Ranges.from_list(listed)


def test_an_offset_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="offset -1 is below 0"):
        Ranges().add(-1)
