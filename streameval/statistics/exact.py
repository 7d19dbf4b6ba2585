"""Exact sums of floats, independent of order and partitioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, group_sum

_BITS = 2320
"""Every finite float64 and its square are integers when multiplied by 2^_BITS."""

_LIMB = 18
"""Bits of a mantissa summed in one integer, which then has room for 2^45 mantissas."""


def ratio(numerator: int, denominator: int) -> float:
    """Quotient of integers of any size, correctly rounded; infinite beyond the largest float.

    Example:
        >>> ratio(1, 4), ratio(-(10**400), 3)
        (0.25, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


ONE = 1 << _BITS
"""The integer that represents a sum of 1."""


def limbs(values: FloatArray, counts: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Each value (finite, shape (n,)) times its count, as an exponent and three integers.

    Integers with equal exponents may be added in any order; `scaled_sum` gives the exact sum.

    Reference: exact summation by a long accumulator (Kulisch, "Computer Arithmetic and Validity",
    2013, chapter 8).

    Example:
        >>> exponents, parts = limbs(np.array([1e100, 1.0, -1e100]), np.array([1, 3, 1]))
        >>> ratio(scaled_sum(exponents, parts), ONE)
        3.0
    """
    return _limbs(*np.frexp(values), counts)


def squares(values: FloatArray, counts: IntArray) -> tuple[IntArray, list[IntArray]]:
    """`limbs` of the exact squares, with twice as many rows."""
    mantissas, exponents = np.frexp(values)
    # The rounded squares of the mantissas, and their rounding errors (Dekker, 1971).
    high = np.round(mantissas * 2.0**26) / 2.0**26
    low, square = mantissas - high, mantissas * mantissas
    errors = ((high * high - square) + 2.0 * high * low) + low * low
    (high, shifts), (low, small) = np.frexp(square), np.frexp(errors)
    return _limbs(
        np.concatenate((high, low)),
        2 * np.concatenate((exponents, exponents)) + np.concatenate((shifts, small)),
        np.concatenate((counts, counts)),
    )


def scaled_sum(exponents: IntArray, parts: list[IntArray]) -> int:
    """The exact sum of the output of `limbs`, as a multiple of 1 / ONE."""
    (distinct_exponents,), summed = group_sum([exponents], parts)
    total = 0
    for exponent, *limb in zip(
        distinct_exponents.tolist(), *(limb_column.tolist() for limb_column in summed), strict=True
    ):
        mantissa = sum(part << _LIMB * limb_number for limb_number, part in enumerate(limb))
        total += mantissa << (exponent + _BITS - 53)
    return total


def approximate(exponents: IntArray, parts: Sequence[IntArray]) -> FloatArray:
    """The approximate value of each row of `limbs`, as a float; shape (rows,).

    Example:
        >>> approximate(*limbs(np.array([0.75, 3.0]), np.array([2, 1]))).tolist()
        [1.5, 3.0]
    """
    totals = np.zeros(exponents.size)
    for limb_number, part in enumerate(parts):
        totals += np.ldexp(part.astype(np.float64), _LIMB * limb_number)
    return np.ldexp(totals, (exponents - 53).astype(np.int32))


def _limbs(
    mantissas: FloatArray,
    exponents: np.ndarray[tuple[Any, ...], np.dtype[np.int32]],
    counts: IntArray,
) -> tuple[IntArray, list[IntArray]]:
    integers = (mantissas * 2.0**53).astype(np.int64)
    below = (1 << _LIMB) - 1
    parts = (integers & below, (integers >> _LIMB) & below, integers >> 2 * _LIMB)
    return exponents.astype(np.int64), [part * counts for part in parts]
