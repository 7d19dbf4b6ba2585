"""Pauses of counting while large states are copied, encoded, written and restored."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np

from streameval.checkpoints.checkpointer import Checkpointer
from streameval.checkpoints.scheduler import Clock
from streameval.checkpoints.settings import CheckpointSettings
from streameval.checkpoints.store import SavedCheckpoint, Store, folder_store
from streameval.config import Config
from streameval.config.options import WindowsOptions
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.evidence import EvidenceReader
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition, RecordBatch
from streameval.sources.options import SimulatorOptions
from streameval.sources.simulator import EPOCH
from tests.benchmarks import iterations

PARTITIONS = tuple(Partition("events", number) for number in range(4))
CELLS = 100_000
BATCH = 250
"""Records per batch; counting one takes a millisecond or two."""

METRICS = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@20"]
SECONDS = 30.0
INTERVAL = 5.0


class _Run(msgspec.Struct):
    """Parts of a daemon without a source."""

    ingest: Ingest
    checkpointer: Checkpointer
    worker: Executor


def main() -> None:
    """Print the longest iterations with and without checkpoints, and the cost of a restore."""
    with tempfile.TemporaryDirectory() as folder:
        for name, interval in (("without checkpoints", 1e9), ("checkpoints", INTERVAL)):
            run = _made(folder_store(Path(folder) / name), interval)
            run.checkpointer.assigned([iterations.assignment(each) for each in PARTITIONS])
            batches = _batches()
            while min(map(run.ingest.positions.__getitem__, PARTITIONS)) * 20 < CELLS * 2:
                run.checkpointer.apply(next(batches))
            _print(name, list(_iterations(run, batches)))
            run.checkpointer.finish()
            run.worker.shutdown()
        _print_restore(folder_store(Path(folder) / "checkpoints"))
    iterations.windows()
    print("with item_coverage@20, 5,000 items:")
    iterations.windows("item_coverage@20")
    iterations.join()


def _iterations(run: _Run, batches: Iterator[RecordBatch]) -> Iterator[tuple[float, float, float]]:
    """Seconds of each iteration: elapsed, CPU, and CPU of the checkpointer."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        batch = next(batches)
        wall, work = time.perf_counter(), time.thread_time()
        run.checkpointer.apply(batch)
        kept = time.thread_time()
        run.checkpointer.advance()
        kept = time.thread_time() - kept
        yield time.perf_counter() - wall, time.thread_time() - work, kept


def _print(name: str, found: Sequence[tuple[float, ...]]) -> None:
    wall, work, kept = (np.array(column) * 1e3 for column in zip(*found, strict=True))
    usual = float(np.median(wall))
    print(
        f"{name}: {len(found):,} iterations of {usual:.1f} ms; longest {wall.max():.0f} ms,",
        end=" ",
    )
    print(f"the 99.9th percentile {np.quantile(wall, 0.999):.0f} ms;", end=" ")
    print(f"CPU {work.max():.0f} ms, of the checkpointer {kept.max():.1f} ms")


def _print_restore(store: Store) -> None:
    run = _made(store, 1e9)
    sizes = [sum(len(saved.read(part)) for part in saved.digests) for saved in _saved(store)]
    wall, work = time.perf_counter(), time.process_time()
    run.checkpointer.assigned([iterations.assignment(each) for each in PARTITIONS])
    wall, work = time.perf_counter() - wall, time.process_time() - work
    print(
        f"restored {sum(sizes) / 1e6:.0f} MB of {len(sizes)} partitions in {wall:.2f} s;", end=" "
    )
    print(f"{work:.2f} s of CPU")
    run.worker.shutdown()


def _saved(store: Store) -> Iterator[SavedCheckpoint]:
    for place in sorted(store.places()):
        saved = store.newest(place).saved
        if saved is not None:
            yield saved


def _made(store: Store, interval: float) -> _Run:
    config = Config(
        metrics=METRICS,
        labels=["variant", "country"],
        catalog=10 * CELLS,
        event=EventFields(time="ts", time_unit="iso8601"),
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["5m", "1h", "24h"]),
    )
    ingest, worker = new_ingest(config), ThreadPoolExecutor(max_workers=1)
    checkpointer = Checkpointer(
        ingest,
        store,
        CheckpointSettings(
            release="0",
            cluster=lambda: "benchmark",
            group="benchmark",
            fingerprint=config.settings(),
            interval=interval,
        ),
        commit=lambda *_, **__: None,
        evidence=EvidenceReader(ingest),
        letters=None,
        clock=Clock(),
        worker=worker,
    )
    return _Run(ingest, checkpointer, worker)


def _batches() -> Iterator[RecordBatch]:
    """Batches of the partitions in turn: lists of 20 items of a large catalogue, in one minute."""
    pool = [_record(number) for number in range(40_000)]
    start = 0
    while True:
        for number, partition in enumerate(PARTITIONS):
            first = (start * len(PARTITIONS) + number * BATCH) % len(pool)
            yield RecordBatch(
                partition=partition,
                values=pool[first : first + BATCH],
                offsets=range(start, start + BATCH),
                next_offset=start + BATCH,
            )
        start += BATCH


def _record(number: int) -> bytes:
    draw = np.random.default_rng(number)
    items = [f"item-{int(each)}" for each in CELLS * draw.random(20) ** 2]
    return msgspec.json.encode(
        {
            "user": f"user-{number}",
            "variant": "ab"[number % 2],
            "country": ("DE", "FR")[number // 2 % 2],
            "ts": EPOCH + timedelta(milliseconds=number),
            "recommendations": items,
            "interactions": items[:1] if number % 10 == 0 else [],
        }
    )
