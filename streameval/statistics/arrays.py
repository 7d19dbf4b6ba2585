"""Array types, and the one way in which integer cells are grouped."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_EXACT = 2**53
"""Up to here a float64 counts integers exactly, which is what bincount's weights are."""


def grouped(keys: list[IntArray], counts: list[IntArray]) -> tuple[list[IntArray], list[IntArray]]:
    """Add up the counts of equal keys.

    Args:
        keys: columns of non-negative integers, each of shape (n,).
        counts: columns of non-negative integers to add up, each of shape (n,).

    Returns:
        The distinct keys in ascending order and their sums, as columns of equal length.

    Example:
        >>> keys, counts = grouped([np.array([2, 1, 2])], [np.array([10, 20, 30])])
        >>> keys[0].tolist(), counts[0].tolist()
        ([1, 2], [20, 40])
    """
    if keys[0].size == 0:
        return keys, counts
    spans = [int(column.max()) + 1 for column in keys]
    codes = _codes(keys, spans)
    if int(np.prod(spans, dtype=object)) <= 8 * codes.size + 1024 and _small(counts):
        distinct, sums = _added_densely(codes, counts)
    else:
        distinct, sums = _added_by_sorting(codes, counts)
    return _columns(distinct, spans), sums


def distinct(values: IntArray) -> IntArray:
    """The distinct values in ascending order."""
    ordered = np.sort(values)
    if ordered.size:
        ordered = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    return ordered


def occurrences(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values in ascending order, and how often each occurs.

    Example:
        >>> occurrences(np.array([5, -1, 5]))
        (array([-1,  5]), array([1, 2]))
    """
    if not values.size:
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 2 * values.size + 65_536:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - low)
    found = np.flatnonzero(counts)
    return found + low, counts[found]


def _codes(keys: list[IntArray], spans: list[int]) -> IntArray:
    if int(np.prod(spans, dtype=object)) >= 2**62:
        message = "key columns span more than 2^62 combinations"
        raise OverflowError(message)
    codes = keys[0].astype(np.int64)
    for column, span in zip(keys[1:], spans[1:], strict=True):
        codes = codes * span + column
    return codes


def _columns(codes: IntArray, spans: list[int]) -> list[IntArray]:
    columns = []
    for span in reversed(spans[1:]):
        codes, column = np.divmod(codes, span)
        columns.append(column)
    return [codes, *reversed(columns)]


def _small(counts: list[IntArray]) -> bool:
    return all(float(column.sum(dtype=np.float64)) < _EXACT / 2 for column in counts)


def _added_densely(codes: IntArray, counts: list[IntArray]) -> tuple[IntArray, list[IntArray]]:
    distinct = np.flatnonzero(np.bincount(codes))
    sums = [np.bincount(codes, weights=column)[distinct].astype(np.int64) for column in counts]
    return distinct, sums


def _added_by_sorting(codes: IntArray, counts: list[IntArray]) -> tuple[IntArray, list[IntArray]]:
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], [np.add.reduceat(column[order], starts) for column in counts]
