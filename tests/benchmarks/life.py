"""Memory of a process that counts for 40 days, with windows of a week, beside one that restores."""

from __future__ import annotations

import gc
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil

from streameval.config.config import Config
from streameval.config.pipeline import new_ingest
from streameval.config.tables import WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition, RecordBatch
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.intervals import Intervals
from tests.batches import batch_of

DAYS = 40
RECORDS = 120_390
START = 1_767_225_600
PARTITIONS = [Partition("events", number) for number in range(2)]
AT_ONCE = 1_000
"""Records that one poll gives, eight hours of event time."""

CASES = {
    "three rank metrics": (["ctr", "ndcg@10", "mrr"], None),
    "with coverage and intervals": (["ctr", "ndcg@10", "item_coverage@10"], Intervals()),
}


def main() -> None:
    """Print memory above an empty process by day, and after a restart."""
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "state")
            for step in ("live", "restart"):
                program = f"from tests.benchmarks import life; life.{step}({name!r}, {path!r})"
                subprocess.run([sys.executable, "-c", program], check=True)


def live(name: str, path: str) -> None:
    """Count 40 days, copy each poll for readers, read each day, and write the state."""
    ingest, snapshots = _process(name)
    before, curve, day = _memory(), [], 0
    for batches in polls():
        ingest.apply(*batches)
        counted = sum(ingest.positions.values())
        if counted * DAYS // RECORDS > day:
            day = counted * DAYS // RECORDS
            snapshots.take(ingest.copied(), 0.0, RuntimeStatus())
            curve.append((_memory() - before) / 1e6)
        else:
            ingest.copied()
    sections = {
        partition: {x.name: b"".join(x.content()()) for x in ingest.sections(partition)}
        for partition in ingest.partitions
    }
    state = ingest.positions, sections
    Path(path).write_bytes(pickle.dumps(state))
    marks = " ".join(f"{megabytes:.0f}" for megabytes in curve[4::5])
    print(f"{name}: MB after 5, 10, ... {len(curve)} days: {marks}")


def restart(name: str, path: str) -> None:
    """Print the memory of a process that restores the state."""
    ingest, snapshots = _process(name)
    before = _memory()
    positions, sections = pickle.loads(Path(path).read_bytes())
    for partition, parts in sections.items():
        ingest.restore(partition, {partition: positions[partition]}, parts)
    del sections, parts
    snapshots.take(ingest.copied(), 0.0, RuntimeStatus())
    print(f"{name}: MB restored: {(_memory() - before) / 1e6:.0f}")


def _process(name: str) -> tuple[Ingest, SnapshotCapture]:
    metrics, intervals = CASES[name]
    config = Config(
        metrics=metrics,
        labels=["variant", "country"],
        catalog=2_000,
        intervals=intervals,
        event=EventFields(time="ts", time_unit="s"),
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["1h", "24h", "7d"]),
    )
    ingest = new_ingest(config)
    labels = config.series_labels()
    return ingest, SnapshotCapture(ingest.layout, source="", labels=labels, started_at=0.0)


def polls() -> Iterator[list[RecordBatch]]:
    """Batches of both partitions, in the order of event time."""
    draw, offsets = random.Random(4), dict.fromkeys(PARTITIONS, 0)
    for start in range(0, RECORDS, AT_ONCE):
        values: Mapping[Partition, list[bytes]] = {partition: [] for partition in PARTITIONS}
        for number in range(start, min(start + AT_ONCE, RECORDS)):
            values[PARTITIONS[number % 2]].append(_record(draw, number))
        batches = []
        for partition, of_partition in values.items():
            batches.append(batch_of(partition, of_partition, offsets[partition]))
            offsets[partition] += len(of_partition)
        yield batches


def _record(draw: random.Random, number: int) -> bytes:
    user, items = draw.randrange(20_000), [f"i{draw.randrange(2_000)}" for _ in range(10)]
    return msgspec.json.encode(
        {
            "user": f"u{user}",
            "recommendations": items,
            "interactions": draw.sample(items, 1) if draw.random() < 0.2 else [],
            "variant": "ab"[user % 2],
            "country": ["de", "es", "fr", "nl"][user // 2 % 4],
            "ts": START + DAYS * 86_400 * number // RECORDS,
        }
    )


def _memory() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)
