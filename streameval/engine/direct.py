"""The contract of the first stage of a pipeline; and the stage of a stream of whole events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from streameval.decoding.columns import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.engine.partition import Layout, PartitionState
from streameval.events.records import Partition, RecordBatch


class Front(Protocol):
    """Makes of records what a state counts."""

    @property
    def layout(self) -> Layout:
        """What is kept of each partition."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def decode(self, batch: RecordBatch) -> Any:
        """What a state takes besides the batch."""

    def state(self, offsets: Mapping[Partition, int]) -> PartitionState:
        """One that has counted nothing; the logs behind it begin at these offsets."""


class Direct:
    """Every record is an event with its outcome; every log is counted for itself."""

    def __init__(self, decoder: BatchDecoder[Decoded], layout: Layout) -> None:
        self.layout = layout
        self._decoder = decoder

    def home(self, partition: Partition) -> Partition:
        """Itself."""
        return partition

    def decode(self, batch: RecordBatch) -> Decoded:
        """The events in it."""
        return self._decoder.decode_many(batch.values)

    def state(self, offsets: Mapping[Partition, int]) -> PartitionState:
        """One that has counted nothing."""
        ((partition, offset),) = offsets.items()
        return PartitionState(self.layout, partition, offset)
