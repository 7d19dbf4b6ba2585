"""What our source reads from a real broker, against a bare loop of the client on the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streameval.sources.source import Source
from streameval.testing.broker import Broker
from tests.kafka.topics import create, opened, options

RECORDS = 300_000
PARTITIONS = 4
VALUE = (
    b'{"user": "u", "recommendations": [], "interactions": [], "padding": "' + b"x" * 229 + b'"}'
)
ROUNDS = 5


def main() -> None:
    """Print records per second of both, and their ratio."""
    with Broker() as broker:
        topic = create(broker, partitions=PARTITIONS)
        _fill(broker, topic)
        seconds: dict[str, list[float]] = {"bare client": [], "KafkaSource": []}
        for _ in range(ROUNDS):
            seconds["bare client"].append(_timed(lambda: _bare(broker, topic)))
            seconds["KafkaSource"].append(_timed(lambda: _source(broker, topic)))
    best = {name: min(each) for name, each in seconds.items()}
    print(f"{RECORDS:,} records of {len(VALUE)} bytes, {PARTITIONS} partitions, best of {ROUNDS}")
    for name, least in best.items():
        rounds = ", ".join(f"{RECORDS / each / 1000:.0f}" for each in seconds[name])
        print(f"{name:>12}: {RECORDS / least:9,.0f} records/s   (k/s per round: {rounds})")
    print(
        f"{'KafkaSource':>12}: {best['bare client'] / best['KafkaSource']:.2f} of the bare client"
    )


def _fill(broker: Broker, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, batch_size=256 * 1024, linger_ms=20
    )
    with closing(producer):
        for number in range(RECORDS):
            producer.send(topic, VALUE, partition=number % PARTITIONS)
        producer.flush()


def _timed(read: Callable[[], int]) -> float:
    """Seconds from nothing to the last record; connecting is part of it for both."""
    start = time.perf_counter()
    count = read()
    seconds = time.perf_counter() - start
    if count != RECORDS:
        raise RuntimeError(f"read {count} of {RECORDS}")
    return seconds


def _bare(broker: Broker, topic: str) -> int:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=10_000,
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        count = 0
        while count < RECORDS:
            count += sum(map(len, consumer.poll(timeout_ms=100).values()))
    return count


def _source(broker: Broker, topic: str) -> int:
    with opened(options(broker, topic)) as source:
        return _counted(source)


def _counted(source: Source) -> int:
    count = 0
    while count < RECORDS:
        count += sum(len(batch.values) for batch in source.poll(0.1))
    return count
