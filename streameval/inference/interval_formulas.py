"""Intervals of a value: a jackknife over user groups, and bounds that hold at every look.

Lists of one user resemble each other, so lists are not an independent sample. All lists of a user
are in one of G groups; leaving out one group at a time shows how much the value varies. The input
is the group sums of a table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import GroupSums, Interval, IntervalKind, Intervals

FEWEST_GROUPS: Final = 12
"""Fewest effective groups for an interval."""

MOST_ANONYMOUS: Final = 0.02
"""Largest share of lists without a user id for an interval or a verdict."""

LARGEST_EVIDENCE: Final = 1e300

_WEIGHTS: Final = (0.8, 0.2)
_WIDER: Final = (1.0, 10.0)
"""Weights and widths of the mixture: an anytime interval is tightest near its precision, and
nearly so up to ten times that."""

_FARTHEST: Final = 1e100
_LARGEST_LOG: Final = 200.0
_WIDEST: Final = 1e300
"""Limits in standard errors, of the logarithm of a t, and of half widths: bounds stay finite."""

TOO_FEW_USERS: Final = (
    f"Too few users: the equivalent of fewer than {FEWEST_GROUPS} equally active ones."
)
TOO_FEW_CLICKS: Final = (
    f"Too few clicks: the equivalent of fewer than {FEWEST_GROUPS} equally active users."
)
FEW_LISTS: Final = (
    "A few lists make up the value: the equivalent of fewer than "
    f"{FEWEST_GROUPS} equally active users."
)
"""Reasons not to judge a value: by its lists, by the clicks on them, and by their weights."""

NOISE: Final = 1e-12
"""A relative standard error below this is rounding: the value does not vary between groups."""


class Estimate(NamedTuple):
    """A mean and its jackknife.

    Attributes:
        influences: for each group, minus the change of the mean if the group is left out.
        groups: effective number of groups minus 1: the degrees of freedom.
        size: mean of the sums of groups without their signs; the value itself without losses.
    """

    value: float
    influences: FloatArray
    groups: float
    size: float

    @property
    def relative_variance(self) -> float:
        """The variance of the value by its squared size; infinite for a size of 0."""
        if not self.size:
            return math.inf
        return (standard_error(self.influences) / self.size) ** 2

    def effective_groups(self, predicted: float = math.inf) -> float:
        """Effective groups minus 1 if a group counts by its share of the values.

        `predicted`: relative variance that other lists predict of these: a value that is low has
        few clicks for that reason, and enough users; one with few lists does not.
        """
        concentration = 1.0 / (self.groups + 1.0) if self.groups > -1.0 else math.inf
        return float(effective_groups(concentration, self.relative_variance, predicted))

    @property
    def is_measured(self) -> bool:
        """True if there are enough users with a value, on either side of 0."""
        return self.effective_groups() >= FEWEST_GROUPS

    @property
    def is_usable(self) -> bool:
        """True if there are enough users with a value, which is above 0: it may divide."""
        return self.value > 0 and self.is_measured


def effective_groups(
    concentration: float | FloatArray, observed: float | FloatArray, predicted: float | FloatArray
) -> FloatArray:
    """The effective number of user groups, minus 1: the guard against too few users by value.

    A few clicks are not a sample, however many users saw the lists: their mean is skewed, and its
    error is that of the few who clicked. So a group counts by its share of the values, too.

    Args:
        concentration: sum of the squared shares of the groups in the lists.
        observed: relative variance of the mean.
        predicted: relative variance that other lists predict; infinite without any.

    Example:
        >>> float(effective_groups(0.01, 0.01, np.inf)), float(effective_groups(0.01, np.inf, 0.04))
        (49.0, 19.0)
    """
    spread = concentration + np.minimum(observed, predicted)
    return np.asarray(1.0 / np.maximum(spread, sys.float_info.min) - 1.0)


def interval(
    sums: GroupSums,
    intervals: Intervals,
    kind: IntervalKind = "anytime",
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval | None:
    """The interval of a mean; None for too few users or clicks, or if all users are alike.

    `kind`: "pointwise" is Wilson's interval for a metric from 0 to 1, which stays within 0 to 1.

    Example:
        >>> lists = np.full((1, 256), 100)
        >>> clicks = np.tile([8.0, 12.0], (1, 128))
        >>> found = interval(GroupSums(np.array([0]), clicks, lists), Intervals(), "fixed")
        >>> f"{found.low:.4f} to {found.high:.4f} by {found.groups:.0f} groups"
        '0.0975 to 0.1025 by 255 groups'
    """
    estimate = pool_days(sums)
    if not estimate.is_measured:
        return None
    alpha = 1.0 - intervals.confidence
    error = standard_error(estimate.influences)
    flat = error <= NOISE * estimate.size
    if kind == "pointwise" and bounds == (0.0, 1.0):
        low, high = _wilson(estimate, error, alpha)
    elif flat:
        return None
    else:
        scale = intervals.precision * estimate.size
        half = half_width(error, estimate.groups, alpha, kind, scale)
        low, high = estimate.value - half, estimate.value + half
    return Interval(
        low=low, high=high, confidence=intervals.confidence, kind=kind, groups=estimate.groups
    )


def pool_days(sums: GroupSums) -> Estimate:
    """The mean over all days; 0 with 0 groups if there are no lists.

    Example:
        >>> pool_days(GroupSums(np.array([0]), np.array([[1.0, 3.0]]), np.array([[10, 10]])))
        Estimate(value=0.2, influences=array([-0.1,  0.1]), groups=1.0, size=0.2)
    """
    values, lists = sums.numerators.sum(axis=0), sums.denominators.sum(axis=0).astype(np.float64)
    total = float(lists.sum())
    if not total:
        return Estimate(0.0, np.zeros(lists.size), 0.0, 0.0)
    value = float(values.sum()) / total
    # The only group cannot be left out; its residual is 0.
    rest = total - lists
    influences = (values - value * lists) / np.where(rest > 0, rest, 1.0)
    groups = 1.0 / float(np.square(lists / total).sum()) - 1.0
    return Estimate(value, influences, groups, float(np.abs(values).sum()) / total)


def standard_error(influences: FloatArray) -> float:
    """The standard error of the delete-one jackknife.

    Example:
        >>> standard_error(np.array([-0.1, 0.1]))
        0.1
    """
    # Not a sum of squares, which overflows for gains that are allowed.
    return math.sqrt((len(influences) - 1) / len(influences)) * math.hypot(*influences.tolist())


def half_width(
    error: float,
    groups: float,
    alpha: float,
    kind: IntervalKind,
    scale: float,
    *,
    level: float | None = None,
) -> float:
    """Half the width of an interval.

    Args:
        error: standard error.
        groups: degrees of freedom.
        alpha: error rate, the share of experiments whose interval misses the truth.
        kind: method of the interval.
        scale: half width at which an anytime interval is tightest.
        level: error rate of the interval, if it is not `alpha`, which the mixture is tuned to.
    """
    rate = alpha if level is None else level
    anytime = kind == "anytime"
    reach = boundary(alpha, in_units(error, scale), rate) if anytime else normal_quantile(rate / 2)
    return min(student_reach(reach, groups) * error, _WIDEST)


def half_width_limits(
    errors: FloatArray,
    groups: FloatArray,
    alpha: float,
    kind: IntervalKind,
    scale: float,
    level: float,
) -> tuple[FloatArray, FloatArray]:
    """A lower and an upper limit of `half_width` for many standard errors above 0, at once.

    Example:
        >>> low, high = half_width_limits(
        ...     np.array([0.1]), np.array([99.0]), 0.05, "anytime", 0.2, 0.05
        ... )
        >>> bool(low[0] < half_width(0.1, 99.0, 0.05, "anytime", 0.2) < high[0])
        True
    """
    if kind == "anytime":
        # E(z) is at most exp(z^2 / 2), and at least each of its components.
        least = math.sqrt(-2.0 * math.log(level))
        relative = errors / np.maximum(scale, np.maximum(errors / _FARTHEST, sys.float_info.min))
        best, squares = _strength(alpha), list[FloatArray]()
        for weight, wider in zip(_WEIGHTS, _WIDER, strict=True):
            m = best / (1.0 + best) * (wider / relative) ** 2
            head = math.log(weight) - np.log1p(m) / 2
            squares.append((-math.log(level) - head) * 2.0 * (1.0 + m) / m)
        most = np.sqrt(np.minimum(*squares))
    else:
        least = normal_quantile(level / 2)
        most = np.full(errors.size, least)
    # Student's reach is the wider, the larger z and the fewer groups.
    farthest = float(most.max())
    wider_by = student_reach(farthest, float(groups.min())) / farthest
    return least * errors, np.minimum(most * wider_by * errors, _WIDEST)


def in_units(error: float, scale: float) -> float:
    """A standard error above 0 in units of `scale`; limited, so that its square is finite."""
    return error / max(scale, error / _FARTHEST, sys.float_info.min)


def _wilson(estimate: Estimate, error: float, alpha: float) -> tuple[float, float]:
    """Wilson's interval of a mean of values from 0 to 1, with the effective number of lists.

    If all lists have the same value, their correlation is unknown, so a group counts as one list.
    """
    value, apart = estimate.value, estimate.groups + 1.0
    spread = value * (1.0 - value)
    size = spread / error**2 if error > NOISE * value and spread > 0 else apart
    reach = student_reach(normal_quantile(alpha / 2), estimate.groups)
    ratio = reach**2 / size
    middle = (value + ratio / 2) / (1 + ratio)
    half = reach / (1 + ratio) * math.sqrt(max(spread, 0.0) / size + ratio / (4 * size))
    # Rounding must not exclude the value itself.
    return max(min(middle - half, value), 0.0), min(max(middle + half, value), 1.0)


@lru_cache(maxsize=256)
def _strength(alpha: float) -> float:
    """The solution of m* = ln(1 + m*) - 2 ln(alpha): the tightest mixture for a standard error."""
    strength = -2.0 * math.log(alpha)
    for _ in range(60):
        strength = math.log1p(strength) - 2.0 * math.log(alpha)
    return strength


def _mixture(alpha: float, relative: float) -> list[tuple[float, float]]:
    """Logarithm of the weight (with its factor) and rate of each component of E(z).

    Args:
        alpha: error rate that the mixture is tuned to.
        relative: standard error divided by the half width at which the mixture is tightest.
    """
    best = _strength(alpha)
    parts = []
    for weight, wider in zip(_WEIGHTS, _WIDER, strict=True):
        m = best / (1.0 + best) * (wider / relative) ** 2
        parts.append((math.log(weight) - math.log1p(m) / 2, m / (2.0 * (1.0 + m))))
    return parts


def log_evidence(z: float, alpha: float, relative: float) -> float:
    """Ln E(z): without an effect, E ever reaches 1/alpha in at most a share alpha of all runs.

    Example:
        >>> [round(log_evidence(z, 0.05, 0.3), 2) for z in (0.0, 3.0, 6.0)]
        [-1.39, 2.71, 15.06]
    """
    terms = [head + rate * z * z for head, rate in _mixture(alpha, relative)]
    most = max(terms)
    return most + math.log(sum(math.exp(term - most) for term in terms))


def boundary(alpha: float, relative: float, level: float | None = None) -> float:
    """The z at which E(z) = 1/level; E is tuned to alpha, which is the default of `level`.

    ln E is convex in z^2, so Newton's method from above never passes the root.

    Example:
        >>> boundary(0.05, 1 / 3.035)  # doctest: +ELLIPSIS
        3.100...
    """
    parts = _mixture(alpha, relative)
    target = -math.log(alpha if level is None else level)
    square = min((target - head) / rate for head, rate in parts)
    for _ in range(50):
        terms = [head + rate * square for head, rate in parts]
        most = max(terms)
        powers = [math.exp(term - most) for term in terms]
        total = sum(powers)
        slope = sum(rate * power for (_, rate), power in zip(parts, powers, strict=True)) / total
        step = (most + math.log(total) - target) / slope
        square -= step
        if step <= 1e-14 * square:
            break
    return math.sqrt(square)


def log_normal_tail(z: float) -> float:
    """Ln P(Z > z) for z >= 0.

    Example:
        >>> round(math.exp(log_normal_tail(1.959963984540054)), 12)
        0.025
    """
    if z < 4.0:
        return math.log(math.erfc(z / math.sqrt(2.0)) / 2.0)
    # Laplace's continued fraction of Mills' ratio.
    below = z
    for term in range(60, 0, -1):
        below = z + term / below
    return -z * z / 2.0 - math.log(below) - math.log(2.0 * math.pi) / 2.0


def log_student_tail(t: float, groups: float) -> float:
    """Ln P(T > t) for t >= 0 and any degrees of freedom above 0.

    Example:
        >>> round(math.exp(log_student_tail(2.2281388519862747, 10.0)), 12)
        0.025
    """
    half = groups / 2.0
    square = t * t
    if square * (groups + 2.0) < 3.0 * groups:
        x = square / (groups + square)
        return math.log(0.5 - math.exp(_log_beta(x, 0.5, half)) / 2.0) if x else -math.log(2.0)
    return _log_beta(groups / (groups + square), half, 0.5) - math.log(2.0)


def normal_quantile(tail: float) -> float:
    """The z with P(Z > z) = `tail`, which is below one half.

    Example:
        >>> round(normal_quantile(0.025), 12)
        1.95996398454
    """
    return _normal_at(math.log(tail))


def student_reach(z: float, groups: float) -> float:
    """The t of Student's distribution with the same tail probability as z of the normal.

    It is limited to 1e100: few users and a high precision ask for more than a float can hold.

    Example:
        >>> round(student_reach(normal_quantile(0.025), 10.0), 12)
        2.228138851986
    """
    log_tail = log_normal_tail(z)
    if log_tail < -_LARGEST_LOG * groups:
        return _FARTHEST
    start = z * (1.0 + (z * z + 1.0) / (4.0 * groups))
    factor = math.lgamma(groups / 2 + 0.5) - math.lgamma(groups / 2)
    factor -= math.log(groups * math.pi) / 2.0
    return _at(
        log_tail,
        start,
        lambda t: log_student_tail(t, groups),
        lambda t: factor - (groups + 1.0) / 2.0 * math.log1p(t * t / groups),
    )


def normal_reach(t: float, groups: float) -> float:
    """The z of the normal distribution with the same tail probability as t of Student's.

    Example:
        >>> round(normal_reach(student_reach(3.0, 10.0), 10.0), 12)
        3.0
    """
    return _normal_at(log_student_tail(t, groups)) if t else 0.0


def _normal_at(log_tail: float) -> float:
    # To leading order, z^2 is minus twice the logarithm of the tail.
    start = math.sqrt(max(-2.0 * log_tail - math.log(4.0), 1e-6))
    return _at(log_tail, start, log_normal_tail, lambda z: -(z * z + math.log(2 * math.pi)) / 2)


def _at(
    log_tail: float, start: float, tail: Callable[[float], float], density: Callable[[float], float]
) -> float:
    """The argument at which the logarithm of a tail is `log_tail`.

    The logarithm of a tail is concave in that of its argument, so Newton's method in that variable
    passes the root at most once.
    """
    if start <= 0.0:
        return 0.0
    argument = start
    for _ in range(50):
        tail_value = tail(argument)
        step = (tail_value - log_tail) / (argument * math.exp(density(argument) - tail_value))
        argument *= math.exp(step)
        if abs(step) < 1e-14:
            break
    return argument


def log_beta_tail(x: float, a: float, b: float) -> float:
    """Ln P(X > x) of the beta distribution.

    Example:
        >>> [round(math.exp(log_beta_tail(x, 1.0, 2.0)), 12) for x in (0.1, 0.5, 0.9)]
        [0.81, 0.25, 0.01]
    """
    if x < (a + 1.0) / (a + b + 2.0):
        return math.log1p(-math.exp(_log_beta(x, a, b)))
    return _log_beta(1.0 - x, b, a)


def _log_beta(x: float, a: float, b: float) -> float:
    """Ln of the regularised incomplete beta function, for x < (a + 1) / (a + b + 2).

    Lentz's continued fraction converges quickly there, and slowly elsewhere.
    """
    head = a * math.log(x) + b * math.log1p(-x) - math.log(a)
    head += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return head + math.log(fraction)
