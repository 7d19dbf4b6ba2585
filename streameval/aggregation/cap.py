"""Few values stay and the others fold, without regard to the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

Labels: TypeAlias = tuple[str, ...]
"""Values of the dimensions of one slice."""

T = TypeVar("T", str, Labels)


class Cap(Generic[T]):
    """Keeps the values with the smallest hashes; one that folded once is folded for good.

    What is kept is a function of the set of values seen, in any order.

    Attributes:
        kept: value -> hash.
        edge: smallest hash that ever folded; None where none has.

    Args:
        size: most values kept.
    """

    __slots__ = ("edge", "kept", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept: dict[T, int] = {}
        self.edge: int | None = None

    def add(self, value: T) -> Sequence[T]:
        """See a value that is not kept; returns the values that fold now, maybe itself."""
        hashed = _hash(value)
        if self.edge is not None and hashed >= self.edge:
            return (value,)
        self.kept[value] = hashed
        return self._shrunk()

    def merge(self, other: Cap[T]) -> None:
        """Keep what one that saw the values of both would have kept."""
        self.kept |= other.kept
        edges = [edge for edge in (self.edge, other.edge) if edge is not None]
        if edges:
            self._cut(min(edges))
        self._shrunk()

    def state(self) -> list[Any]:
        """The edge and the values kept, sorted."""
        return [self.edge, sorted(self.kept)]

    def load(self, edge: int | None, values: Iterable[T]) -> None:
        """Take the place of the content by what `state` gave."""
        self.edge = edge
        self.kept = {value: _hash(value) for value in values}
        if edge is not None:
            self._cut(edge)
        self._shrunk()

    def _shrunk(self) -> Sequence[T]:
        gone: list[T] = []
        while len(self.kept) > self.size:
            gone += self._cut(max(self.kept.values()))
        return gone

    def _cut(self, edge: int) -> list[T]:
        self.edge = edge
        gone = sorted(value for value, hashed in self.kept.items() if hashed >= edge)
        for value in gone:
            del self.kept[value]
        return gone


def _hash(value: str | Labels) -> int:
    return int.from_bytes(blake2b(msgspec.msgpack.encode(value), digest_size=8).digest())
