"""What a consumer of the client hands out, as batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import TopicPartition

from streameval.records import Origin, Partition, RecordBatch


def batch_of(partition: Partition, records: Sequence[Any]) -> RecordBatch:
    """Consecutive records of the client, at least one; keys and headers are read when asked for."""
    return RecordBatch(
        partition=partition,
        values=[record.value for record in records],
        offsets=[record.offset for record in records],
        next_offset=records[-1].offset + 1,
        timestamps=[record.timestamp for record in records],
        origin=lambda place: _origin(records[place]),
    )


def nothing_until(partition: Partition, offset: int) -> RecordBatch:
    """A batch without values, which moves a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)


def topic_partition(partition: Partition) -> TopicPartition:
    """As the client calls it."""
    return TopicPartition(partition.topic, partition.number)


def _origin(record: Any) -> Origin:
    # A header may be null in Kafka, but the client cannot write such a one again.
    return Origin(record.key, [(name, value or b"") for name, value in record.headers])
