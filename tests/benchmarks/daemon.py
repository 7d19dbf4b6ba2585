"""CPU of the daemon per record of a real topic, relative to the bare client that it reads with."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import confluent_kafka
import kafka
import msgspec

from streameval import Intervals
from streameval.config import Config, WebOptions
from streameval.config.tables import StateOptions, WindowsOptions
from streameval.daemon import Daemon
from streameval.decoding.fields import EventFields
from streameval.sources.settings import KafkaOptions, SimulatorOptions
from streameval.sources.simulator import CATALOG_SIZE, records
from streameval.sources.topics import Destination, publish_records
from streameval.testing.broker import Broker
from tests.benchmarks.timing import range_of
from tests.kafka.topics import opened

RECORDS = int(os.environ.get("STREAMEVAL_EVENTS", "2_000_000"))
"""By default enough for more than twenty seconds, so that checkpoints every ten seconds are
written."""

PARTITIONS = 4
ROUNDS = 3
Client: TypeAlias = Literal["kafka-python", "confluent"]
BARE: Mapping[Client, str] = {
    "kafka-python": "bare kafka-python",
    "confluent": "bare confluent-kafka",
}
RANKS = ["ctr", "hit_rate@10", "ndcg@10"]


class Case(NamedTuple):
    """A daemon. interval: between checkpoints; intervals: of the metrics."""

    metrics: Sequence[str] = RANKS
    interval: str = "10s"
    client: Client = "kafka-python"
    intervals: Intervals | None = None


CASES = {
    "ranks, never saved": Case(interval="1h"),
    "ranks, saved every 10 s": Case(),
    "ranks, saved every second": Case(interval="1s"),
    "ranks and items, every 10 s": Case([*RANKS, "item_coverage@10"]),
    "ranks by confluent": Case(client="confluent"),
    "ranks with intervals": Case(intervals=Intervals()),
}
RATIOS = (
    (BARE["confluent"], BARE["kafka-python"]),
    ("the source alone", BARE["kafka-python"]),
    *((name, BARE[case.client]) for name, case in CASES.items()),
    ("ranks by confluent", "ranks, saved every 10 s"),
    ("ranks with intervals", "ranks, saved every 10 s"),
    ("ranks, saved every second", "ranks, saved every 10 s"),
)


def main() -> None:
    """Print the CPU of each task, and ratios within the rounds."""
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        source = _filled(broker)
        tasks: dict[str, Callable[[], Cost]] = {
            BARE["kafka-python"]: partial(_bare, source),
            BARE["confluent"]: partial(_bare_confluent, source),
            "the source alone": partial(_read, source),
            **{name: partial(_counted, source, Path(folder), case) for name, case in CASES.items()},
        }
        rounds = [{name: task() for name, task in tasks.items()} for _ in range(ROUNDS)]
    print(f"{RECORDS:,} records, {PARTITIONS} partitions, 2 labels, 3 windows, {ROUNDS} rounds")
    for name in tasks:
        wall, work = map(min, zip(*(cost[name] for cost in rounds), strict=True))
        print(f"{name:>27}: {1e6 / wall:9,.0f} records/s; {work:.1f} us of CPU each")
    for numerator, other in RATIOS:
        print(f"CPU of {numerator} relative to {other}: {_ratio(rounds, numerator, other)}")


class Cost(NamedTuple):
    """Microseconds per record, from the first batch to the last record."""

    wall: float
    work: float


class _Meter:
    """Measures from the first batch on, to exclude joining the group."""

    def __init__(self) -> None:
        self._first: tuple[int, float, float] | None = None

    def observe(self, count: int) -> bool:
        """Report the number of records so far; returns whether it is all."""
        if self._first is None and count:
            self._first = count, time.perf_counter(), time.process_time()
        return count >= RECORDS

    def cost(self) -> Cost:
        if self._first is None:
            raise RuntimeError("no records came")
        count, wall, work = self._first
        micros = 1e6 / (RECORDS - count)
        return Cost((time.perf_counter() - wall) * micros, (time.process_time() - work) * micros)


def _ratio(rounds: Sequence[Mapping[str, Cost]], numerator: str, other: str) -> str:
    """CPU of one relative to another per round: median, minimum and maximum."""
    return range_of([cost[numerator].work / cost[other].work for cost in rounds])


def _filled(broker: Broker) -> KafkaOptions:
    address = {"bootstrap_servers": broker.bootstrap_servers}
    topic = f"benchmark-{uuid.uuid4().hex[:12]}"
    destination = Destination(topic=topic, kafka=address, partitions=PARTITIONS)
    publish_records(records(SimulatorOptions(events=RECORDS)), destination, {})
    return KafkaOptions(topics=[topic], kafka=address)


def _metered(polled: Callable[[], int]) -> Cost:
    count, meter = 0, _Meter()
    while not meter.observe(count):
        count += polled()
    return meter.cost()


def _bare(source: KafkaOptions) -> Cost:
    consumer = kafka.KafkaConsumer(
        **source.kafka,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=10_000,
    )
    with closing(consumer):
        topic = source.topics[0]
        consumer.assign([kafka.TopicPartition(topic, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        return _metered(lambda: sum(map(len, consumer.poll(timeout_ms=100).values())))


def _bare_confluent(source: KafkaOptions) -> Cost:
    settings = {
        "bootstrap.servers": source.kafka["bootstrap_servers"],
        "group.id": "bare",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "check.crcs": True,
    }
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        topic = source.topics[0]
        places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        consumer.assign(places)
        return _metered(lambda: len(consumer.consume(10_000, 0.1)))


def _read(source: KafkaOptions) -> Cost:
    with opened(source) as reading:
        return _metered(lambda: sum(len(batch.values) for batch in reading.poll(0.1)))


def _counted(source: KafkaOptions, folder: Path, case: Case) -> Cost:
    """The cost of a daemon that counts the topic, in a group of its own."""
    name = uuid.uuid4().hex
    client = {**source.kafka, "client": case.client}
    config = Config(
        metrics=[*case.metrics],
        labels=["variant", "country"],
        catalog=CATALOG_SIZE,
        event=EventFields(time="ts", time_unit="iso8601"),
        source=msgspec.structs.replace(source, group=name, kafka=client),
        windows=WindowsOptions(spans=["5m", "1h", "24h"]),
        state=StateOptions(path=str(folder / name), interval=case.interval),
        web=WebOptions(listen="127.0.0.1:0"),
        intervals=case.intervals,
    )
    daemon, meter = Daemon(config, {}), _Meter()
    costs: list[Cost] = []

    def until() -> bool:
        snapshot = daemon.current()
        done = snapshot is not None and meter.observe(snapshot.health.consumed)
        if done:
            costs.append(meter.cost())
        return done

    daemon.run(until)
    last = daemon.current()
    if last is None or last.health.valid != RECORDS:
        raise RuntimeError(f"counted {last and last.health.valid} of {RECORDS}")
    return costs[0]
