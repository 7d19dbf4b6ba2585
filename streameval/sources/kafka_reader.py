"""Reading partitions of Kafka from known offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streameval.records import Partition, RecordBatch
from streameval.sources.kafka_batches import batch_of, nothing_until, topic_partition


class KafkaReader:
    """Delivers the partitions that it was told to begin, of those that a consumer has.

    Args:
        consumer: of the client; who gives it its partitions is another's business.

    Attributes:
        positions: partition -> offset after what was delivered.
        held: those that are left alone for a while.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.positions: dict[Partition, int] = {}
        self.held: frozenset[Partition] = frozenset()

    def hold(self, partitions: Collection[Partition]) -> None:
        """Leave these alone, and no others."""
        wanted = frozenset(partitions).intersection(self.positions)
        if wanted != self.held:
            self._consumer.pause(*map(topic_partition, wanted - self.held))
            self._consumer.resume(*map(topic_partition, self.held - wanted))
            self.held = wanted

    def begin(self, starts: Mapping[Partition, int]) -> list[RecordBatch]:
        """Go to these offsets, and deliver from there.

        Returns:
            Batches without values: they tell where reading begins, before there is a record.
        """
        for partition, offset in starts.items():
            self._consumer.seek(topic_partition(partition), offset)
            self.positions[partition] = offset
        self.held -= starts.keys()
        return [nothing_until(partition, offset) for partition, offset in starts.items()]

    def end(self, partitions: Collection[Partition]) -> None:
        """Deliver these no more."""
        for partition in partitions:
            self.positions.pop(partition, None)
        self.held -= frozenset(partitions)

    def read(self, seconds: float) -> list[RecordBatch]:
        """What is there, or comes within so many seconds.

        Raises:
            KafkaError: whatever the client says.
        """
        found = self._consumer.poll(timeout_ms=round(seconds * 1000))
        mine = {Partition(*each): records for each, records in found.items()}
        batches = [
            batch_of(partition, records)
            for partition, records in mine.items()
            if partition in self.positions
        ]
        batches = batches or self._gaps()
        for batch in batches:
            self.positions[batch.partition] = batch.next_offset
        return batches

    def _gaps(self) -> list[RecordBatch]:
        """Batches without values where the log goes on, but holds nothing to deliver."""
        reached = {each: self._reached(each) for each in self.positions}
        return [
            nothing_until(partition, position)
            for partition, position in reached.items()
            if position > self.positions[partition]
        ]

    def _reached(self, partition: Partition) -> int:
        position = self._consumer.position(topic_partition(partition), timeout_ms=0)
        return 0 if position is None else int(position)
