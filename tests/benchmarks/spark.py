"""Spark relative to one process on the same parquet, without Spark's transfer of events."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyarrow import parquet

from streameval.evaluation.partials import merged, partials
from streameval.evaluation.spark import evaluate

EVENTS = 200_000
FILES = 4
SLICES = 12
METRICS = ("hit_rate@10", "precision@10", "recall@10", "mrr@10", "ndcg@10")
BY = ["variant"]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def main() -> None:
    """Print microseconds of CPU per event, and the ratio."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        sql: Any = import_module("pyspark.sql")
        builder = sql.SparkSession.builder.master("local[2]").appName("streameval")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        frame = session.read.parquet(folder)
        tasks: dict[str, Callable[[], object]] = {
            "one process": lambda: merged(_alone(folder)),
            "Spark, events carried and not counted": lambda: _carried(frame),
            "Spark": lambda: evaluate(frame, *METRICS, by=BY).accumulators(),
        }
        least = _least(tasks)
        session.stop()
    for name, seconds in least.items():
        print(f"{name:>38}: {seconds / EVENTS * 1e6:.2f} us of CPU per event")
    alone, carried, spark = least.values()
    print(f"{'without the transfer':>38}: {(spark - carried) / alone:.2f} times one process")


def _least(tasks: dict[str, Callable[[], object]], rounds: int = 4) -> dict[str, float]:
    """Minimum CPU time of each task, with child processes; the first round warms up."""
    runs: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            before = _work()
            task()
            # Let Spark's processes finish their cleanup.
            time.sleep(2)
            runs[name].append(_work() - before)
    return {name: min(run_times[1:]) for name, run_times in runs.items()}


def _work() -> float:
    """CPU seconds of this process and all its children, including exited ones."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return float(sum(sum(cpu_times[:4]) for cpu_times in times))


def _alone(folder: str) -> Iterator[Any]:
    for path in sorted(Path(folder).glob("*.parquet")):
        yield from partials(parquet.ParquetFile(path).iter_batches(65_536), *METRICS, by=BY)


def _carried(frame: Any) -> None:
    """Transfer the same columns to a Python function that does nothing."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    carried = frame.select("recommendations", "interactions", *BY).mapInArrow(read, "rows bigint")
    # One more small step, like the merge of rows in `evaluate`.
    together = carried.groupBy("rows").applyInArrow(lambda table: table, "rows bigint")
    if not together.collect():
        raise RuntimeError("Spark read nothing")


def _write(folder: Path) -> None:
    draw = random.Random(1)
    items = [f"item-{number}" for number in range(5_000)]
    schema = pa.schema(
        {
            "recommendations": pa.list_(pa.string()),
            "interactions": pa.list_(pa.string()),
            "variant": pa.string(),
        }
    )
    for number in range(FILES):
        shown = [draw.sample(items, 20) for _ in range(EVENTS // FILES)]
        rows = {
            "recommendations": shown,
            "interactions": [
                draw.sample(choices, 1) if draw.random() < 0.3 else [] for choices in shown
            ],
            "variant": [f"v{draw.randrange(SLICES)}" for _ in shown],
        }
        parquet.write_table(pa.table(rows, schema), folder / f"{number}.parquet")
