"""Garbage is looked for when it costs little; and what is counted leaves none."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from streameval import Accumulator
from streameval.daemon.garbage import Garbage, set_aside

_METRICS = ("ndcg@5", "mrr(statistic=median)@5", "item_coverage@5", "mae", "auc", "personalization")


class _Ring:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_full_collections_do_not_come_by_themselves_while_it_is_entered() -> None:
    before = gc.get_threshold()
    with Garbage(lambda: 0.0):
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > 1_000_000
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_what_was_made_since_is_collected_while_records_come() -> None:
    now = [0.0]
    with Garbage(lambda: now[0]) as garbage:
        ring = weakref.ref(_Ring())
        garbage.turn(idle=False)
        assert ring() is not None
        now[0] = 10.0
        garbage.turn(idle=False)
        assert ring() is None


def test_what_was_set_aside_is_collected_when_nothing_comes() -> None:
    now = [0.0]
    made = _Ring()
    ring = weakref.ref(made)
    with Garbage(lambda: now[0]) as garbage:
        del made
        now[0] = 700.0
        garbage.turn(idle=False)
        assert ring() is not None
        now[0] = 1_400.0
        garbage.turn(idle=True)
        assert ring() is None


def test_what_is_restored_is_not_looked_at() -> None:
    gc.collect()
    before = gc.get_freeze_count()
    with set_aside():
        assert not gc.isenabled()
        kept = [[] for _ in range(10_000)]  # type: ignore[var-annotated]  # nothing is in them
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(kept)


def test_what_is_counted_is_freed_without_the_collector() -> None:
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
