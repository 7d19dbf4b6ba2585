"""A column of lists that is read when a statistic asks for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Final

from streameval.events.batch import IntArray, select

_FEW: Final = 16
"""Rows that are read at once, because it takes as long as reading the first one."""


class LazyColumn(Sequence[Any]):
    """A column of which only the sources are at hand.

    Attributes:
        sources: one for each row.
        read: reads the rows of sources.

    Example:
        >>> column = LazyColumn(["a b", "c"], lambda texts: [text.split() for text in texts])
        >>> column.rows(1, 2), column[0], [*column]
        ([['c']], ['a', 'b'], [['a', 'b'], ['c']])
    """

    __slots__ = ("_column", "read", "sources")

    def __init__(
        self, sources: Sequence[Any], read: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> None:
        self.sources, self.read = sources, read
        self._column: Sequence[Any] | None = None

    @property
    def column(self) -> Sequence[Any]:
        """The column, once it is read."""
        if self._column is None:
            self._column = self.read(self.sources)
        return self._column

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [*self._of(self.sources[row])]
        return self.read([self.sources[row]])[0] if self._column is None else self._column[row]

    def __iter__(self) -> Iterator[Any]:
        if self._column is None and len(self.sources) > _FEW:
            yield self[0]  # Some look at the first one only.
            yield from [*self.column][1:]
        else:
            yield from self.column

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr([*self])

    def take(self, rows: IntArray) -> LazyColumn:
        """These rows, in this order."""
        return self._of(select(self.sources, rows))

    def rows(self, start: int, stop: int) -> LazyColumn:
        """The rows start, ..., stop - 1."""
        return self._of(self.sources[start:stop])

    def joined(self, *others: Any) -> Sequence[Any]:
        """These rows, then those of others."""
        parts = (self, *others)
        if all(isinstance(part, LazyColumn) and part.read == self.read for part in parts):
            return self._of(_Chained([part.sources for part in parts]))
        return [*chain.from_iterable(parts)]

    def _of(self, sources: Sequence[Any]) -> LazyColumn:
        return LazyColumn(sources, self.read)


class _Chained(Sequence[Any]):
    """Sequences one after the other, whose items are made when someone asks for them.

    Example:
        >>> chained = _Chained(["ab", "", "c"])
        >>> chained[1], chained[-1], chained[-3], chained[1:]
        ('b', 'c', 'a', ['b', 'c'])
    """

    def __init__(self, parts: Sequence[Sequence[Any]]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[at] for at in range(len(self))[row]]
        row = range(len(self))[row]
        part = bisect_right(self._starts, row) - 1
        return self._parts[part][row - self._starts[part]]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._parts)
