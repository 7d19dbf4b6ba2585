"""CPU of `evaluate` of JSON lines, relative to msgspec decoding the same bytes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from streameval import evaluate
from tests.benchmarks import traffic
from tests.benchmarks.timing import range_of

EVENTS = 200_000
ROUNDS = 5
RANKS = ("hit_rate@10", "mrr@10", "ndcg@10")


class Plain(msgspec.Struct, gc=False):
    """The struct of a program that decodes only these records."""

    recommendations: list[str]
    interactions: list[str]
    variant: str


def main() -> None:
    """Print microseconds a record of msgspec, and the ratios of each way to count, by round."""
    with TemporaryDirectory() as folder:
        few, many = (_written(Path(folder) / f"{n}.ndjson", n) for n in (10, EVENTS))
        tasks: dict[str, Callable[[Path], object]] = {
            "msgspec": _decoded,
            "counts by variant": partial(_counted, by=["variant"]),
            "counts": _counted,
        }
        for task in tasks.values():
            task(few)
        rounds = [
            {name: _seconds(task, many) - _seconds(task, few) for name, task in tasks.items()}
            for _ in range(ROUNDS)
        ]
    print(f"msgspec: {min(times['msgspec'] for times in rounds) / EVENTS * 1e6:.2f} us a record")
    for name in ("counts by variant", "counts"):
        ratios = [times[name] / times["msgspec"] for times in rounds]
        print(f"{name}: {range_of(ratios)} times msgspec")


def _seconds(task: Callable[[Path], object], path: Path) -> float:
    gc.collect()
    start = time.process_time()
    task(path)
    return time.process_time() - start


def _decoded(path: Path) -> None:
    decode = msgspec.json.Decoder(Plain).decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


def _counted(path: Path, by: Sequence[str] = ()) -> None:
    evaluate(str(path), *RANKS, by=by)


def _written(path: Path, events: int) -> Path:
    """Lists of 20 of two variants; one in ten has a click."""
    encode = msgspec.json.encode
    with path.open("wb") as file:
        for number, event in enumerate(traffic.clicks(events)):
            recommended, interactions = (
                map(str, event.recommendations),
                map(str, event.interactions),
            )
            file.write(encode(Plain([*recommended], [*interactions], "ab"[number % 2])) + b"\n")
    return path
