"""New topics with known content, and helpers to read them."""

from __future__ import annotations

import gzip
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.schemas.records import Schemas
from streameval.sources.settings import KafkaOptions
from streameval.sources.source import Positions, Source
from streameval.testing.broker import Broker
from tests.effort import PATIENCE

Test = TypeVar("Test", bound=Callable[..., object])

_client: ContextVar[str] = ContextVar("client", default="kafka-python")


@contextmanager
def read_by(client: str) -> Iterator[None]:
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


def on_each_client(test: Test) -> Test:
    """Run the test with each client that can read."""
    return _parametrized(test, "confluent")


def on_each_client_at_night(test: Test) -> Test:
    """Run the test with kafka-python always, and with the others in tests/nightly."""
    return _parametrized(test, pytest.param("confluent", marks=pytest.mark.nightly))


def _parametrized(test: Test, *others: object) -> Test:
    values = ["kafka-python", *others]
    chosen: Test = pytest.mark.parametrize("client", values, indirect=True)(test)
    marked: Test = pytest.mark.usefixtures("client")(chosen)
    return marked


def admin_of(broker: Broker | str) -> AbstractContextManager[KafkaAdminClient]:
    """An admin client of a broker, or of an address."""
    return closing(KafkaAdminClient(bootstrap_servers=_address(broker)))


def _address(broker: Broker | str) -> str:
    return broker if isinstance(broker, str) else broker.bootstrap_servers


def create(broker: Broker, *, partitions: int = 1, name: str | None = None, **configs: str) -> str:
    """An empty topic, with a name that no other test has."""
    topic = name or f"test-{uuid.uuid4().hex[:12]}"
    settings = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
    with admin_of(broker) as admin:
        admin.create_topics({topic: settings}, wait_for_metadata=True)
    return topic


def fill(
    broker: Broker, topic: str, records: Mapping[int, Sequence[bytes | None]], **settings: Any
) -> None:
    """Append records to each partition in order, and wait until they are written."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5, **settings)
    with closing(producer):
        sent = [
            # A tombstone needs a key.
            producer.send(topic, value, partition=number, key=b"key" if value is None else None)
            for number, values in records.items()
            for value in values
        ]
        for future in sent:
            future.get(timeout=PATIENCE)


def filled(broker: Broker, records: Mapping[int, Sequence[bytes | None]]) -> str:
    """A new topic with these records per partition, offsets from 0 without gaps."""
    topic = create(broker, partitions=max(records, default=0) + 1)
    fill(broker, topic, records)
    return topic


def options(
    broker: Broker | str,
    *topics: str,
    start: str = "earliest",
    group: str = "streameval",
    member: str | None = None,
    **kafka: Any,
) -> KafkaOptions:
    """Options of a source over these topics."""
    settings = {
        "bootstrap_servers": _address(broker),
        "client": _client.get(),
        "heartbeat_interval_ms": 300,
        **kafka,
    }
    return KafkaOptions(
        topics=list(topics),
        start=start,
        group=group,
        member=member,
        kafka=settings,
    )


@contextmanager
def opened(
    options: KafkaOptions,
    positions: Mapping[Partition, int] | None = None,
    schemas: Schemas | None = None,
) -> Iterator[KafkaSource]:
    """An open source, closed at the end."""
    with closing(KafkaSource(options, {}, shared=False, schemas=schemas)) as source:
        source.open(Positions(positions))
        yield source


def drained(source: Source, count: int) -> list[RecordBatch]:
    """Batches until there are `count` records or more.

    Raises:
        TimeoutError: they do not come.
    """
    batches: list[RecordBatch] = []
    deadline = time.monotonic() + PATIENCE
    while sum(len(batch.values) for batch in batches) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} records awaited, have {batches}; {source.status.problem}")
        batches += source.poll(0.2)
    return batches


def by_partition(batches: Sequence[RecordBatch]) -> dict[Partition, list[bytes | None]]:
    """The values of each partition in order."""
    values: dict[Partition, list[bytes | None]] = {}
    for batch in batches:
        values.setdefault(batch.partition, []).extend(batch.values)
    return {partition: values_here for partition, values_here in values.items() if values_here}


def awaited(source: Source, text: str | None) -> None:
    """Poll until `trouble` says `text`, or reading has begun without any; no record may come.

    Raises:
        TimeoutError: it never does.
    """
    deadline = time.monotonic() + PATIENCE
    while not (_says(source.status.problem, text) and (text is not None or source.status.joined)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{text!r} awaited, trouble is {source.status.problem!r}")
        assert not [batch for batch in source.poll(0.1) if batch.values]


def _says(trouble: str | None, text: str | None) -> bool:
    if text is None or trouble is None:
        return trouble is text
    return text in trouble


def shortened(broker: Broker, topic: str, offset: int) -> None:
    """Delete the records of partition 0 before `offset`, as retention does."""
    with admin_of(broker) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


def removed(broker: Broker, topic: str) -> None:
    """Delete the topic, and wait until it is gone."""
    with admin_of(broker) as admin:
        admin.delete_topics([topic])
        while topic in admin.list_topics():
            time.sleep(0.05)


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
