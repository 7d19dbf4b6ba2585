"""Topics in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streameval.events.records import Partition


class Entry(NamedTuple):
    """One record as it lies in the log."""

    offset: int
    value: bytes | None
    timestamp: int
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class _Shelf:
    """The records of one partition."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.begin = self.end = 0


class Log:
    """Topics with partitions, which grow, lose their beginnings, and are made again."""

    def __init__(self) -> None:
        self._shelves: dict[Partition, _Shelf] = {}
        self._identities: dict[str, str] = {}
        self._made = 0

    @property
    def partitions(self) -> list[Partition]:
        """All there are, in order."""
        return sorted(self._shelves)

    def identity(self, topic: str) -> str | None:
        """Of the topic as it is now; None where there is none."""
        return self._identities.get(topic)

    def add_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic that is not there."""
        if topic in self._identities:
            raise ValueError(f"there is a topic {topic}")
        self._made += 1
        self._identities[topic] = f"{topic}-{self._made}"
        self.add_partitions(topic, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let the topic have so many."""
        for number in range(total):
            self._shelves.setdefault(Partition(topic, number), _Shelf())

    def recreate(self, topic: str) -> None:
        """Delete the topic, and make it again with as many partitions, all empty."""
        count = len([each for each in self._shelves if each.topic == topic])
        self._shelves = {p: s for p, s in self._shelves.items() if p.topic != topic}
        del self._identities[topic]
        self.add_topic(topic, count)

    def append(
        self,
        partition: Partition,
        value: bytes | None,
        *,
        timestamp: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """Write one record; returns its offset."""
        shelf = self._shelves[partition]
        shelf.entries.append(Entry(shelf.end, value, timestamp, key, tuple(headers)))
        shelf.end += 1
        return shelf.end - 1

    def skip(self, partition: Partition, count: int = 1) -> None:
        """Use up offsets that will never hold a record."""
        self._shelves[partition].end += count

    def delete_until(self, partition: Partition, offset: int) -> None:
        """Forget the records before this offset."""
        shelf = self._shelves[partition]
        if not shelf.begin <= offset <= shelf.end:
            raise ValueError(f"{offset} is not within {shelf.begin} to {shelf.end}")
        shelf.begin = offset
        shelf.entries = [entry for entry in shelf.entries if entry.offset >= offset]

    def begin(self, partition: Partition) -> int:
        """First offset that is still there."""
        return self._shelves[partition].begin

    def end(self, partition: Partition) -> int:
        """The offset that the next record gets."""
        return self._shelves[partition].end

    def entries(
        self, partition: Partition, start: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Records at or after an offset, so many at most."""
        found = [entry for entry in self._shelves[partition].entries if entry.offset >= start]
        return found if limit is None else found[:limit]
