"""Size of the state as JSON after many events that differ as much as possible."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np

from streameval import Accumulator, Batch, Columns, Event

CAP = 100_000
_BATCH = 10_000


def main() -> None:
    """Print sizes after growing numbers of events."""
    _print_growth("every item new", _items, f"distinct_items@20, at most {CAP:,} items")
    _print_growth("every score new", _scores, "auc")
    _print_growth("every list of another shape", _shapes, "rank metrics of whole lists")


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


def _shapes() -> Iterator[tuple[int, Accumulator]]:
    """Lists of 1 to 200 items with hits at any rank, and 1 to 100 interactions."""
    draw, items = np.random.default_rng(1), list(range(200))
    accumulator = Accumulator("hit_rate", "precision", "recall", "mrr", "map", "ndcg", "ctr")
    for start in range(0, 200_000, _BATCH):
        lengths, sizes = draw.integers(1, 201, _BATCH), draw.integers(1, 101, _BATCH)
        events = [
            Event(recommendations=items[:length], interactions=draw.integers(0, 400, size).tolist())
            for length, size in zip(lengths.tolist(), sizes.tolist(), strict=True)
        ]
        accumulator.update_many(events)
        if start + _BATCH in (20_000, 100_000, 200_000):
            yield start + _BATCH, accumulator
