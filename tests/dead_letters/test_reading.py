from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaProducer

from streameval.dead_letters.replay import DeadLetterReader
from streameval.dead_letters.topic import headers_of
from streameval.testing.broker import Broker
from tests.dead_letters.places import destination, letter
from tests.effort import PATIENCE
from tests.kafka.topics import create, fill, options, shortened

pytestmark = pytest.mark.kafka


def _dead(broker: Broker, count: int) -> str:
    """A topic with this many dead letters."""
    topic = create(broker)
    with closing(destination(options(broker, topic))) as letters:
        letters.send([letter(offset, topic=topic) for offset in range(count)])
        letters.flush()
    return topic


def _read(broker: Broker, topic: str) -> DeadLetterReader:
    config = {"bootstrap_servers": broker.bootstrap_servers, "isolation_level": "read_committed"}
    return DeadLetterReader(config, [f"{topic}.dlq"], [topic])


def test_records_that_are_not_letters_are_counted_and_skipped(broker: Broker) -> None:
    topic = _dead(broker, 2)
    fill(broker, f"{topic}.dlq", {0: [b"mine", None]})
    found = _read(broker, topic)
    for _ in range(2):
        assert [each.offset for each in found] == [0, 1]
        assert found.foreign == 2


def test_letters_deleted_by_retention_are_skipped(broker: Broker) -> None:
    topic = _dead(broker, 5)
    shortened(broker, f"{topic}.dlq", 3)
    assert [each.offset for each in _read(broker, topic)] == [3, 4]
    shortened(broker, f"{topic}.dlq", 5)
    found = _read(broker, topic)
    assert found.present
    assert list(found) == []


def test_letters_of_an_aborted_transaction_are_skipped(
    broker: Broker,
) -> None:
    topic = _dead(broker, 1)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-tx"
    )
    with closing(producer):
        producer.init_transactions()
        for finish in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            sent = letter(7, topic=topic)
            future = producer.send(f"{topic}.dlq", sent.value, sent.key, headers_of(sent))
            producer.flush()
            future.get(timeout=PATIENCE)
            finish()
    assert [each.offset for each in _read(broker, topic)] == [0, 7]


def test_letters_added_while_topics_are_read_are_not_read(broker: Broker) -> None:
    topic = _dead(broker, 3)
    found = _read(broker, topic)
    fill(broker, f"{topic}.dlq", {0: [b"later"]})
    assert [each.offset for each in found] == [0, 1, 2]
    assert found.foreign == 0
