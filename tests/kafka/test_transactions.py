from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaProducer

from streameval.events.records import Partition
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.topics import by_partition, create, drained, fill, on_each_client, opened, options

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker: Broker) -> str:
    return create(broker)


@pytest.fixture
def producer(broker: Broker, topic: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"id-{topic}"
    )
    with closing(producer):
        producer.init_transactions()
        yield producer


def _send(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    for value in values:
        producer.send(topic, value).get(timeout=PATIENCE)


@on_each_client
def test_an_open_transaction_holds_back_records_and_end(
    broker: Broker, topic: str, producer: KafkaProducer
) -> None:
    fill(broker, topic, {0: [b"a"]})
    producer.begin_transaction()
    _send(producer, topic, [b"b"])
    fill(broker, topic, {0: [b"c"]})
    with opened(options(broker, topic)) as source:
        batches = drained(source, 1)
        assert source.end_offsets() == {Partition(topic, 0): 1}
        producer.commit_transaction()
        batches += drained(source, 2)
    assert by_partition(batches) == {Partition(topic, 0): [b"a", b"b", b"c"]}


@on_each_client
def test_the_position_moves_over_a_gap_at_the_end(
    broker: Broker, topic: str, producer: KafkaProducer
) -> None:
    fill(broker, topic, {0: [b"a"]})
    producer.begin_transaction()
    _send(producer, topic, [b"x"] * 5)
    producer.abort_transaction()
    with opened(options(broker, topic)) as source:
        batches = drained(source, 1)
        # One record, five aborted ones, and the marker of the abort.
        while batches[-1].next_offset < 7:
            batches += source.poll(0.2)
        assert by_partition(batches) == {Partition(topic, 0): [b"a"]}
        # Ends may be a second old; the run's own time limit guards this.
        while source.end_offsets() != {Partition(topic, 0): 7}:
            source.poll(0.1)
