"""Narrow bins of floats, in order: what is kept of values when there are too many of them."""

from __future__ import annotations

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray

_SHIFT = 41
"""A bin keeps sign, exponent and the top 11 bits of the mantissa: values within 1 part in 2048."""

_TINY, _HUGE = 2.0**-32, 2.0**32
"""Magnitudes below and above share a bin, so that there are at most some 400,000 bins."""


def ordered(values: FloatArray) -> IntArray:
    """Integers in the order of the floats (finite, shape (n,)); each stands for one float.

    Example:
        >>> ordered(np.array([-1.0, 0.0, 1.0])).tolist()
        [-4607182418800017408, 0, 4607182418800017408]
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def unordered(keys: IntArray) -> FloatArray:
    """The floats that `ordered` gave these integers for."""
    return np.where(keys < 0, np.iinfo(np.int64).min - keys, keys).view(np.float64)


def binned(values: FloatArray) -> IntArray:
    """Each value's bin; bins are in the order of their values.

    Between 0.5 and 1 the bins are those of 1 - value, so that scores crowded near 1 are told
    apart as well as those near 0.
    """
    upper = _coarse(1.0 - np.clip(values, 0.5, 1.0))
    near_one = 2 * _HALF + 1 - upper
    above = 2 * _HALF + 2 + _coarse(values) - _ONE
    return np.where(values < 0.5, _coarse(values), np.where(values <= 1.0, near_one, above))


def middles(keys: IntArray) -> FloatArray:
    """A value inside each bin."""
    # The first of them holds 0.5 alone.
    near_one = np.maximum(1.0 - _middle(2 * _HALF + 1 - keys), 0.5)
    above = _middle(keys - 2 * _HALF - 2 + _ONE)
    return np.where(keys <= _HALF, _middle(keys), np.where(keys <= 2 * _HALF + 1, near_one, above))


def _coarse(values: FloatArray) -> IntArray:
    size = np.clip(np.abs(values), _TINY, _HUGE)
    clamped = np.where(np.abs(values) < _TINY, 0.0, np.copysign(size, values))
    keys = ordered(clamped)
    return np.where(keys < 0, -(-keys >> _SHIFT), keys >> _SHIFT)


def _middle(keys: IntArray) -> FloatArray:
    whole = (np.abs(keys) << _SHIFT) | (1 << (_SHIFT - 1))
    return np.where(keys == 0, 0.0, np.copysign(whole.view(np.float64), keys))


_HALF = int(_coarse(np.array([0.5]))[0])
_ONE = int(_coarse(np.array([1.0]))[0])
