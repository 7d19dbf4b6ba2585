"""Throughput of the Kafka source on a real broker, relative to a bare client."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from kafka import KafkaProducer

from streameval.sources.options import KafkaOptions
from streameval.testing.broker import Broker
from tests.benchmarks.daemon import PARTITIONS, RECORDS, ROUNDS, bare, timed
from tests.kafka.topics import create, opened

VALUE = (
    b'{"user": "u", "recommendations": [], "interactions": [], "padding": "' + b"x" * 229 + b'"}'
)


def main() -> None:
    """Print records per second of both, and their ratio."""
    with Broker() as broker:
        source = _filled(broker)
        tasks = {"bare client": partial(bare, source), "KafkaSource": partial(_read, source)}
        seconds: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(ROUNDS):
            for name, task in tasks.items():
                seconds[name].append(timed(task)[0])
    best = {name: min(each) for name, each in seconds.items()}
    print(f"{RECORDS:,} records of {len(VALUE)} bytes, {PARTITIONS} partitions, best of {ROUNDS}")
    for name, least in best.items():
        rounds = ", ".join(f"{RECORDS / each / 1000:.0f}" for each in seconds[name])
        print(f"{name:>12}: {RECORDS / least:9,.0f} records/s   (k/s per round: {rounds})")
    print(
        f"{'KafkaSource':>12}: {best['bare client'] / best['KafkaSource']:.2f} of the bare client"
    )


def _filled(broker: Broker) -> KafkaOptions:
    topic = create(broker, partitions=PARTITIONS)
    with closing(
        KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, batch_size=256 * 1024, linger_ms=20
        )
    ) as producer:
        for number in range(RECORDS):
            producer.send(topic, VALUE, partition=number % PARTITIONS)
        producer.flush()
    return KafkaOptions(topics=[topic], kafka={"bootstrap_servers": broker.bootstrap_servers})


def _read(source: KafkaOptions) -> int:
    count = 0
    with opened(source) as reading:
        while count < RECORDS:
            count += sum(len(batch.values) for batch in reading.poll(0.1))
    return count
