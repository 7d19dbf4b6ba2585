"""Cuts a batch of records in two."""

from __future__ import annotations

from streameval.records import RecordBatch


def split(batch: RecordBatch, offset: int) -> list[RecordBatch]:
    """The records below an offset and the others; one batch where all lie on one side.

    Example:
        >>> from streameval.records import Partition
        >>> batch = RecordBatch(
        ...     partition=Partition("events", 0), values=[b"a", b"b"], offsets=[4, 6], next_offset=7
        ... )
        >>> [(piece.offsets, piece.next_offset) for piece in split(batch, 5)]
        [([4], 5), ([6], 7)]
    """
    below = sum(each < offset for each in batch.offsets)
    if below == 0 or batch.next_offset <= offset:
        return [batch]
    head = batch.piece(0, below, offset)
    return [head, batch.piece(below, len(batch.offsets), batch.next_offset)]
