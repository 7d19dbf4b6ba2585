"""Reading partitions of Kafka from known offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streameval.records import Partition, RecordBatch
from streameval.sources.kafka_client import connect


class KafkaReader:
    """A consumer without a group, which reads the partitions it is told to.

    Args:
        config: settings of the client.

    Raises:
        KafkaError: no broker answers.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._consumer = connect(KafkaConsumer, config)
        self._delivered: dict[Partition, int] = {}

    def read(self, starts: Mapping[Partition, int], seconds: float) -> list[RecordBatch]:
        """What is there, or comes within `seconds`; of a partition just begun, first its place.

        Args:
            starts: partition -> offset at which its reading begins; where it has begun, it goes on.
            seconds: longest wait for a record.

        Raises:
            KafkaError: whatever the client says.
        """
        if len(starts) > len(self._delivered):
            return self._begun(starts)
        records = self._consumer.poll(timeout_ms=round(seconds * 1000))
        batches = _batches(records) if records else self._gaps()
        for batch in batches:
            self._delivered[batch.partition] = batch.next_offset
        return batches

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close(autocommit=False)

    def _begun(self, starts: Mapping[Partition, int]) -> list[RecordBatch]:
        """Read these; the client keeps its place in those that it reads already.

        A batch without values tells where reading begins, so that lag is known before a record.
        """
        self._consumer.assign([TopicPartition(*partition) for partition in starts])
        new = [partition for partition in starts if partition not in self._delivered]
        for partition in new:
            self._consumer.seek(TopicPartition(*partition), starts[partition])
            self._delivered[partition] = starts[partition]
        return [_nothing_until(partition, starts[partition]) for partition in new]

    def _gaps(self) -> list[RecordBatch]:
        """Batches without values where the log goes on, but holds nothing to deliver."""
        positions = {p: self._position(p) for p in self._delivered}
        return [
            _nothing_until(partition, position)
            for partition, position in positions.items()
            if position > self._delivered[partition]
        ]

    def _position(self, partition: Partition) -> int:
        position = self._consumer.position(TopicPartition(*partition), timeout_ms=0)
        return 0 if position is None else int(position)


def _nothing_until(partition: Partition, position: int) -> RecordBatch:
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=position)


def _batches(records: Mapping[TopicPartition, Sequence[Any]]) -> list[RecordBatch]:
    return [
        RecordBatch(
            partition=Partition(*partition),
            values=[record.value for record in consecutive],
            offsets=[record.offset for record in consecutive],
            next_offset=consecutive[-1].offset + 1,
        )
        for partition, consecutive in records.items()
    ]
