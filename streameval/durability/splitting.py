"""Cuts a batch of records in two."""

from __future__ import annotations

from streameval.records import Origin, RecordBatch


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
    head = _piece(batch, 0, below, offset)
    return [head, _piece(batch, below, len(batch.offsets), batch.next_offset)]


def _piece(batch: RecordBatch, start: int, stop: int, next_offset: int) -> RecordBatch:
    origin = batch.origin

    def shifted(place: int) -> Origin:
        return origin(place + start) if origin is not None else Origin(None, ())

    return RecordBatch(
        partition=batch.partition,
        values=batch.values[start:stop],
        offsets=batch.offsets[start:stop],
        next_offset=next_offset,
        timestamps=None if batch.timestamps is None else batch.timestamps[start:stop],
        origin=None if origin is None else shifted,
    )
