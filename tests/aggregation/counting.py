"""The smallest thing that slices can hold: it counts events and items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from streameval.errors import DamagedStateError
from streameval.events import Batch


class Counting:
    merged: ClassVar[int] = 0
    """How often any was merged into another."""

    def __init__(self) -> None:
        self.version = 0
        self.events = 0
        self.items = 0
        self.merges = 0

    def update_many(self, batch: Batch) -> None:
        self.version += 1
        self.events += len(batch)
        self.items += sum(map(len, batch.recommendations))

    def merge(self, other: Counting) -> None:
        self.version += 1
        self.merges += 1
        Counting.merged += 1
        self.events += other.events
        self.items += other.items

    def copy(self) -> Counting:
        twin = Counting()
        twin.events, twin.items = self.events, self.items
        return twin

    def dump(self) -> Iterator[bytes]:
        yield self.events.to_bytes(8)
        yield self.items.to_bytes(8)

    def adopt(self, data: bytes) -> frozenset[str]:
        if len(data) != 16:
            raise DamagedStateError("counting", f"{len(data)} bytes instead of 16")
        self.version += 1
        self.events, self.items = int.from_bytes(data[:8]), int.from_bytes(data[8:])
        return frozenset()


def batch(*lengths: int) -> Batch:
    """Events with lists of these lengths, and no interaction."""
    lists = [[f"item-{number}" for number in range(length)] for length in lengths]
    return Batch(recommendations=lists, interactions=[[] for _ in lists])
