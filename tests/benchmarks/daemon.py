"""Throughput of the daemon on a real broker, relative to a bare client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

from streameval import Intervals
from streameval.config import Config, WebOptions
from streameval.daemon import Daemon
from streameval.sources.kafka.publishing import Destination, publish_records
from streameval.sources.options import KafkaOptions, SimulatorOptions
from streameval.sources.simulator import ITEMS, records
from streameval.testing.broker import Broker

RECORDS = 300_000
PARTITIONS = 4
ROUNDS = 5
METRICS = {
    "ranks": ["ctr", "hit_rate@10", "ndcg@10"],
    "ranks and items": ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"],
}


def main() -> None:
    """Print records per second, and ratios to the bare client."""
    with Broker() as broker:
        source = filled(broker)
        tasks: dict[str, Callable[[], int]] = {"bare client": lambda: bare(source)}
        tasks |= {name: counting(source, metrics) for name, metrics in METRICS.items()}
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
        for _ in range(ROUNDS):
            for name, task in tasks.items():
                seconds[name].append(timed(task))
    wall = {name: min(each)[0] for name, each in seconds.items()}
    work = {name: min(cpu for _, cpu in each) for name, each in seconds.items()}
    print(f"{RECORDS:,} simulated records, {PARTITIONS} partitions, best of {ROUNDS} rounds")
    for name, least in wall.items():
        ratio, by_work = wall["bare client"] / least, work["bare client"] / work[name]
        print(f"{name:>16}: {RECORDS / least:9,.0f} records/s; of the bare client {ratio:.2f},")
        print(f"{'':>16}  by CPU time {by_work:.2f}, which other processes affect less")


def filled(broker: Broker, events: int = RECORDS) -> KafkaOptions:
    """A topic of simulated records."""
    kafka = {"bootstrap_servers": broker.bootstrap_servers}
    topic = f"benchmark-{uuid.uuid4().hex[:12]}"
    traffic = records(SimulatorOptions(events=events))
    publish_records(traffic, Destination(topic=topic, kafka=kafka, partitions=PARTITIONS), {})
    return KafkaOptions(topics=[topic], kafka=kafka)


def timed(task: Callable[[], int]) -> tuple[float, float]:
    """Elapsed and CPU seconds of a task, which includes connecting."""
    start, work = time.perf_counter(), time.process_time()
    count = task()
    seconds = time.perf_counter() - start, time.process_time() - work
    if count != RECORDS:
        raise RuntimeError(f"read {count} of {RECORDS}")
    return seconds


def bare(source: KafkaOptions) -> int:
    """Read a whole topic with kafka-python alone; the number of records."""
    consumer = KafkaConsumer(
        **source.kafka,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=10_000,
    )
    with closing(consumer):
        consumer.assign([TopicPartition(source.topics[0], each) for each in range(PARTITIONS)])
        consumer.seek_to_beginning()
        count = 0
        while count < RECORDS:
            count += sum(map(len, consumer.poll(timeout_ms=100).values()))
    return count


def counting(
    source: KafkaOptions, metrics: list[str], intervals: Intervals | None = None
) -> Callable[[], int]:
    """A task that counts a whole topic with a daemon."""
    config = Config(
        metrics=metrics,
        labels=["variant"],
        catalog=ITEMS,
        source=source,
        web=WebOptions(listen="127.0.0.1:0"),
        intervals=intervals,
    )

    def count() -> int:
        daemon = Daemon(config, {})
        tally = daemon._loop._parts.ingest.tally
        daemon.run(until=lambda: tally.consumed >= RECORDS)
        return tally.consumed

    return count
