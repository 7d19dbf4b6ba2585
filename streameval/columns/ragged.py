"""Many lists of unlike length in two arrays."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
IntArray: TypeAlias = npt.NDArray[np.int64]
T = TypeVar("T")


class Ragged:
    """Lists one after another: list i is `values[offsets[i]:offsets[i + 1]]`.

    Attributes:
        values: all entries, shape (entries,).
        offsets: from 0, never falling, the last one the number of entries; shape (lists + 1,).

    Example:
        >>> ragged = Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
        >>> ragged.lists()
        [[7, 8], [], [9]]
    """

    def __init__(self, values: Array, offsets: IntArray) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def of_lengths(cls, values: Array, lengths: IntArray) -> Ragged:
        """Lists of the given lengths, shape (lists,)."""
        return cls(values, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @cached_property
    def lengths(self) -> IntArray:
        """Entries of each list, shape (lists,)."""
        return np.diff(self.offsets)

    @cached_property
    def width(self) -> int | None:
        """The length that all lists have, or None."""
        if not len(self):
            return 0
        shortest = int(self.lengths.min())
        return shortest if shortest == int(self.lengths.max()) else None

    def spread(self, per_list: Array) -> Array:
        """One value a list, shape (lists,), as one value an entry, shape (entries,)."""
        return np.repeat(per_list, self.lengths if self.width is None else self.width)

    def owners(self, entries: IntArray) -> IntArray:
        """The list that each of these entries is in."""
        if self.width:
            return entries // self.width
        return np.searchsorted(self.offsets, entries, side="right") - 1

    def rows(self, start: int, stop: int) -> Ragged:
        """The lists from start up to stop."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def between(self, start: int, stop: int | None) -> Ragged:
        """Of each list, the places (from 0) from start up to stop."""
        kept = np.maximum(np.minimum(self.lengths, _most(stop)) - start, 0)
        if int(kept.sum()) == self.values.size:
            return self
        if self.width is not None:
            values = self.values.reshape(len(self), self.width)[:, start:stop].ravel()
        else:
            place = np.arange(self.values.size) - self.spread(self.offsets[:-1])
            values = self.values[(place >= start) & (place < _most(stop))]
        return Ragged.of_lengths(values, kept)

    def lists(self) -> list[list[Any]]:
        """The same as Python lists."""
        return self.cut(self.values.tolist())

    def cut(self, entries: list[T]) -> list[list[T]]:
        """Other entries, in lists of the same lengths."""
        return [entries[start:stop] for start, stop in pairwise(self.offsets.tolist())]


def _most(stop: int | None) -> int:
    return np.iinfo(np.int64).max if stop is None else stop
