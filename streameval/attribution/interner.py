"""Small numbers in place of long ids: what is kept a million times should take four bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

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
