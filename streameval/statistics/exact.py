"""A sum of floats that is exact, so that neither order nor partition shows in it."""

from __future__ import annotations

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray

SCALE = 1127
"""Every finite float64 times 2^SCALE is an integer (1074 for the smallest, 53 for its mantissa)."""

_LOW = 27


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

    __slots__ = ("scaled",)

    def __init__(self, scaled: int = 0) -> None:
        self.scaled = scaled

    def add(self, values: FloatArray, counts: IntArray) -> None:
        """Add each value (finite, shape (n,)) as often as its count (shape (n,)) says."""
        mantissas, exponents = np.frexp(values)
        whole = (mantissas * 2.0**53).astype(np.int64)
        high, low = whole >> _LOW, whole & ((1 << _LOW) - 1)
        for exponent in np.unique(exponents).tolist():
            here = exponents == exponent
            upper = int((high[here] * counts[here]).sum())
            lower = int((low[here] * counts[here]).sum())
            self.scaled += ((upper << _LOW) + lower) << (exponent + SCALE - 53)

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self.scaled += other.scaled

    @property
    def value(self) -> float:
        """The float nearest to the exact sum."""
        return self.scaled / (1 << SCALE)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactSum) and self.scaled == other.scaled

    __hash__ = None  # type: ignore[assignment]  # changes as it adds
