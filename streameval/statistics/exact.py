"""A sum of floats that is exact, so that neither order nor partition shows in it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from streameval.statistics.arrays import FloatArray, IntArray

_BITS = 2320
"""Every finite float64 times 2^_BITS is an integer, and so is its square."""

_LIMB = 18
"""Mantissas are added up in parts of so many bits, so that 2^45 of them fit into an integer."""


def ratio(numerator: int, denominator: int) -> float:
    """The float nearest to a quotient of integers of any size; infinite beyond the largest float.

    Example:
        >>> ratio(1, 4), ratio(-(10**400), 3)
        (0.25, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class ExactSum:
    """The sum of any number of finite floats, held as one integer.

    Reference: exact summation by a long accumulator (Kulisch, "Computer Arithmetic and Validity",
    2013, chapter 8).

    Example:
        >>> total = ExactSum()
        >>> total.add(np.array([1e100, 1.0, -1e100]), np.array([1, 3, 1]))
        >>> total.value
        3.0
    """

    ONE = 1 << _BITS
    """What a sum of 1 is held as."""

    __slots__ = ("scaled",)

    def __init__(self, scaled: int = 0) -> None:
        self.scaled = scaled

    def add(self, values: FloatArray, counts: IntArray) -> None:
        """Add each value (finite, shape (n,)) as often as its count (shape (n,)) says."""
        self._add(*np.frexp(values), counts)

    def add_squares(self, values: FloatArray, counts: IntArray) -> None:
        """Add each value's exact square as often as its count says."""
        mantissas, exponents = np.frexp(values)
        for part in _squared(mantissas):
            parts, shifts = np.frexp(part)
            self._add(parts, 2 * exponents + shifts, counts)

    def _add(
        self, mantissas: FloatArray, exponents: npt.NDArray[np.int32], counts: IntArray
    ) -> None:
        whole = (mantissas * 2.0**53).astype(np.int64)
        below = (1 << _LIMB) - 1
        limbs = (whole & below, (whole >> _LIMB) & below, whole >> 2 * _LIMB)
        for exponent in np.unique(exponents).tolist():
            here = exponents == exponent
            sums = (int((limb[here] * counts[here]).sum()) for limb in limbs)
            total = sum(part << _LIMB * place for place, part in enumerate(sums))
            self.scaled += total << (exponent + _BITS - 53)

    def copy(self) -> ExactSum:
        """An independent sum of the same."""
        return ExactSum(self.scaled)

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self.scaled += other.scaled

    @property
    def value(self) -> float:
        """The float nearest to the exact sum; infinite beyond the largest float."""
        return ratio(self.scaled, self.ONE)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactSum) and self.scaled == other.scaled

    __hash__ = None  # type: ignore[assignment]  # changes as it adds


def _squared(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squares of values below 1 as rounded, and what rounding left (Dekker, 1971)."""
    high = np.round(values * 2.0**26) / 2.0**26
    low = values - high
    square = values * values
    return square, ((high * high - square) + 2.0 * high * low) + low * low
