"""Cost of the estimates for a policy that was not shown, beside ctr of the same lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from streameval import Accumulator, Event, Intervals
from tests.benchmarks.timing import best_of
from tests.benchmarks.update import in_batches

LISTS = 20_000
METRICS = {
    "ctr": ("ctr",),
    "ips": ("ips",),
    "dr": ("dr",),
    "three": ("ips", "snips", "importance_weight"),
}
_SINGLE = 2_000


def main() -> None:
    """Print microseconds per list."""
    for items in (1, 10):
        lists = _lists(items)
        tasks = {f"{name}, {items}": in_batches(lists, *METRICS[name]) for name in METRICS}
        tasks["three with intervals"] = in_batches(lists, *METRICS["three"], intervals=Intervals())
        best = best_of(tasks)
        times = ", ".join(f"{name}: {best[name] / LISTS * 1e6:.1f}" for name in tasks)
        print(f"update_many, us a list of {items}: {times}")
    single = {name: _one_by_one(_lists(1)[:_SINGLE], *METRICS[name]) for name in METRICS}
    best = best_of(single, rounds=3)
    print("update, us a list of 1:", {name: round(best[name] / _SINGLE * 1e6) for name in best})


def _lists(items: int) -> list[Event]:
    draw = random.Random(1)
    shown = [f"item{place}" for place in range(items)]
    return [
        Event(
            recommendations=shown,
            interactions=[draw.choice(shown)] if draw.random() < 0.1 else [],
            user=f"u{draw.randrange(2_000)}",
            per_item={
                name: [draw.uniform(0.05, 0.95) for _ in shown]
                for name in ("propensity", "target", "predicted", "expected")
            },
        )
        for _ in range(LISTS)
    ]


def _one_by_one(lists: Sequence[Event], *metrics: str) -> Callable[[], None]:
    def task() -> None:
        accumulator = Accumulator(*metrics)
        for event in lists:
            chances = event.per_item
            accumulator.update(event.recommendations, event.interactions, per_item=chances)
        accumulator.table.flush()

    return task
