"""Ingest of a real topic with windows, labels and checkpoints, relative to a bare client."""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from kafka import KafkaConsumer, TopicPartition

from streameval.config import Config, WebOptions
from streameval.config.options import StateOptions, WindowsOptions
from streameval.daemon import Daemon
from streameval.decoding.fields import EventFields
from streameval.sources.options import KafkaOptions
from streameval.sources.simulator import ITEMS
from streameval.testing.broker import Broker
from tests.benchmarks.daemon import PARTITIONS, filled

ROUNDS = 3
RECORDS = 2_000_000
"""Enough for more than twenty seconds, so that checkpoints every ten seconds are written."""

RANKS = ["ctr", "hit_rate@10", "ndcg@10"]
CASES = {
    "ranks, never saved": (RANKS, "1h"),
    "ranks, saved every 10 s": (RANKS, "10s"),
    "ranks, saved every second": (RANKS, "1s"),
    "ranks and items, every 10 s": ([*RANKS, "item_coverage@10"], "10s"),
}


def main() -> None:
    """Print records per second, and ratios to the bare client."""
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        source = filled(broker, RECORDS)
        tasks: dict[str, Callable[[], _Cost]] = {"bare client": lambda: _bare(source)}
        for name, (metrics, interval) in CASES.items():
            tasks[name] = _counting(source, Path(folder), metrics, interval)
        rounds = [{name: task() for name, task in tasks.items()} for _ in range(ROUNDS)]
    print(f"{RECORDS:,} records, {PARTITIONS} partitions, 2 labels, 3 windows, {ROUNDS} rounds")
    for name in tasks:
        best = _least(rounds, name)
        print(f"{name:>31}: {1e6 / best.wall:9,.0f} records/s; {best.work:.1f} us of CPU each;")
        print(
            f"{'':>31}  of the bare client by processor time {_ratio(rounds, 'bare client', name)}"
        )
    often, seldom = "ranks, saved every second", "ranks, saved every 10 s"
    print(
        f"CPU with checkpoints every second relative to every 10 s: {_ratio(rounds, often, seldom)}"
    )


class _Cost(NamedTuple):
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

    def cost(self) -> _Cost:
        """The cost so far."""
        if self._first is None:
            raise RuntimeError("no records came")
        count, wall, work = self._first
        each = 1e6 / (RECORDS - count)
        return _Cost((time.perf_counter() - wall) * each, (time.process_time() - work) * each)


def _least(rounds: Sequence[Mapping[str, _Cost]], name: str) -> _Cost:
    return _Cost(*(min(found) for found in zip(*(each[name] for each in rounds), strict=True)))


def _ratio(rounds: Sequence[Mapping[str, _Cost]], one: str, other: str) -> str:
    """CPU of one relative to another per round: median, minimum and maximum."""
    found = [each[one].work / each[other].work for each in rounds]
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def _bare(source: KafkaOptions) -> _Cost:
    consumer = KafkaConsumer(
        **source.kafka,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=10_000,
    )
    with closing(consumer):
        consumer.assign([TopicPartition(source.topics[0], each) for each in range(PARTITIONS)])
        consumer.seek_to_beginning()
        count, meter = 0, _Meter()
        while not meter.observe(count):
            count += sum(map(len, consumer.poll(timeout_ms=100).values()))
        return meter.cost()


def _counting(
    source: KafkaOptions, folder: Path, metrics: list[str], interval: str
) -> Callable[[], _Cost]:
    def count() -> _Cost:
        name = uuid.uuid4().hex
        config = Config(
            metrics=metrics,
            labels=["variant", "country"],
            catalog=ITEMS,
            event=EventFields(time="ts", time_unit="iso8601"),
            source=msgspec.structs.replace(source, group=name),
            windows=WindowsOptions(spans=["5m", "1h", "24h"]),
            state=StateOptions(path=str(folder / name), interval=interval),
            web=WebOptions(listen="127.0.0.1:0"),
        )
        daemon, meter, found = Daemon(config, {}), _Meter(), list[_Cost]()
        tally = daemon._loop._parts.ingest.tally

        def until() -> bool:
            done = meter.observe(tally.consumed)
            if done:
                found.append(meter.cost())
            return done

        daemon.run(until)
        if tally.valid != RECORDS:
            raise RuntimeError(f"counted {tally.valid} of {RECORDS}")
        return found[0]

    return count
