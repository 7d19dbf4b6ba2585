"""Counting creates no reference cycles."""

from __future__ import annotations

import gc

from streameval import Accumulator

_METRICS = ("ndcg@5", "mrr(statistic=median)@5", "item_coverage@5", "mae", "auc", "personalization")


def test_counted_events_are_freed_without_the_garbage_collector() -> None:
    _counted()
    gc.collect()
    gc.disable()
    try:
        _counted()
        assert gc.collect() == 0
    finally:
        gc.enable()


def _counted() -> None:
    first, second = (Accumulator(*_METRICS, catalog=9) for _ in "ab")
    first.update(["a", "b"], {"b": 2.0})
    first.update(["c"], ["c"])
    second.merge(first.copy())
    second.adopt(b"".join(first.dump()))
    second.compute()
