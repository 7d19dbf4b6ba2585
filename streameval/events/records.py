"""Records of a log, before they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Literal, NamedTuple, Protocol

import msgspec


class CommitAnswer(Enum):
    """An answer to a commit besides a problem, which is text, and None, which is acceptance."""

    PENDING = "pending"
    """The group has not answered; ask again with the same offsets."""


class Partition(NamedTuple):
    """One ordered log.

    Attributes:
        number: from 0; a file has only partition 0.
    """

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"

    @classmethod
    def of(cls, text: str) -> Partition:
        """Parse the text form of a partition.

        Raises:
            ValueError: the text is not a partition.

        Example:
            >>> Partition.of("clicks[3]")
            Partition(topic='clicks', number=3)
        """
        topic, _, number = text.removesuffix("]").rpartition("[")
        return cls(topic, int(number))


class RecordBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Consecutive records of one partition.

    Attributes:
        values: each record's bytes; None for a tombstone.
        offsets: each record's offset, ascending; a log may have gaps.
        next_offset: the offset after this batch; above every offset in it.
        timestamps: append time of each record, milliseconds since the epoch; None if the log has
            none (files).
        keys: key of each record; None if the log has none (files).
        headers: headers of the record at an index of the batch; None if there are none.
    """

    partition: Partition
    values: Sequence[bytes | None]
    offsets: Sequence[int]
    next_offset: int
    timestamps: Sequence[int] | None = None
    keys: Sequence[bytes | None] | None = None
    headers: Callable[[int], Sequence[tuple[str, bytes]]] | None = None

    def piece(self, start: int, stop: int, next_offset: int) -> RecordBatch:
        """The records start, ..., stop - 1, with this next offset."""
        headers = self.headers

        def shifted(index: int) -> Sequence[tuple[str, bytes]]:
            return headers(index + start) if headers is not None else ()

        return RecordBatch(
            partition=self.partition,
            values=self.values[start:stop],
            offsets=self.offsets[start:stop],
            next_offset=next_offset,
            timestamps=None if self.timestamps is None else self.timestamps[start:stop],
            keys=None if self.keys is None else self.keys[start:stop],
            headers=None if headers is None else shifted,
        )


def group_batches(batches: Iterable[RecordBatch], most: int) -> Iterator[list[RecordBatch]]:
    """Groups of at most `most` records, with at most one batch of each partition; cuts batches.

    Example:
        >>> batches = [
        ...     RecordBatch(
        ...         partition=Partition("a", at), values=[b""] * 3, offsets=[1, 4, 7], next_offset=9
        ...     )
        ...     for at in (0, 1, 2)
        ... ]
        >>> for group in group_batches(batches, 5):
        ...     print([(batch.partition.number, batch.offsets) for batch in group])
        [(0, [1, 4, 7]), (1, [1, 4])]
        [(1, [7]), (2, [1, 4, 7])]
        >>> for group in group_batches(batches[1:], 3):
        ...     print([(batch.partition.number, batch.offsets) for batch in group])
        [(1, [1, 4, 7])]
        [(2, [1, 4, 7])]
    """
    group: dict[Partition, RecordBatch] = {}
    room = most
    for batch in batches:
        start, records = 0, len(batch.values)
        while start < records or not (start or records):
            if batch.partition in group or room <= 0:
                yield [*group.values()]
                group, room = {}, most
            stop = min(start + room, records)
            behind = batch.offsets[stop] if stop < records else batch.next_offset
            is_whole_batch = start == 0 and stop == records
            group[batch.partition] = batch if is_whole_batch else batch.piece(start, stop, behind)
            room -= stop - start
            start = stop or 1
    if group:
        yield [*group.values()]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a source assigns, with facts about its log.

    Attributes:
        identity: id of its topic, or digest of a file's first line; it changes when the topic is
            deleted and recreated, or the file replaced.
        begin: first offset that the log still has.
        end: offset after the last record.
        start: configured start offset, for a partition without a checkpoint.
        committed: offset that the group committed; None without a commit.
        partitions: partition count of its topic; None if the source has no such count.
        members: the joined logs, if several streams are counted as one.
        kind: what holds the log.
    """

    partition: Partition
    identity: str
    begin: int
    end: int
    start: int
    committed: int | None = None
    partitions: int | None = None
    members: tuple[Assignment, ...] = ()
    kind: Literal["topic", "file"] = "topic"

    @property
    def logs(self) -> tuple[Assignment, ...]:
        """The joined logs, or the partition itself."""
        return self.members or (self,)


class PartitionOwner(Protocol):
    """The consumer of a source's partitions; `Source.poll` calls it on the polling thread."""

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Take over these partitions.

        Returns:
            The offset at which to start reading each of them.

        Raises:
            StreamevalError: a partition must not be read; then nothing is delivered.
        """
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Finish these partitions; another process gets them when this returns."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Discard what is not durable; another process already has these partitions."""
