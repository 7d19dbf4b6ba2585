"""Timing on a noisy machine: alternating rounds, and the minimum of each task."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

Task = TypeVar("Task")


def best_of(
    tasks: Mapping[Task, Callable[[], object]],
    rounds: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> dict[Task, float]:
    """Elapsed seconds of each task: the minimum of `rounds` alternating rounds."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            # Production does not hold the waiting events, so keep the collector off them.
            gc.collect()
            gc.freeze()
            start = clock()
            task()
            best[name] = min(best[name], clock() - start)
    return best


def range_of(ratios: Sequence[float]) -> str:
    """The median of ratios, their minimum and maximum."""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
