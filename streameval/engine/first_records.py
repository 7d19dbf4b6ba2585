"""The first records of each stream, which are searched for the configured names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from streameval.decoding.invalid import InvalidEvent
from streameval.events.records import RecordBatch

FIRST: Final = 100
"""Valid records of a stream without a name before that is reported."""

REFUSED: Final = 20
"""Records without a required field, and no valid one, before that is reported."""


class Unmatched(NamedTuple):
    """A name in the configuration that no record has.

    Attributes:
        key: of the configuration.
        text: one sentence or more about the name, and the names that the records have.
        label: the label or segment that it names, or None.
        value: the value of the label that is absent; None if the label is.
        is_later: True if only the records of a later hour lack it.
    """

    key: str
    text: str
    label: str | None = None
    value: str | None = None
    is_later: bool = False


class TakenRecords(NamedTuple):
    """Records of one stream; `refused` lack a required field."""

    valid: Sequence[bytes]
    refused: Sequence[bytes]


class _StreamRecords(msgspec.Struct):
    """Records that wait to be taken, and the number collected before."""

    valid: list[bytes] = []
    refused: list[bytes] = []
    number: int = 0
    refusals: int = 0
    closed: bool = False


class FirstRecords:
    """Collects the first records of each stream, then one of each batch while it is open.

    Never part of a saved state. `streams`: topic or file -> number of its stream; others are of the
    first one.
    """

    def __init__(self, streams: Mapping[str, int]) -> None:
        self._number = streams
        self._streams = [_StreamRecords() for _ in range(max(streams.values(), default=0) + 1)]

    def add(self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]) -> None:
        """Collect records of a batch, while the stream is open."""
        stream = self._streams[self._number.get(batch.partition.topic, 0)]
        if stream.closed or len(stream.valid) >= FIRST:
            return
        rows = {row for row, _ in invalid}
        texts = (
            value for row, value in enumerate(batch.values) if value is not None and row not in rows
        )
        valid = [*islice(texts, max(1, FIRST - stream.number))]
        stream.valid += valid
        stream.number += len(valid)
        if not stream.number and stream.refusals < REFUSED:
            lacking = (row for row, event in invalid if event.reason == "missing_field")
            values = (batch.values[row] for row in lacking)
            refused = [value for value in islice(values, REFUSED) if value is not None]
            stream.refused += refused
            stream.refusals += len(refused)

    def take(self) -> list[TakenRecords]:
        """The records of each stream since the last call."""
        records = [TakenRecords(stream.valid, stream.refused) for stream in self._streams]
        for stream in self._streams:
            stream.valid, stream.refused = [], []
        return records

    def open(self, stream: int, *, again: bool) -> None:
        """Collect more records of this stream, or none for now."""
        self._streams[stream].closed = not again
