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

from streameval.statistics.distributions import Distribution, Values, ValuesOptions
from streameval.statistics.vocabulary import Items
from tests.effort import every_case
from tests.statistics.kinds import state

BIN = 1 / 2048
SMALLEST = 2.0**-32
shares = st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0])
values = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=30)
units = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=40)


def _values(content: Sequence[float], cap: int = 65_536) -> Values:
    found = Values(ValuesOptions(cap=cap), Items())
    numbers = np.array(content, float)
    ones = np.ones(numbers.size, np.int64)
    found.add(0 * ones, numbers, ones)
    return found


def _of(content: Sequence[float], cap: int = 65_536) -> Distribution:
    (found,) = _values(content, cap).view(np.array([0]))
    return found


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


@every_case("offset", [1e8, 1e15])
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
        values.fold()
    (distribution,) = values.view(np.array([0]))
    assert distribution.estimated
    # From 0.5 to 1 there are 32 powers of two of the distance from 1, with 2,048 bins each.
    assert len(values.relations["values"].rows()) <= 32 * 2_048 + 2
    assert distribution.count == 300_000


@every_case("cap", [1, 65_536])
def test_nan_and_infinity_are_only_counted(cap: int) -> None:
    distribution = _of([math.nan, 1.0, math.nan, 3.0], cap)
    assert (distribution.undefined, distribution.count, distribution.total) == (2, 2, 4.0)
    assert distribution.quantile(0.5) in (1.0, pytest.approx(1.0, rel=BIN))


@every_case("method", ["lower", "linear"])
def test_infinite_values_lie_at_the_ends(method: Any) -> None:
    distribution = _of([math.inf, 1.0, -math.inf, 2.0, math.inf, math.inf])
    assert distribution.quantile(0.0, method) == -math.inf
    assert distribution.quantile(1.0, method) == math.inf
    assert distribution.quantile(0.9, method) == math.inf
    assert math.isnan(distribution.total)
    assert math.isnan(distribution.standard_error)
    assert _of([math.inf, 1.0]).total == math.inf
    assert _of([-math.inf, 1.0]).total == -math.inf
