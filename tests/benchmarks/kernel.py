"""Cost of matching lists with interactions: the compiled kernel relative to the one in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from streameval import Event
from streameval.statistics.kernel import COMPILED, pure
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of
from tests.benchmarks.update import in_batches, one_by_one

EVENTS = 20_000
BATCH = 512
ROUNDS = 7
_TRAFFIC: Mapping[str, Callable[..., list[Event]]] = {
    "clicks": traffic.clicks,
    "1 to 10 interactions": traffic.offline,
}


def main() -> None:
    """Print microseconds per event, and the ratio of the two kernels."""
    if not COMPILED:
        print("the compiled kernel is not in use here")
        return
    for name, make in _TRAFFIC.items():
        events = make(EVENTS, catalog=5_000)
        kernels = (import_module("streameval.statistics.kernel._match"), pure)
        compiled, python = best_of(
            {kernel.__name__: _matching(kernel, events) for kernel in kernels}, ROUNDS
        ).values()
        _print(f"matching alone, {name}", compiled, python)
    both = {pure: _counting(pure) for pure in ("0", "1")}
    for name, compiled in both["0"].items():
        _print(name, compiled, both["1"][name])


def report() -> None:
    """Print the task and its seconds, for each task of this process."""
    for name, make in _TRAFFIC.items():
        events = make(EVENTS, catalog=5_000)
        tasks = {"update_many": in_batches(events), "update": one_by_one(events)}
        for task, seconds in best_of(tasks, ROUNDS).items():
            print(f"{task}, {name}\t{seconds}")


def _counting(is_pure: str) -> dict[str, float]:
    program = "from tests.benchmarks import kernel; kernel.report()"
    around = {**os.environ, "STREAMEVAL_PURE": is_pure}
    said = subprocess.check_output([sys.executable, "-c", program], text=True, env=around)
    return {
        name: float(seconds) for name, seconds in (line.split("\t") for line in said.splitlines())
    }


def _matching(kernel: Any, events: Sequence[Event]) -> Callable[[], None]:
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    rows = [
        ([event.recommendations for event in batch], [event.interactions for event in batch])
        for batch in batches
    ]
    every = sound = False

    def task() -> None:
        for lists, interactions in rows:
            kernel.match(lists, interactions, "text", 20, every, sound)

    return task


def _print(name: str, compiled: float, python: float) -> None:
    ours, other = (seconds / EVENTS * 1e6 for seconds in (compiled, python))
    print(f"{name:>40}: {ours:5.2f} us compiled, {other:5.2f} in Python, {other / ours:4.1f} times")
