"""Many slices and partitions: events relative to one slice and partition, and a day of panes.

All times are CPU times.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
import psutil

from streameval.config import Config
from streameval.config.pipeline import new_ingest
from streameval.config.tables import WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.events.records import Partition
from streameval.sources.settings import SimulatorOptions
from tests.batches import batch_of
from tests.benchmarks.timing import best_of

_DAYS = ((4, 4), (50, 4), (200, 8))
"""Slices and partitions of the day of panes."""

_SHAPES = ((1, 1), (50, 1), (50, 4), (50, 64))
"""Slices and partitions of counted events."""

_EVENTS, _AT_ONCE = 20_480, 4_096
"""Events that are counted, and how many of them all partitions of a poll hold."""

_START = 1_700_000_000
_ITEMS = [f"item-{number}" for number in range(5_000)]

Parts: TypeAlias = Mapping[Partition, tuple[int, Mapping[str, bytes]]]
"""Partition -> next offset and sections of its state."""


def main() -> None:
    """Print the cost of events, a restart, a new minute and a second."""
    tasks = {shape: _counting(*shape) for shape in _SHAPES}
    best = best_of(tasks)
    for (slices, partitions), seconds in best.items():
        ratio = seconds / best[_SHAPES[0]]
        print(f"{slices} x {partitions}: {seconds / _EVENTS * 1e6:.2f} us an event ({ratio:.2f})")
    print("a day of panes: restore and first reading; then one more event in each slice:")
    for slices, partitions in _DAYS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "day"
            path.write_bytes(pickle.dumps(_day(slices, partitions)))
            program = f"from tests.benchmarks import cells; cells.restart({str(path)!r}, {slices})"
            subprocess.run([sys.executable, "-c", program], check=True)


def _counting(slices: int, partitions: int) -> Callable[[], None]:
    """Decode, count and copy batches of records as delivered by polls."""
    draw = random.Random(1)
    values = [_listing(draw, number % slices, number // 200) for number in range(_EVENTS)]
    polls = [
        [
            batch_of(
                Partition("events", number),
                # Copies, because the values of a fetch lie side by side in memory.
                [
                    bytes(bytearray(value))
                    for value in values[start + number : start + _AT_ONCE : partitions]
                ],
                start,
            )
            for number in range(partitions)
        ]
        for start in range(0, _EVENTS, _AT_ONCE)
    ]

    def count() -> None:
        ingest = new_ingest(_config())
        for batches in polls:
            ingest.apply(*batches)
        ingest.copied()

    return count


def _listing(draw: random.Random, slice_number: int, seconds: int) -> bytes:
    """A list of 20 with 1 to 9 interactions."""
    items = draw.sample(_ITEMS, 20)
    interactions = draw.sample(items, draw.randint(0, 3)) + draw.sample(_ITEMS, draw.randint(1, 6))
    record = {"variant": f"v{slice_number}", "ts": _START + seconds, "recommendations": items}
    return msgspec.json.encode({**record, "interactions": interactions})


def restart(path: str, slices: int) -> None:
    """Print the cost of a process that restores the state of a day."""
    parts: Parts = pickle.loads(Path(path).read_bytes())
    size = sum(len(data) for _, contents in parts.values() for data in contents.values())
    before = psutil.Process().memory_info().rss
    ingest = new_ingest(_config())
    started = time.process_time()
    for partition, (offset, sections_) in parts.items():
        ingest.restore(partition, {partition: offset}, sections_)
    restored = time.process_time() - started
    snapshots = SnapshotCapture(ingest.layout, source="", labels=["variant"], started_at=0.0)
    around = RuntimeStatus()
    first = _timed(lambda: snapshots.take(ingest.copied(), 0.0, around))
    memory = (psutil.Process().memory_info().rss - before) / 1e6
    durations = []
    for seconds in (1, 61):
        for partition, (offset, _) in parts.items():
            values = [_record(number, _START + seconds) for number in range(slices)]
            ingest.apply(batch_of(partition, values, offset + (seconds > 1) * slices))
        copied = _timed(ingest.copied)
        durations += [copied, _timed(lambda: snapshots.take(ingest.copied(), 1.0, around))]
    second, live, minute, moved = (1e3 * duration for duration in durations)
    print(
        f"{slices:6} slices x {len(parts)} partitions: {restored:.2f} s + {first:.2f} s, "
        f"{memory:.0f} MB, {size / 1e6:.1f} MB saved, {memory * 1e3 / slices / len(parts):.1f} kB "
        f"per slice and partition\n{'':8}in the loop {second:.1f} ms, new minute {minute:.1f}; "
        f"outside it {live:.0f} ms, new minute {moved:.0f}"
    )


def _config() -> Config:
    return Config(
        metrics=["ndcg@10", "hit_rate@10", "mrr"],
        labels=["variant"],
        label_cap=10_000,
        max_series=10_000,
        event=EventFields(time="ts", time_unit="s"),
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["5m", "1h", "24h"]),
    )


def _day(slices: int, partitions: int) -> Parts:
    """A state with an event of every slice in every pane."""
    hours = [_START - hour * 3_600 for hour in range(23, 2, -1)]
    minutes = [_START - minute * 60 for minute in range(122, -1, -1)]
    ingest = new_ingest(_config())
    for number in range(partitions):
        partition = Partition("events", number)
        for pane, when in enumerate((*hours, *minutes)):
            values = [_record(index, when) for index in range(slices)]
            ingest.apply(batch_of(partition, values, pane * slices))
    return {
        name: (
            ingest.positions[name],
            {section.name: b"".join(section.content()()) for section in ingest.sections(name)},
        )
        for name in ingest.partitions
    }


def _record(number: int, when: int) -> bytes:
    items = _ITEMS[number % 97 : number % 97 + 10]
    interactions = items[number % 10 : number % 10 + 1] if number % 5 == 0 else []
    record = {"variant": f"v{number}", "ts": when, "recommendations": items}
    return msgspec.json.encode({**record, "interactions": interactions})


def _timed(task: Callable[[], object]) -> float:
    started = time.process_time()
    task()
    return time.process_time() - started
