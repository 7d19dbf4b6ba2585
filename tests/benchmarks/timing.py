"""Time measured fairly on a noisy machine: several rounds in turn, the best of each."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping


def best_of(
    tasks: Mapping[str, Callable[[], object]],
    rounds: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Seconds of each task by the clock: the least of `rounds` rounds, tasks in turn."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            # The events waiting to be counted would not be there in production: not the task's.
            gc.collect()
            gc.freeze()
            start = clock()
            task()
            best[name] = min(best[name], clock() - start)
    return best
