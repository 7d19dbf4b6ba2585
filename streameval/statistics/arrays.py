"""Array types, and grouping of integer rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from streameval.events.batch import BoolArray as BoolArray  # noqa: PLC0414  exported
from streameval.events.batch import FloatArray as FloatArray  # noqa: PLC0414  exported
from streameval.events.batch import IntArray as IntArray  # noqa: PLC0414  exported

Column = TypeVar("Column", IntArray, FloatArray)

_FEW = 16_384
"""Shorter columns are scanned together, because a numpy call costs more than their integers."""

_DENSE = 65_536
"""Span of integers up to which a table of them costs less than a sort."""

_FEW_FALLS = 0.3
"""Share of the integers that are below the one before them; of random ones half are."""

_EXACT = 2**53
"""Largest integer up to which float64, the type of bincount's weights, is exact."""


def group_sum(
    keys: Sequence[IntArray], counts: Sequence[IntArray], combine: np.ufunc = np.add
) -> tuple[list[IntArray], list[IntArray]]:
    """Combine the counts of equal keys by `combine`, which is a sum or a maximum.

    Returns:
        The distinct keys, ascending, and their counts, as columns of equal length.

    Example:
        >>> keys, counts = group_sum([np.array([2, 1, 2])], [np.array([10, 20, 30])])
        >>> keys[0].tolist(), counts[0].tolist()
        ([1, 2], [20, 40])
    """
    if keys[0].size == 0:
        return list(keys), list(counts)
    lows, highs = bounds(keys)
    spans = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    room = int(np.prod(spans, dtype=object))
    if room >= 2**62:
        larger = np.zeros(keys[0].size - 1, np.bool_)
        alike = ~larger
        for column in keys:
            larger |= alike & (column[1:] > column[:-1])
            alike &= column[1:] == column[:-1]
        if larger.all():
            return list(keys), list(counts)
        order = np.lexsort(keys[::-1])
        unlike = [column[order][1:] != column[order][:-1] for column in keys]
        changes = np.logical_or.reduce(unlike)
        return _combine(keys, counts, combine, order, changes)
    codes = keys[0].astype(np.int64)
    codes -= lows[0]
    for column, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        codes *= span
        codes += column
        codes -= low
    if (codes[1:] > codes[:-1]).all():
        return list(keys), list(counts)
    dense = room <= 8 * codes.size + 1024 and combine is np.add
    if dense and all(np.abs(column).sum(dtype=np.float64) < _EXACT / 2 for column in counts):
        occurs = np.zeros(room, np.bool_)
        occurs[codes] = True
        occupied = np.flatnonzero(occurs)
        offsets = zip(lows, np.unravel_index(occupied, spans), strict=True)
        added = [np.bincount(codes, weights=each)[occupied].astype(np.int64) for each in counts]
        return [low + offset for low, offset in offsets], added
    # A merge sort is up to ten times as fast where codes are runs that ascend, as of joined parts.
    falls = np.count_nonzero(codes[1:] < codes[:-1])
    order = np.argsort(codes, kind="stable" if falls < _FEW_FALLS * codes.size else None)
    codes = codes[order]
    return _combine(keys, counts, combine, order, codes[1:] != codes[:-1])


def place_values(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values, ascending, and the index of each value among them.

    Example:
        >>> place_values(np.array([5, -1, 5]))
        (array([-1,  5]), array([1, 0, 1]))
    """
    if not values.size or (values == values[0]).all():
        return values[:1], np.zeros(values.size, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > 2 * values.size + _DENSE:
        distinct_values = distinct(values)
        return distinct_values, np.searchsorted(distinct_values, values)
    occurs = np.zeros(high - low + 1, np.bool_)
    occurs[values - low] = True
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[values - low]


def occurrences(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values, ascending, and how often each occurs.

    Example:
        >>> occurrences(np.array([5, -1, 5]))
        (array([-1,  5]), array([1, 2]))
    """
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low > 2 * values.size + _DENSE:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - low if low else values)
    present = np.flatnonzero(counts)
    return present + low, counts[present]


def distinct(values: IntArray) -> IntArray:
    """The distinct values, ascending."""
    ordered = np.sort(values)
    if ordered.size:
        ordered = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    return ordered


def sums(index: IntArray, values: IntArray, size: int) -> IntArray:
    """The sum of the values with each index, shape (size,)."""
    totals = np.zeros(size, np.int64)
    np.add.at(totals, index, values)
    return totals


def among(values: IntArray, members: IntArray) -> BoolArray:
    """Which values are in `members`, which ascend."""
    if not members.size:
        return np.zeros(values.size, np.bool_)
    at = np.minimum(np.searchsorted(members, values), members.size - 1)
    return np.asarray(members[at] == values)


def up_to(ranks: IntArray, k: int | None) -> BoolArray:
    """Which ranks are within cut-off k; None is the whole list."""
    return np.ones(ranks.size, np.bool_) if k is None else ranks <= k


def read_only(column: Column) -> Column:
    """A view of the column that nobody can write to."""
    view = column.view()
    view.flags.writeable = False
    return view


def bounds(columns: Sequence[IntArray]) -> tuple[list[int], list[int]]:
    """The smallest and the largest integer of each column; no column may be empty."""
    if columns[0].size > _FEW:
        return [int(column.min()) for column in columns], [int(column.max()) for column in columns]
    together = np.array(columns, np.int64)
    return together.min(axis=1).tolist(), together.max(axis=1).tolist()


def narrow(columns: Sequence[IntArray]) -> list[IntArray]:
    """Columns of equal length, each in the narrowest type that holds its integers."""
    if not columns[0].size:
        return [column.astype("<i1") for column in columns]
    narrowed = []
    for column, low, high in zip(columns, *bounds(columns), strict=True):
        largest = max(high, ~low)
        width = next((size for size in (1, 2, 4) if largest < 1 << (8 * size - 1)), 8)
        narrowed.append(column.astype(f"<i{width}", copy=False))
    return narrowed


def _combine(
    keys: Sequence[IntArray],
    counts: Sequence[IntArray],
    combine: np.ufunc,
    order: IntArray,
    changes: BoolArray,
) -> tuple[list[IntArray], list[IntArray]]:
    starts = np.flatnonzero(np.concatenate(([True], changes)))
    firsts = order[starts]
    if starts.size == order.size:
        return [column[order] for column in keys], [column[order] for column in counts]
    return [column[firsts] for column in keys], [
        combine.reduceat(column[order], starts, dtype=np.int64) for column in counts
    ]
