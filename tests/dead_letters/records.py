"""Everything that a topic holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streameval.testing.broker import Broker
from tests.effort import PATIENCE


def records_in(broker: Broker, topic: str) -> list[Any]:
    """The client's records, by partition and offset."""
    return sorted(_records(broker, topic), key=lambda record: (record.partition, record.offset))


def _records(broker: Broker, topic: str) -> Iterator[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(partitions).values())
        while left > 0:
            for records in consumer.poll(timeout_ms=round(PATIENCE * 100)).values():
                left -= len(records)
                yield from records
