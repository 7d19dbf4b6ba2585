"""Counts records: the one place where state and position move, and they move together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from streameval.aggregation.slices import A, Slices
from streameval.aggregation.union import Union
from streameval.errors import SourceError
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.examples import Examples, InvalidRecord
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch


class PartitionState(Generic[A]):
    """What has been counted of one partition, and up to where.

    Attributes:
        slices: the accumulators, by label values.
        position: the next offset to be counted.
        event_time: largest event time so far, microseconds since the epoch; None where unknown.
    """

    __slots__ = ("event_time", "position", "slices")

    def __init__(self, new: Callable[[], A], position: int) -> None:
        self.slices: Slices[A] = Slices(new)
        self.position = position
        self.event_time: int | None = None

    def count(self, decoded: Decoded, next_offset: int) -> None:
        """Count decoded records, and stand after them."""
        for labels, batch in decoded.slices:
            self.slices.update(labels, batch)
        if decoded.latest is not None:
            self.event_time = max(decoded.latest, self.event_time or decoded.latest)
        self.position = next_offset


class Ingest(Generic[A]):
    """Counts batches of records, partition by partition; reads no clock, logs nothing.

    Args:
        decoder: from bytes to events.
        new: makes the empty accumulator of a new slice.
    """

    def __init__(self, decoder: Decoder, new: Callable[[], A]) -> None:
        self._decoder = decoder
        self._new = new
        self._partitions: dict[Partition, PartitionState[A]] = {}
        self._union: Union[A] = Union()
        self._examples = Examples()
        self.tally = Tally()

    def apply(self, batch: RecordBatch) -> None:
        """Count the records of a batch and move its partition's position behind it.

        Raises:
            SourceError: it begins before that position, so records would count twice.
        """
        state = self._partition(batch)
        decoded = self._decoder.decode_many(batch.values)
        state.count(decoded, batch.next_offset)
        self.tally.add(decoded, len(batch.values))
        self._examples.add(batch, decoded.invalid)

    def merged(self) -> list[tuple[tuple[str, ...], A]]:
        """All partitions as one: label values and accumulator, sorted; for reading only."""
        return self._union.of(state.slices for _, state in sorted(self._partitions.items()))

    @property
    def partitions(self) -> Mapping[Partition, PartitionState[A]]:
        """What has been counted, by partition."""
        return self._partitions

    @property
    def positions(self) -> dict[Partition, int]:
        """The next offset to be counted, by partition."""
        return {partition: state.position for partition, state in self._partitions.items()}

    def take_invalid(self) -> Sequence[InvalidRecord]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def _partition(self, batch: RecordBatch) -> PartitionState[A]:
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        state = self._partitions.get(batch.partition)
        if state is None:
            state = self._partitions[batch.partition] = PartitionState(self._new, first)
        if first < state.position:
            problem = f"record {first} came again, although all before {state.position} are counted"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        return state
