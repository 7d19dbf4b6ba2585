"""Speed-up of `evaluate --processes 2` on parquet with `STREAMEVAL_EVENTS` events (10 million)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks import traffic

EVENTS = int(os.environ.get("STREAMEVAL_EVENTS", "10_000_000"))
ROUNDS = 7
METRICS = ("ndcg@10", "recall@10", "map@10", "mrr@10", "hit_rate@10")
_K = 20
_GROUP = 250_000


class Run(NamedTuple):
    """Elapsed seconds of a run, and CPU seconds of all its processes."""

    wall: float
    cpu: float


def main() -> None:
    """Print the seconds of one process and of two, alternating, and their ratio."""
    with TemporaryDirectory() as folder:
        path, none = Path(folder) / "events.parquet", Path(folder) / "none.parquet"
        _write(path, EVENTS)
        _write(none, 0)
        start = min(_run(none, 1).cpu for _ in range(ROUNDS))
        rounds = [(_run(path, 1), _run(path, 2)) for _ in range(ROUNDS)]
    for processes, runs in enumerate(zip(*rounds, strict=True), 1):
        wall, cpu = min(run.wall for run in runs), min(run.cpu for run in runs)
        print(f"--processes {processes}: {wall:.1f} s, {cpu:.1f} s of CPU at least")
    walls = sorted(first.wall / two.wall for first, two in rounds)
    free = sorted(first.cpu / (start + (two.cpu - start) / 2) for first, two in rounds)
    print(f"{EVENTS:,} events, {len(METRICS)} metrics; load {os.getloadavg()[0]:.1f}")
    print(f"two are {_text(walls)} times as fast as one by elapsed time,")
    print(f"{_text(free)} times by CPU time, as on two idle cores")


def _text(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def _run(path: Path, processes: int) -> Run:
    asked = [part for metric in METRICS for part in ("-m", metric)]
    asked += ["--processes", str(processes)]
    before, begin = _cpu(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "streameval", "evaluate", path, *asked],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=path.stem != "none",
    )
    return Run(time.perf_counter() - begin, _cpu() - before)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(path: Path, events: int) -> None:
    """Lists of 20 items with up to 3 interactions, about a third of them hits."""
    schema = pa.schema({name: pa.list_(pa.int64()) for name in ("recommendations", "interactions")})
    with pq.ParquetWriter(path, schema) as writer:
        for begin in range(0, events, _GROUP):
            rows = min(_GROUP, events - begin)
            made = traffic.columns(rows, _K, least=0, most=3, seed=begin)
            acts, offsets = made.interactions
            edges = (np.arange(rows + 1) * _K).astype(np.int32)
            columns = [
                pa.ListArray.from_arrays(edges, made.recommendations.ravel()),
                pa.ListArray.from_arrays(offsets.astype(np.int32), acts),
            ]
            writer.write_table(pa.table(columns, schema=schema))
