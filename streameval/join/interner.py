"""Small numbers in place of long ids: what is kept a million times should take four bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

V = TypeVar("V", bound=Hashable)


class _Codes(dict[V, int], Generic[V]):
    def __init__(self, values: list[V]) -> None:
        super().__init__({value: code for code, value in enumerate(values)})
        self._values = values

    def __missing__(self, value: V) -> int:
        code = self[value] = len(self._values)
        self._values.append(value)
        return code


class Interner(Generic[V]):
    """Gives each distinct value a number from 0 on, in the order in which they come.

    Attributes:
        code: value -> its number; one that is new gets the next.
        known: value -> its number; None where it has none.
        value: number -> its value.

    >>> ids = Interner()
    >>> ids.code("a"), ids.code("b"), ids.code("a"), ids.value(1)
    (0, 1, 0, 'b')
    """

    __slots__ = ("code", "known", "value", "values")

    code: Callable[[V], int]
    known: Callable[[V], int | None]
    value: Callable[[int], V]

    def __init__(self, values: Iterable[V] = ()) -> None:
        self.values = list(values)
        codes = _Codes(self.values)
        self.code, self.known = codes.__getitem__, codes.get
        self.value = self.values.__getitem__

    def __len__(self) -> int:
        return len(self.values)


def compacted(
    interner: Interner[V], columns: Sequence[array[int]]
) -> tuple[Interner[V], Iterator[array[int]]]:
    """An interner of only those values that occur, and the columns with their numbers in it.

    >>> fresh, columns = compacted(Interner("abcd"), [array("I", [3, 1]), array("I", [3])])
    >>> fresh.values, [column.tolist() for column in columns]
    (['b', 'd'], [[1, 0], [1]])
    """
    views = [np.array(column, dtype=np.int64) for column in columns]
    occurs = np.zeros(len(interner), dtype=np.bool_)
    for view in views:
        occurs[view] = True
    numbers = (np.cumsum(occurs) - 1).astype(np.uint32)
    kept = [interner.value(code) for code in np.flatnonzero(occurs).tolist()]
    return Interner(kept), (array("I", numbers[view].tobytes()) for view in views)
