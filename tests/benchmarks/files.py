"""`evaluate` of files: the cost of each form, and the speed-up of two processes on parquet.

Two processes count `STREAMEVAL_EVENTS` events (10 million).
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks import traffic
from tests.benchmarks.timing import range_of

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
    """Print the cost of each form, then of one process and of two."""
    _print_forms()
    _print_processes()


def _print_forms() -> None:
    """CPU seconds and memory of each form above those of a file without events; DuckDB's seconds.

    DuckDB finds the same hits of the parquet file in SQL, on one thread.
    """
    with TemporaryDirectory() as folder:
        none = _as_csv(Path(folder) / "none.csv", 3)
        start = min(_measured(none) for _ in range(3))
        forms = [_as_csv(Path(folder) / f"{n}.csv", n) for n in (75_000, 300_000, 900_000)]
        forms += [_as_lines(Path(folder) / "300000.ndjson", 300_000)]
        table = _as_text_parquet(Path(folder) / "300000.parquet", 300_000)
        for path in (*forms, table):
            cost = min(_measured(path) for _ in range(3))
            megabytes = (cost.kilobytes - start.kilobytes) / 1024
            print(f"{path.name}: {cost.cpu - start.cpu:.2f} s of CPU, +{megabytes:.0f} MB")
        if importlib.util.find_spec("duckdb") is not None:
            print(f"{table.name} in SQL of DuckDB: {min(_in_sql(table) for _ in range(3)):.2f} s")


class Cost(NamedTuple):
    """CPU seconds of a process, and the most memory that it had."""

    cpu: float
    kilobytes: int


def _measured(path: Path) -> Cost:
    arguments = [part for metric in METRICS for part in ("-m", metric)]
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "evaluate", path, *arguments],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.split()
    return Cost(float(told[-2]), int(told[-1]))


_PROGRAM: Final = """
import time
from streameval.cli import run_command
try:
    run_command()
finally:
    # Of this program alone: what getrusage tells begins with the memory of the parent.
    status = open("/proc/self/status").read()
    print(time.process_time(), status.partition("VmHWM:")[2].split()[0])
"""
"""The command, then its CPU seconds and its most memory."""


def _lists(events: int) -> Iterator[tuple[list[str], list[str]]]:
    """Ten items of 50,000, and two interactions, of which one is shown in a third of the lists."""
    draw = np.random.default_rng(1)
    shown, interactions = (
        draw.integers(50_000, size=(events, 10)),
        draw.integers(50_000, size=(events, 2)),
    )
    interactions[::3, 0] = shown[::3, 4]
    yield from zip(shown.astype(str).tolist(), interactions.astype(str).tolist(), strict=True)


def _as_csv(path: Path, events: int) -> Path:
    rows = (
        f"{'|'.join(recommended)},{'|'.join(interactions)}\n"
        for recommended, interactions in _lists(events)
    )
    with path.open("w") as file:
        file.write("recommendations,interactions\n")
        file.writelines(rows)
    return path


def _as_lines(path: Path, events: int) -> Path:
    with path.open("w") as file:
        for recommended, interactions in _lists(events):
            file.write(
                json.dumps({"recommendations": recommended, "interactions": interactions}) + "\n"
            )
    return path


def _as_text_parquet(path: Path, events: int) -> Path:
    shown, interactions = zip(*_lists(events), strict=True)
    pq.write_table(pa.table({"recommendations": shown, "interactions": interactions}), path)
    return path


def _in_sql(path: Path) -> float:
    """CPU seconds of a program in which DuckDB finds the rank of each hit."""
    query = (
        "SELECT place, count(*) FROM (SELECT unnest(recommendations) AS item, "
        "generate_subscripts(recommendations, 1) AS place, interactions "
        f"FROM read_parquet('{path}')) WHERE list_contains(interactions, item) GROUP BY place"
    )
    program = f"import duckdb; duckdb.execute('SET threads = 1'); duckdb.sql({query!r}).fetchall()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


def _print_processes() -> None:
    """The seconds of one process and of two, alternating, and their ratio."""
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
    print(f"two are {range_of(walls)} times as fast as one by elapsed time,")
    print(f"{range_of(free)} times by CPU time, as on two idle cores")


def _run(path: Path, processes: int) -> Run:
    arguments = [part for metric in METRICS for part in ("-m", metric)]
    arguments += ["--processes", str(processes)]
    before, begin = _cpu(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "streameval", "evaluate", path, *arguments],
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
            interactions, offsets = made.interactions
            edges = (np.arange(rows + 1) * _K).astype(np.int32)
            columns = [
                pa.ListArray.from_arrays(edges, made.recommendations.ravel()),
                pa.ListArray.from_arrays(offsets.astype(np.int32), interactions),
            ]
            writer.write_table(pa.table(columns, schema=schema))
