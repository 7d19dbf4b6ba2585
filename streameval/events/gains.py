"""Several gains of one item in one list, combined to one: the rule, for pairs and for arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

LARGEST_GAIN = 2.0**1000
"""Largest absolute gain, so that sums of gains stay finite."""

_EXACT = 2.0**53
"""Sums of integers up to this are exact in float64."""

Combine: TypeAlias = Literal["max", "sum"]
"""The gain of several interactions with one item of a list: the largest, or the sum."""


class CombinedGains(NamedTuple):
    """One gain for each item of a list.

    Attributes:
        by_item: item -> gain.
        hides_loss: whether the largest gain of an item is above 0, and another one below 0.
    """

    by_item: dict[Any, float]
    hides_loss: bool


def combine_gains(gains: Iterable[tuple[Any, float]], how: Combine = "max") -> CombinedGains:
    """Combine the gains of each item.

    Example:
        >>> sale_and_refund = [("tea", 30.0), ("milk", 2.0), ("tea", -30.0)]
        >>> combine_gains(sale_and_refund)
        CombinedGains(by_item={'tea': 30.0, 'milk': 2.0}, hides_loss=True)
        >>> combine_gains(sale_and_refund, "sum").by_item
        {'tea': 0.0, 'milk': 2.0}
    """
    if how == "sum":
        several: dict[Any, list[float]] = {}
        for item, gain in gains:
            several.setdefault(item, []).append(gain)
        sums = {item: _sum(of_item) for item, of_item in several.items()}
        return CombinedGains(sums, hides_loss=False)
    largest, below = dict[Any, float](), set[Any]()
    for item, gain in gains:
        if gain > largest.setdefault(item, gain):
            largest[item] = gain
        if gain < 0:
            below.add(item)
    return CombinedGains(largest, any(largest[item] > 0 for item in below))


def reduce_gains(
    groups: NDArray[np.int64], gains: NDArray[np.float64], how: Combine
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """`combine_gains` of arrays: of the gains of each group.

    Returns:
        The first row of each group, by the code of the group; the group's gain; and whether it
        hides a loss.

    Example:
        >>> groups = np.array([4, 2, 4])
        >>> [column.tolist() for column in reduce_gains(groups, np.array([1.0, 5.0, -2.0]), "sum")]
        [[1, 0], [5.0, -1.0], [False, False]]
        >>> [column.tolist() for column in reduce_gains(groups, np.array([1.0, 5.0, -2.0]), "max")]
        [[1, 0], [5.0, 1.0], [False, True]]
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order][:1] - 1))
    ordered, hides_loss = gains[order], np.zeros(starts.size, np.bool_)
    if not starts.size:
        return order, ordered, hides_loss
    if how == "max":
        combined = np.maximum.reduceat(ordered, starts)
        return order[starts], combined, (np.minimum.reduceat(ordered, starts) < 0) & (combined > 0)
    # As math.fsum, which never gives -0.0.
    combined = np.add.reduceat(ordered, starts) + 0.0
    if (ordered != np.rint(ordered)).any() or np.abs(ordered).max() * ordered.size >= _EXACT:
        # A sum of two is rounded once.
        ends = np.append(starts[1:], ordered.size)
        for group in np.flatnonzero(ends - starts > 2).tolist():
            combined[group] = _sum(ordered[starts[group] : ends[group]].tolist())
    return order[starts], np.clip(combined, -LARGEST_GAIN, LARGEST_GAIN), hides_loss


def _sum(gains: Sequence[float]) -> float:
    """The sum, rounded once and limited to the largest gain."""
    return max(-LARGEST_GAIN, min(LARGEST_GAIN, math.fsum(gains)))
