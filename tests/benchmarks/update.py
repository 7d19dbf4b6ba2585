"""Cost of counting per event, and of reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from streameval import Accumulator, Event, Intervals
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of

RANKED = ("hit_rate@10", "precision@10", "recall@10", "mrr@10", "map@10", "ndcg@20")
EVENTS = 60_000
CATALOGS = (5_000, 50_000)


def main() -> None:
    """Print microseconds per event and per reading."""
    for catalog in CATALOGS:
        _print_counting("click", traffic.clicks(EVENTS, catalog=catalog), catalog)
        _print_counting("1-10", traffic.offline(EVENTS, catalog=catalog), catalog)
    _print_reading()


def _print_counting(name: str, events: list[Event], catalog: int) -> None:
    best = best_of(
        {"many": in_batches(events), "single": one_by_one(events), "loop": _loop(events)}
    )
    many, single, loop = (best[task] / EVENTS * 1e6 for task in ("many", "single", "loop"))
    print(
        f"{name:>5} traffic, K=20, {catalog:,} items: update_many {many:.2f} us an event, update "
        f"{single:.2f} us (+{single - many:.2f}); a bare loop over them {loop:.2f} us"
    )


def in_batches(
    events: Sequence[Event], *metrics: str, intervals: Intervals | None = None
) -> Callable[[], None]:
    """A task that counts events in batches; without metrics, for the ranked ones."""
    batches = [events[start : start + 5_000] for start in range(0, len(events), 5_000)]

    def task() -> None:
        accumulator = Accumulator(*(metrics or RANKED), intervals=intervals)
        for batch in batches:
            accumulator.update_many(batch)
        accumulator.table.flush()

    return task


def one_by_one(
    events: Sequence[Event], kind: type[Accumulator] = Accumulator
) -> Callable[[], None]:
    """A task that counts events one at a time."""
    pairs = [(event.recommendations, event.interactions) for event in events]

    def task() -> None:
        accumulator = kind(*RANKED)
        for recommendations, interactions in pairs:
            accumulator.update(recommendations, interactions)
        accumulator.table.flush()

    return task


def _loop(events: list[Event]) -> Callable[[], None]:
    def task() -> None:
        for event in events:
            _ = event.recommendations, event.interactions

    return task


def _print_reading() -> None:
    cutoffs = (1, 5, 10, 20, 100)
    names = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
    metrics = [f"{name}@{k}" for name in names for k in cutoffs]
    accumulator = Accumulator(*metrics)
    accumulator.update_many(traffic.offline(200_000, k=100))
    start = time.process_time()
    accumulator.compute()
    first = time.process_time() - start
    start = time.process_time()
    accumulator.compute()
    again = time.process_time() - start
    print(
        f"{len(metrics)} metrics after 200,000 offline-like lists, K=100: {first * 1e3:.1f} ms; "
        f"again, unchanged: {again * 1e3:.3f} ms"
    )
