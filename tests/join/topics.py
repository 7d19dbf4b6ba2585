"""Streams published to topics, each record to the partition of its key."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

from kafka import KafkaProducer

from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.topics import create

PARTITIONS = 4


def published(broker: Broker, records: Iterable[bytes], key: str = "request_id") -> str:
    """A fresh topic with these records, each in the partition of its key, in order."""
    topic = create(broker, partitions=PARTITIONS)
    send(broker, topic, records, key)
    return topic


def send(broker: Broker, topic: str, records: Iterable[bytes], key: str = "request_id") -> None:
    """Append records, each to the partition of its key."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=20)
    with closing(producer):
        sent = [
            producer.send(topic, record, key=name, partition=crc32(name) % PARTITIONS)
            for record in records
            for name in [str(json.loads(record)[key]).encode()]
        ]
        for future in sent:
            future.get(timeout=PATIENCE)


def lines(path: Path) -> Sequence[bytes]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        return [line.strip() for line in file if line.strip()]
