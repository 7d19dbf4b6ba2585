"""Distributions against sorted lists, on both sides of the cap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.distributions import (
    BITS,
    Distribution,
    Values,
    ValuesOptions,
    bins_of,
    float_keys,
    floats_of_keys,
)
from streameval.statistics.exact import ONE, limbs, ratio, scaled_sum, squares
from streameval.statistics.vocabulary import Items
from tests.statistics.kinds import Valued, state, valued

BIN = 1 / 2048
SMALLEST, LARGEST = 2.0**-32, 2.0**32
shares = st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0])
values = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=30)
units = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=40)

BINS = bins_of(BITS)


def _values(content: Sequence[float], cap: int = 65_536) -> Values:
    values_ = Values(ValuesOptions(cap=cap), Items())
    numbers = np.array(content, float)
    ones = np.ones(numbers.size, np.int64)
    values_.add(0 * ones, numbers, ones)
    return values_


def _of(content: Sequence[float], cap: int = 65_536) -> Distribution:
    (only,) = _values(content, cap).view(np.array([0]))
    return only


@given(units, shares)
def test_above_the_cap_a_quantile_is_within_the_width_of_a_bin(
    content: list[float], q: float
) -> None:
    distribution = _of(content, cap=1)
    exact = sorted(content)[max(0, math.ceil(q * len(content)) - 1)]
    assert distribution.estimated == (len(set(content)) > 1)
    assert abs(distribution.quantile(q) - exact) <= BIN * exact + SMALLEST


@given(values, st.sampled_from([1, 5, 65_536]))
def test_sums_stay_exact_on_both_sides_of_the_cap(content: list[float], cap: int) -> None:
    distribution = _of(content, cap)
    assert distribution.count == len(content)
    assert distribution.total == float(sum(map(Fraction, content)))


@pytest.mark.parametrize("offset", [1e8, 1e15])
def test_a_small_spread_of_large_values_is_not_lost(offset: float) -> None:
    content = [offset + step for step in (0.0, 1.0, 2.0, 3.0)]
    assert _of(content).standard_error == pytest.approx(math.sqrt(5 / 12))


def test_a_spread_beyond_the_largest_float_is_infinite_not_an_error() -> None:
    distribution = _of([2.0**1000, 0.0])
    assert distribution.standard_error == pytest.approx(2.0**999)
    assert _of([1.7e308, -1.7e308]).standard_error > 1e307
    assert _of([1.7e308, 1.7e308]).total == math.inf


def test_without_values_nothing_is_defined() -> None:
    empty = _of([])
    assert math.isnan(empty.quantile(0.5))
    assert math.isnan(empty.standard_error)
    assert math.isnan(_of([1.0]).standard_error)
    assert (empty.count, empty.total) == (0, 0.0)


def test_negative_zero_is_zero() -> None:
    assert state(_values([-0.0])) == state(_values([0.0]))


def test_a_stream_that_never_repeats_a_value_is_bounded() -> None:
    draw = np.random.default_rng(4)
    values = _values([], cap=1_000)
    ones = np.ones(10_000, np.int64)
    for _ in range(30):
        values.add(0 * ones, 0.5 + 0.5 * draw.random(10_000), ones)
        values.reduce()
    (distribution,) = values.view(np.array([0]))
    assert distribution.estimated
    # From 0.5 to 1 there are 32 powers of two of the distance from 1, with 2,048 bins each.
    assert len(values.relations["values"].rows()) <= 32 * 2_048 + 2
    assert distribution.count == 300_000


def _put(values_: Values, cell: int, content: Sequence[float]) -> None:
    cells = np.full(len(content), cell)
    values_.add(cells, np.array(content, float), np.ones_like(cells))


def _counted(*cells: tuple[int, Sequence[float]]) -> Values:
    values_ = Values(ValuesOptions(cap=20), Items())
    for cell, content in cells:
        _put(values_, cell, content)
    return values_


def test_a_cell_that_gets_the_number_of_a_binned_one_is_binned_too() -> None:
    few, many = [number / 7 for number in range(5)], [number / 9 for number in range(30)]
    total = state(_counted((0, [*few, *many])))
    for cells in ((0, 1), (1, 0)):
        renamed = _counted((cells[0], few), (cells[1], many))
        renamed.reduce()
        renamed.rename({1: 0})
        assert state(renamed) == total


def test_a_cell_is_binned_at_the_cap_after_others_lost_rows() -> None:
    first, more = (0, range(19)), (0, range(30, 40))
    tiny = [number * 1e-12 for number in range(1, 26)]  # all in one bin
    few, many = (1, tiny[:15]), (1, tiny)
    merged, subtracted = _counted(first, few), _counted(first, few)
    merged.merge(_counted(many))
    subtracted.reduce()
    subtracted.subtract(_counted(few))
    _put(merged, *more)
    _put(subtracted, *more)
    assert state(merged) == state(_counted(first, more, few, many))
    assert state(subtracted) == state(_counted(first, more))


def test_as_many_values_as_the_cap_are_exact_beside_a_cell_with_more() -> None:
    values_ = Values(ValuesOptions(cap=2), Items())
    numbers = np.array([0.1, 0.2, 0.3, 0.1, 0.2])
    values_.add(np.array([0, 0, 0, 1, 1]), numbers, np.ones(5, np.int64))
    assert [one.estimated for one in values_.view(np.array([0, 1]))] == [True, False]


@pytest.mark.parametrize("cap", [1, 65_536])
def test_nan_and_infinity_are_only_counted(cap: int) -> None:
    distribution = _of([math.nan, 1.0, math.nan, 3.0], cap)
    assert (distribution.undefined, distribution.count, distribution.total) == (2, 2, 4.0)
    assert distribution.quantile(0.5) in (1.0, pytest.approx(1.0, rel=BIN))


@pytest.mark.parametrize("method", ["lower", "linear"])
def test_infinite_values_lie_at_the_ends(method: Any) -> None:
    distribution = _of([math.inf, 1.0, -math.inf, 2.0, math.inf, math.inf])
    assert distribution.quantile(0.0, method) == -math.inf
    assert distribution.quantile(1.0, method) == math.inf
    assert distribution.quantile(0.9, method) == math.inf
    assert math.isnan(distribution.total)
    assert math.isnan(distribution.standard_error)
    assert _of([math.inf, 1.0]).total == math.inf
    assert _of([-math.inf, 1.0]).total == -math.inf


finite = st.floats(allow_nan=False, allow_infinity=False)
content = st.lists(finite | st.floats(min_value=0, max_value=1), min_size=1, max_size=40)


@given(content)
def test_floats_and_their_integers_have_one_order(values: list[float]) -> None:
    floats = np.array(sorted(values)) + 0.0
    keys = float_keys(floats)
    assert np.array_equal(floats_of_keys(keys), floats)
    assert np.array_equal(keys[1:] > keys[:-1], floats[1:] > floats[:-1])


@given(content)
def test_bins_are_in_the_order_of_their_values_and_hold_their_middle(values: list[float]) -> None:
    keys = BINS.keys(np.array(sorted(values)))
    assert (np.diff(keys) >= 0).all()
    assert np.array_equal(BINS.keys(BINS.middles(keys)), keys)


@given(st.lists(st.floats(min_value=-LARGEST, max_value=LARGEST), min_size=1, max_size=40))
def test_a_bin_is_narrow(values: list[float]) -> None:
    floats = np.array(values)
    off = np.abs(BINS.middles(BINS.keys(floats)) - floats)
    assert (off <= np.maximum(np.abs(floats) / 2048, SMALLEST)).all()


def test_values_near_1_have_the_resolution_of_those_near_0() -> None:
    crowded = np.array([2.0**-power for power in range(2, 32)])
    assert (
        len(set(BINS.keys(crowded).tolist())) == len(set(BINS.keys(1.0 - crowded).tolist())) == 30
    )


def test_the_number_of_bins_is_limited() -> None:
    edges = BINS.keys(np.array([-1.7e308, 1.7e308]))
    assert np.array_equal(edges, BINS.keys(np.array([-LARGEST, LARGEST])))
    assert edges[1] > edges[0]


HARD = [
    *(5e-324, -5e-324, 2.2250738585072014e-308, 1e-310, 1.7976931348623157e308, -1.7e308),
    *(0.0, -0.0, 0.1, -0.1, 1.0, 1 + 2**-52, 1e16, 3.0),
]
columns = st.lists(valued | st.tuples(st.sampled_from(HARD), st.integers(1, 2**36)), max_size=20)


def _columns(pieces: list[Valued]) -> tuple[FloatArray, IntArray]:
    values = np.array([value for value, _ in pieces], float)
    return values, np.array([count for _, count in pieces], np.int64)


def _sum(pieces: list[Valued]) -> int:
    return scaled_sum(*limbs(*_columns(pieces)))


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@given(columns)
def test_a_sum_is_the_float_nearest_to_the_exact_one(pieces: list[Valued]) -> None:
    exact = sum((Fraction(value) * count for value, count in pieces), Fraction(0))
    assert _sum(pieces) == exact * ONE
    assert ratio(_sum(pieces), ONE) == _nearest(exact)


@given(columns)
def test_squares_are_exact_whatever_their_size(pieces: list[Valued]) -> None:
    exact = sum((Fraction(value) ** 2 * count for value, count in pieces), Fraction(0))
    assert scaled_sum(*squares(*_columns(pieces))) == exact * ONE


def test_a_quotient_beyond_the_largest_float_is_infinite() -> None:
    assert ratio(10**400, 3) == math.inf
    assert ratio(-(10**400), 3) == -math.inf
    assert ratio(10**400, 10**400) == 1
