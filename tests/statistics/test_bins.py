"""Bins are in the order of their values, narrow, and each holds its middle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.binning import binned, middles, ordered, unordered

finite = st.floats(allow_nan=False, allow_infinity=False)
content = st.lists(finite | st.floats(min_value=0, max_value=1), min_size=1, max_size=40)
SMALLEST, LARGEST = 2.0**-32, 2.0**32


@given(content)
def test_floats_and_their_integers_have_one_order(values: list[float]) -> None:
    floats = np.array(sorted(values)) + 0.0
    keys = ordered(floats)
    assert np.array_equal(unordered(keys), floats)
    assert np.array_equal(keys[1:] > keys[:-1], floats[1:] > floats[:-1])


@given(content)
def test_bins_are_in_the_order_of_their_values_and_hold_their_middle(values: list[float]) -> None:
    keys = binned(np.array(sorted(values)))
    assert (np.diff(keys) >= 0).all()
    assert np.array_equal(binned(middles(keys)), keys)


@given(st.lists(st.floats(min_value=-LARGEST, max_value=LARGEST), min_size=1, max_size=40))
def test_a_bin_is_narrow(values: list[float]) -> None:
    floats = np.array(values)
    off = np.abs(middles(binned(floats)) - floats)
    assert (off <= np.maximum(np.abs(floats) / 2048, SMALLEST)).all()


def test_values_crowded_near_1_are_told_apart_like_those_near_0() -> None:
    crowded = np.array([2.0**-power for power in range(2, 32)])
    assert len(set(binned(crowded).tolist())) == len(set(binned(1.0 - crowded).tolist())) == 30


def test_there_are_so_many_bins_and_no_more() -> None:
    edges = binned(np.array([-1.7e308, 1.7e308]))
    assert np.array_equal(edges, binned(np.array([-LARGEST, LARGEST])))
    assert edges[1] > edges[0]
