"""State and memory after many events that differ as much as possible.

Sizes are of the state as JSON and of the process, in MB.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import psutil

from streameval import Accumulator, Batch, Columns, Event
from streameval.catalogue.context import Popularity
from streameval.events import Id
from tests.benchmarks import traffic

CLICKS = 10_000_000
RANKED = [f"{name}@20" for name in ("hit_rate", "precision", "recall", "mrr", "map", "ndcg", "ctr")]
CAP = 100_000
_BATCH = 10_000


def main() -> None:
    """Print sizes after growing numbers of events."""
    _print_growth("every item new", _items, f"distinct_items@20, at most {CAP:,} items")
    _print_growth("every score new", _scores, "auc")
    _print_growth("every list's value new", _values, "median of novelty@20")
    _print_growth("every list of another shape", _shapes, "rank metrics of whole lists")
    _print_clicks()


def _print_growth(
    name: str, growing: Callable[[], Iterator[tuple[int, Accumulator]]], kept: str
) -> None:
    for events, accumulator in growing():
        state = json.dumps(accumulator.state_dict(), separators=(",", ":"))
        print(f"{name:>28}: {events:10,} events, saved {len(state) / 1e6:6.2f} MB   ({kept})")


def _items() -> Iterator[tuple[int, Accumulator]]:
    """Lists of 20 new items: 10,000,000 items."""
    accumulator = Accumulator("distinct_items@20", max_items=CAP)
    for start in range(0, 500_000, _BATCH):
        shown = np.arange(20 * start, 20 * (start + _BATCH)).reshape(-1, 20)
        nothing = (np.zeros(0, np.int64), np.zeros(_BATCH + 1, np.int64))
        accumulator.update_many(Columns(recommendations=shown, interactions=nothing))
        if start + _BATCH in (10_000, 50_000, 500_000):
            yield start + _BATCH, accumulator


def _scores() -> Iterator[tuple[int, Accumulator]]:
    """Lists of 100 scores over the whole range of floats."""
    draw, accumulator = np.random.default_rng(1), Accumulator("auc")
    items = list(range(100))
    for start in range(0, 30_000, 1_000):
        scores = draw.normal(size=(1_000, 100)) * 10.0 ** draw.uniform(-300, 300, (1_000, 100))
        shown, acts = [items] * 1_000, [[start % 100]] * 1_000
        accumulator.update_many(
            Batch(recommendations=shown, interactions=acts, scores=scores.tolist())
        )
        if start + 1_000 in (1_000, 10_000, 30_000):
            yield start + 1_000, accumulator


def _values() -> Iterator[tuple[int, Accumulator]]:
    """Lists with almost always different values, because items have many popularities."""
    counts: dict[Id, float] = {item: 1 + item * item for item in range(50_000)}
    popularity = Popularity(counts, users=2 * 50_000**2)
    accumulator = Accumulator("novelty(statistic=median)@20", popularity=popularity)
    draw = np.random.default_rng(1)
    for start in range(0, 300_000, _BATCH):
        shown = draw.integers(0, 50_000, (_BATCH, 20)).tolist()
        accumulator.update_many(Batch(recommendations=shown, interactions=[()] * _BATCH))
        if start + _BATCH in (20_000, 100_000, 300_000):
            yield start + _BATCH, accumulator


def _shapes() -> Iterator[tuple[int, Accumulator]]:
    """Lists of 1 to 200 items with hits at any rank, and 1 to 100 interactions."""
    draw, items = np.random.default_rng(1), list(range(200))
    accumulator = Accumulator(*(name.removesuffix("@20") for name in RANKED))
    for start in range(0, 200_000, _BATCH):
        lengths, sizes = draw.integers(1, 201, _BATCH), draw.integers(1, 101, _BATCH)
        events = [
            Event(recommendations=items[:length], interactions=draw.integers(0, 400, size).tolist())
            for length, size in zip(lengths.tolist(), sizes.tolist(), strict=True)
        ]
        accumulator.update_many(events)
        if start + _BATCH in (20_000, 100_000, 200_000):
            yield start + _BATCH, accumulator


def _print_clicks() -> None:
    """Long click traffic: a list in ten has an interaction."""
    accumulator, events = Accumulator(*RANKED), traffic.clicks(100_000)
    seen: list[float] = []
    for _ in range(CLICKS // len(events)):
        _count(accumulator, events)
        seen.append(_resident())
    after = {share: seen[int(share * len(seen)) - 1] for share in (0.1, 0.5, 1.0)}
    sizes = ", ".join(f"{size:.1f} after {CLICKS * at:,.0f}" for at, size in after.items())
    print(f"resident MB over {CLICKS:,} click events: {sizes} (first {seen[0]:.1f})")


def _count(accumulator: Accumulator, events: Sequence[Event]) -> None:
    for start in range(0, len(events), _BATCH):
        accumulator.update_many(events[start : start + _BATCH])
    accumulator.compute()


def _resident() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1e6
