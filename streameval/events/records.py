"""Records of a log, before they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class Partition(NamedTuple):
    """One ordered log.

    Attributes:
        number: from 0; always 0 for a file.
    """

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"

    @classmethod
    def of(cls, text: str) -> Partition:
        """The partition that is written so.

        Raises:
            ValueError: none is.

        Example:
            >>> Partition.of("clicks[3]")
            Partition(topic='clicks', number=3)
        """
        topic, _, number = text.removesuffix("]").rpartition("[")
        return cls(topic, int(number))


class Origin(NamedTuple):
    """What a record carries besides its value."""

    key: bytes | None
    headers: Sequence[tuple[str, bytes]]


class RecordBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Consecutive records of one partition.

    Attributes:
        values: each record's bytes; None for a tombstone.
        offsets: each record's offset, ascending; a log may have gaps.
        next_offset: the offset after this batch; above every offset in it.
        timestamps: when the log took each record, milliseconds since the epoch; None where it
            does not say (files).
        origin: key and headers of the record at a place of the batch; None where there are none.
    """

    partition: Partition
    values: Sequence[bytes | None]
    offsets: Sequence[int]
    next_offset: int
    timestamps: Sequence[int] | None = None
    origin: Callable[[int], Origin] | None = None

    def pieces(self, most: int) -> Iterator[RecordBatch]:
        """The batch in pieces of at most so many records.

        Example:
            >>> batch = RecordBatch(
            ...     partition=Partition("a", 0), values=[b""] * 3, offsets=[1, 4, 7], next_offset=9
            ... )
            >>> [(piece.offsets, piece.next_offset) for piece in batch.pieces(2)]
            [([1, 4], 7), ([7], 9)]
        """
        records = len(self.values)
        for start in range(0, max(1, records), most):
            stop = start + most
            behind = self.offsets[stop] if stop < records else self.next_offset
            yield self.piece(start, stop, behind)

    def piece(self, start: int, stop: int, next_offset: int) -> RecordBatch:
        """The records at these places, with another next offset."""
        origin = self.origin

        def shifted(place: int) -> Origin:
            return origin(place + start) if origin is not None else Origin(None, ())

        return RecordBatch(
            partition=self.partition,
            values=self.values[start:stop],
            offsets=self.offsets[start:stop],
            next_offset=next_offset,
            timestamps=None if self.timestamps is None else self.timestamps[start:stop],
            origin=None if origin is None else shifted,
        )


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a source assigns, with facts about its log.

    Attributes:
        partition: which one.
        identity: of its topic: another one after it was deleted and made again.
        begin: first offset that the log still has.
        end: offset after its last record.
        start: where reading begins as configured, where nothing was kept of it.
        committed: what the group has committed for it; None where nothing.
        partitions: how many its topic has; None where that means nothing.
        members: the logs behind it, where several streams are counted as one.
    """

    partition: Partition
    identity: str
    begin: int
    end: int
    start: int
    committed: int | None = None
    partitions: int | None = None
    members: tuple[Assignment, ...] = ()

    @property
    def logs(self) -> tuple[Assignment, ...]:
        """The logs behind it: itself, unless several are counted as one."""
        return self.members or (self,)


class Owner(Protocol):
    """Who counts a source's partitions; called by `Source.poll`, on the polling thread."""

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """These are ours from now on.

        Returns:
            The offset at which to begin each of them.

        Raises:
            StreamevalError: one must not be read; nothing is delivered then.
        """

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Another process gets these when this returns: finish them now."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Another process has these already: what is not durable is forgotten."""
