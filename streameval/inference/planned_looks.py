"""Bounds of a difference that is looked at a planned number of times.

Each side of a test spends half of its error rate, little of it at the first looks: by each look, as
much as the boundary of O'Brien and Fleming (1979) would have spent (Lan, DeMets, 1983).
The bound of a look follows by recursive integration over the paths that have not crossed before
(Armitage, McPherson, Rowe, 1969; Jennison, Turnbull, Group sequential methods, 2000, chapter 19).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from streameval.inference.interval_formulas import log_normal_tail, normal_quantile
from streameval.statistics.arrays import FloatArray

MOST_LOOKS: Final = 60
"""Most planned looks: the integration is exact for as many."""

_LEAST_LEVEL: Final = 1e-15
"""The smallest p-value of a look."""

_LEAST_CHANCE: Final = 1e-290
"""The chance to cross at a look below which its bound, which nobody reaches, is a higher one."""

_LEAST_STEP: Final = 4e-3
"""Least share of the information that a look adds: of less, the integration knows too little."""

_FEWEST_NODES: Final = 128
_MOST_NODES: Final = 512
_FARTHEST: Final = 9.5
"""Standard deviations beyond which no path is followed."""


class PlannedLook(NamedTuple):
    """One of several planned looks.

    Attributes:
        looks: planned in all, at equal distances.
        look: number of this one, from 1.
        information: of each look up to this one, in any unit, ascending; empty: it grows as the
            number of looks.
    """

    looks: int
    look: int
    information: tuple[float, ...] = ()

    def reach(self, level: float) -> float:
        """The bound of this look in standard errors, for tests of an error rate.

        Example:
            >>> [round(PlannedLook(2, look).reach(0.05), 8) for look in (1, 2)]
            [2.96258804, 1.96859564]
        """
        return _bounds(self.looks, self._times, level)[-1]

    def p_value(self, z: float) -> float:
        """The smallest error rate whose bound of this look is at most |z|; at least 1e-15.

        Example:
            >>> round(PlannedLook(5, 4).p_value(2.5), 6)
            0.030865
        """
        return _p_value(self.looks, self._times, abs(z))

    @property
    def last(self) -> PlannedLook:
        """The last of the looks, whose information grows as their number."""
        return PlannedLook(self.looks, self.looks)

    @property
    def _times(self) -> tuple[float, ...]:
        """The information of each look as a share of that of this one, ascending."""
        times = self.information or tuple(map(float, range(1, self.look + 1)))
        shares, before = list[float](), 0.0
        for time in times:
            before = max(time / times[-1], before + _LEAST_STEP)
            shares.append(before)
        return tuple(shares)


@lru_cache(maxsize=4096)
def _p_value(looks: int, times: tuple[float, ...], z: float) -> float:
    """Illinois' method on the logarithm of the level: its bound falls with it."""
    low, high = math.log(_LEAST_LEVEL), 0.0
    at_low, at_high = (_bounds(looks, times, level)[-1] - z for level in (_LEAST_LEVEL, 1.0))
    if at_low <= 0:
        return _LEAST_LEVEL
    if at_high >= 0:
        return 1.0
    side = 0
    while high - low > 1e-14:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        excess = _bounds(looks, times, math.exp(middle))[-1] - z
        if abs(excess) < 1e-14:
            return math.exp(middle)
        if excess > 0:
            at_high /= 2.0 if side > 0 else 1.0
            low, at_low, side = middle, excess, 1
        else:
            at_low /= 2.0 if side < 0 else 1.0
            high, at_high, side = middle, excess, -1
    return math.exp(high)


@lru_cache(maxsize=4096)
def _bounds(looks: int, times: tuple[float, ...], level: float) -> list[float]:
    """The bound of each look so far, in standard errors.

    `times`: share of the information of the last one.
    """
    bounds: list[float] = []
    nodes, density = np.zeros(1), np.ones(1)
    time = 0.0
    spent = 0.0
    for look, now in enumerate(times, 1):
        step = math.sqrt(now - time)
        following = math.sqrt(times[look] - now) if look < len(times) else step
        total_spent = _spent(look / looks, level)
        paths = _Paths(nodes, density, step, math.sqrt(now))
        bound = paths.bound(total_spent - spent, _highest(look / looks, level))
        bounds.append(bound)
        # The paths that have not crossed: their density at the nodes of an integral, which are no
        # farther apart than the next look moves a path.
        ends = min(bound, _FARTHEST) * math.sqrt(now)
        abscissas, weights = _nodes(ends / following)
        after = ends * abscissas
        kernel = np.exp(-np.square((after[:, None] - nodes) / step) / 2.0)
        grown = kernel @ density / (step * math.sqrt(2.0 * math.pi))
        nodes, density, time, spent = after, grown * ends * weights, now, total_spent
    return bounds


class _Paths(NamedTuple):
    """The paths that have not crossed a bound before a look.

    Attributes:
        nodes: of an integral over their values.
        density: at the nodes, with the weights of the integral.
        step: standard deviation of what the look adds.
        scale: standard deviation at the look.
    """

    nodes: FloatArray
    density: FloatArray
    step: float
    scale: float

    def bound(self, chance: float, highest: float) -> float:
        """The bound that paths cross with a chance; `highest`: one that is not too low.

        Newton's method on the logarithm of the chance, within ends that close around the bound.
        """
        bound, low, high = highest, 0.0, 2.0 * highest
        for _ in range(100 if chance > _LEAST_CHANCE else 0):
            reach = (bound * self.scale - self.nodes) / self.step
            crossed = 2.0 * float(self.density @ _upper_tails(reach))
            slope = float(self.density @ np.exp(-np.square(reach) / 2.0)) * 2.0 * self.scale
            slope /= self.step * math.sqrt(2.0 * math.pi)
            low, high = (bound, high) if crossed > chance else (low, bound)
            before, bound = bound, (low + high) / 2.0
            if crossed > 0 and slope > 0:
                newton = before + crossed / slope * math.log(crossed / chance)
                bound = newton if low <= newton <= high else bound
            if abs(bound - before) <= 1e-14 * bound:
                break
        return bound


@lru_cache(maxsize=64)
def _legendre(nodes: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(nodes)


def _nodes(reach: float) -> tuple[FloatArray, FloatArray]:
    """Abscissas from -1 to 1 and weights of an integral; `reach`: its half length in steps."""
    needed = 2 ** math.ceil(math.log2(max(2.6 * reach, 1.0)))
    return _legendre(min(max(needed, _FEWEST_NODES), _MOST_NODES))


def _spent(share: float, level: float) -> float:
    """The part of the error rate that both sides have spent after a share of the looks."""
    return 4.0 * math.exp(log_normal_tail(_highest(share, level)))


def _highest(share: float, level: float) -> float:
    """A bound that no path needs: the one without any earlier look."""
    return normal_quantile(level / 4.0) / math.sqrt(share)


def _upper_tails(z: FloatArray) -> FloatArray:
    """P(Z > z) of the normal distribution."""
    return np.array([math.erfc(value) for value in (z / math.sqrt(2.0)).tolist()]) / 2.0
