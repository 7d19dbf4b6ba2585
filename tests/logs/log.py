"""Topics in memory."""

from __future__ import annotations

from typing import NamedTuple

from streameval.events.records import Partition


class Entry(NamedTuple):
    """One record as it lies in the log."""

    offset: int
    value: bytes | None
    timestamp: int


class Log:
    """Topics with partitions."""

    def __init__(self) -> None:
        self._entries: dict[Partition, list[Entry]] = {}
        self._ends: dict[Partition, int] = {}

    @property
    def partitions(self) -> list[Partition]:
        """All there are, in order."""
        return sorted(self._ends)

    def identity(self, topic: str) -> str:
        """Of the topic."""
        return f"{topic}-1"

    def add_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic."""
        for number in range(partitions):
            self._entries[Partition(topic, number)] = []
            self._ends[Partition(topic, number)] = 0

    def append(self, partition: Partition, value: bytes | None, *, timestamp: int = 0) -> int:
        """Write one record; returns its offset."""
        offset = self._ends[partition]
        self._entries[partition].append(Entry(offset, value, timestamp))
        self._ends[partition] += 1
        return offset

    def skip(self, partition: Partition, count: int = 1) -> None:
        """Use up offsets that will never hold a record."""
        self._ends[partition] += count

    def end(self, partition: Partition) -> int:
        """The offset that the next record gets."""
        return self._ends[partition]

    def entries(self, partition: Partition, start: int = 0) -> list[Entry]:
        """Records at or after an offset."""
        return [entry for entry in self._entries[partition] if entry.offset >= start]
