"""Sets of offsets, which mostly follow each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Self


class Ranges:
    """A set of offsets, kept as ranges that neither overlap nor touch.

    Takes memory by the number of ranges, not of offsets. Adding behind the largest is quick;
    anywhere else it takes time by the number of ranges.

    >>> found = Ranges.from_list([[3, 5]])
    >>> found.add(5)
    True
    >>> found.discard(4), found.discard(4)
    (True, False)
    >>> found.as_list(), len(found), 5 in found
    ([[3, 4], [5, 6]], 2, True)
    """

    __slots__ = ("_count", "_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._count = 0

    @classmethod
    def from_list(cls, listed: Sequence[Sequence[int]]) -> Self:
        """The set that `as_list` gave.

        Raises:
            ValueError: it is no such list.
            TypeError: likewise.
        """
        found = cls()
        found._starts = [start for start, _ in listed]
        found._ends = [end for _, end in listed]
        found._count = sum(found._ends) - sum(found._starts)
        edges = [edge for pair in listed for edge in pair]
        rising = all(before < after for before, after in pairwise([-1, *edges]))
        if not rising or not all(type(edge) is int for edge in edges):
            raise ValueError("no ascending ranges of offsets, apart from each other")
        return found

    def add(self, offset: int) -> bool:
        """Take it into the set; returns whether it was not there.

        Raises:
            ValueError: it is below 0.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is below 0")
        place = bisect_right(self._starts, offset)
        if place and offset < self._ends[place - 1]:
            return False
        self._insert(place, offset)
        self._count += 1
        return True

    def discard(self, offset: int) -> bool:
        """Take it out of the set; returns whether it was there."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self._ends[place]:
            return False
        start, end = self._starts[place], self._ends[place]
        left = [pair for pair in ((start, offset), (offset + 1, end)) if pair[0] < pair[1]]
        self._starts[place : place + 1] = [pair[0] for pair in left]
        self._ends[place : place + 1] = [pair[1] for pair in left]
        self._count -= 1
        return True

    def forget(self, most: int) -> int:
        """Keep the `most` highest ranges; returns how many offsets are no longer in the set."""
        surplus = len(self._starts) - most
        if surplus <= 0:
            return 0
        gone = sum(self._ends[:surplus]) - sum(self._starts[:surplus])
        del self._starts[:surplus], self._ends[:surplus]
        self._count -= gone
        return gone

    def as_list(self) -> list[list[int]]:
        """First offset and the one after the last, of each range, ascending: one form a set."""
        return [list(pair) for pair in zip(self._starts, self._ends, strict=True)]

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        place = bisect_right(self._starts, offset)
        return place > 0 and offset < self._ends[place - 1]

    def __iter__(self) -> Iterator[int]:
        for start, end in self.as_list():
            yield from range(start, end)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranges):
            return NotImplemented
        return self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Ranges.from_list({self.as_list()})"

    def _insert(self, place: int, offset: int) -> None:
        """Join an offset that lies in none, before the range at `place`."""
        before = place > 0 and self._ends[place - 1] == offset
        after = place < len(self._starts) and self._starts[place] == offset + 1
        if before and after:
            del self._ends[place - 1], self._starts[place]
        elif before:
            self._ends[place - 1] = offset + 1
        elif after:
            self._starts[place] = offset
        else:
            self._starts.insert(place, offset)
            self._ends.insert(place, offset + 1)
