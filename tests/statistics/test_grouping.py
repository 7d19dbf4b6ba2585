"""Both ways to sum equal keys agree, even beyond the exact integers of floats."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.arrays import grouped
from tests.effort import every_case

counts = st.one_of(st.integers(0, 5), st.integers(2**52 - 3, 2**53 + 3), st.integers(0, 2**58))
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), counts, counts), max_size=12)
Row = tuple[int, int, int, int]


def _columns(table: list[Row]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array([row[place] for row in table], np.int64) for place in range(4)]


def _by_hand(table: list[Row]) -> list[list[int]]:
    first: Counter[tuple[int, int]] = Counter()
    second: Counter[tuple[int, int]] = Counter()
    for one, two, left, right in table:
        first[one, two] += left
        second[one, two] += right
    keys = sorted({(row[0], row[1]) for row in table})
    return [[*key, first[key], second[key]] for key in keys]


def _grouped(table: list[Row]) -> list[list[int]]:
    columns = _columns(table)
    keys, sums = grouped(columns[:2], columns[2:])
    return [list(row) for row in zip(*(column.tolist() for column in (*keys, *sums)), strict=True)]


@given(rows)
def test_sums_are_exact_whatever_their_size(table: list[Row]) -> None:
    assert _grouped(table) == _by_hand(table)


@every_case("count", [2**51, 2**52, 2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1])
def test_a_count_beyond_the_exact_floats_keeps_its_last_bit(count: int) -> None:
    table = [(0, 1, count, 1), (0, 1, 1, 1), (0, 2, count, 1)]
    assert _grouped(table) == [[0, 1, count + 1, 2], [0, 2, count, 1]]


def test_distant_keys_need_no_memory() -> None:
    assert _grouped([(2**20, 2**31, 1, 2), (0, 0, 3, 4)]) == [[0, 0, 3, 4], [2**20, 2**31, 1, 2]]


@every_case("low", [-(2**63), 0])
def test_keys_that_do_not_fit_into_one_integer_are_grouped_too(low: int) -> None:
    table = [(low, 2**62, 1, 2), (2**62, low, 3, 4), (low, 2**62, 5, 6), (low, low, 7, 8)]
    assert _grouped(table) == _by_hand(table)
    assert _grouped(table[:1]) == [[*table[0]]]


@every_case("far", [5, 2**62])
def test_ascending_rows_are_returned_unchanged(far: int) -> None:
    keys, counts = [np.array([0, 0, 2]), np.array([-far, far, 0])], [np.array([1, 1, 1])]
    found, _ = grouped(keys, counts)
    assert all(one is other for one, other in zip(found, keys, strict=True))
