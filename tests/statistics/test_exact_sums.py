"""Sums of floats against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.exact import ONE, limbs, ratio, scaled, squares
from tests.statistics.kinds import Valued, valued

HARD = [
    *(5e-324, -5e-324, 2.2250738585072014e-308, 1e-310, 1.7976931348623157e308, -1.7e308),
    *(0.0, -0.0, 0.1, -0.1, 1.0, 1 + 2**-52, 1e16, 3.0),
]
columns = st.lists(valued | st.tuples(st.sampled_from(HARD), st.integers(1, 2**36)), max_size=20)


def _columns(pieces: list[Valued]) -> tuple[FloatArray, IntArray]:
    values = np.array([value for value, _ in pieces], float)
    return values, np.array([count for _, count in pieces], np.int64)


def _sum(pieces: list[Valued]) -> int:
    return scaled(*limbs(*_columns(pieces)))


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
    assert scaled(*squares(*_columns(pieces))) == exact * ONE


def test_a_quotient_beyond_the_largest_float_is_infinite() -> None:
    assert ratio(10**400, 3) == math.inf
    assert ratio(-(10**400), 3) == -math.inf
    assert ratio(10**400, 10**400) == 1
