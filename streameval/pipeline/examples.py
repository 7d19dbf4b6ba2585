"""A few invalid records, kept so that somebody can be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from streameval.pipeline.invalid import InvalidEvent, Reason
from streameval.records import Partition, RecordBatch

PER_REASON = 3
"""So many examples of each reason are kept between two takes."""

_PREVIEW = 80


class InvalidRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid record, and where it lies.

    Attributes:
        partition: in which partition.
        offset: at which offset.
        reason: one of `invalid.REASONS`.
        detail: which field, and what was found there.
        preview: the beginning of its bytes, printable.
    """

    partition: Partition
    offset: int
    reason: Reason
    detail: str
    preview: str

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}: {self.reason}: {self.detail}"


class Examples:
    """Keeps the first few invalid records of each reason until they are taken."""

    def __init__(self) -> None:
        self._kept: list[InvalidRecord] = []
        self._seen: Counter[Reason] = Counter()

    def add(self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]) -> None:
        """Keep what there is room for."""
        for place, event in invalid:
            if self._seen[event.reason] < PER_REASON:
                self._seen[event.reason] += 1
                self._kept.append(invalid_record(batch, place, event))

    def take(self) -> list[InvalidRecord]:
        """What was kept, oldest first; afterwards there is room again."""
        taken, self._kept = self._kept, []
        self._seen.clear()
        return taken


def invalid_record(batch: RecordBatch, place: int, event: InvalidEvent) -> InvalidRecord:
    """The invalid record at a place of a batch."""
    return InvalidRecord(
        partition=batch.partition,
        offset=batch.offsets[place],
        reason=event.reason,
        detail=event.detail,
        preview=preview(batch.values[place] or b""),
    )


def preview(value: bytes) -> str:
    r"""The beginning of a record, as text that is safe to print.

    Example:
        >>> preview(b'{"a":\x1b\xff')
        '{"a":\\x1b\\xff'
    """
    text = value[:_PREVIEW].decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return f"{shown}..." if len(value) > _PREVIEW else shown
