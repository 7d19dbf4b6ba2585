"""Bins are ordered like their values, are narrow, and contain their middle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.binning import bin_keys, bin_middles, float_keys, floats_of_keys

finite = st.floats(allow_nan=False, allow_infinity=False)
content = st.lists(finite | st.floats(min_value=0, max_value=1), min_size=1, max_size=40)
SMALLEST, LARGEST = 2.0**-32, 2.0**32


@given(content)
def test_floats_and_their_integers_have_one_order(values: list[float]) -> None:
    floats = np.array(sorted(values)) + 0.0
    keys = float_keys(floats)
    assert np.array_equal(floats_of_keys(keys), floats)
    assert np.array_equal(keys[1:] > keys[:-1], floats[1:] > floats[:-1])


@given(content)
def test_bins_are_in_the_order_of_their_values_and_hold_their_middle(values: list[float]) -> None:
    keys = bin_keys(np.array(sorted(values)))
    assert (np.diff(keys) >= 0).all()
    assert np.array_equal(bin_keys(bin_middles(keys)), keys)


@given(st.lists(st.floats(min_value=-LARGEST, max_value=LARGEST), min_size=1, max_size=40))
def test_a_bin_is_narrow(values: list[float]) -> None:
    floats = np.array(values)
    off = np.abs(bin_middles(bin_keys(floats)) - floats)
    assert (off <= np.maximum(np.abs(floats) / 2048, SMALLEST)).all()


def test_values_near_1_have_the_resolution_of_those_near_0() -> None:
    crowded = np.array([2.0**-power for power in range(2, 32)])
    assert len(set(bin_keys(crowded).tolist())) == len(set(bin_keys(1.0 - crowded).tolist())) == 30


def test_the_number_of_bins_is_limited() -> None:
    edges = bin_keys(np.array([-1.7e308, 1.7e308]))
    assert np.array_equal(edges, bin_keys(np.array([-LARGEST, LARGEST])))
    assert edges[1] > edges[0]
