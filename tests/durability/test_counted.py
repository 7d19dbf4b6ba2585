"""Counters show no evidence twice and never fall, for any folding and rebalances."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streameval.checkpoints.committer import DurableCounters
from streameval.engine.evidence import KeyMapping
from streameval.engine.snapshot import CounterKey
from streameval.events.records import Partition

P, Q = Partition("events", 0), Partition("events", 1)


def key(value: str) -> CounterKey:
    return 0, (value,), "mrr"


A, B, OTHER = key("a"), key("b"), key("__other__")


def same(counter_key: CounterKey) -> CounterKey:
    return counter_key


def folding(*gone: CounterKey) -> KeyMapping:
    return lambda counter_key: OTHER if counter_key in gone else counter_key


def test_partitions_add_up() -> None:
    durable = DurableCounters()
    for partition in (P, Q):
        durable.begin(partition, {}, same)
        durable.publish(partition, {A: (1.0, 2)}, same, same)
    assert durable.totals() == {A: (2.0, 4)}


def test_a_value_that_folds_stops_and_the_other_takes_only_what_comes_later() -> None:
    durable = DurableCounters()
    durable.begin(P, {OTHER: (1.0, 1)}, same)
    durable.publish(P, {A: (5.0, 10), OTHER: (1.0, 1)}, same, same)
    durable.publish(P, {OTHER: (6.5, 13)}, folding(A), same)
    assert durable.totals() == {A: (5.0, 10), OTHER: (0.5, 2)}


def test_a_value_that_other_partitions_fold_stops_too() -> None:
    durable = DurableCounters()
    durable.begin(P, {}, same)
    durable.publish(P, {A: (5.0, 10)}, same, same)
    durable.publish(P, {A: (6.0, 12)}, same, folding(A))
    assert durable.totals() == {A: (5.0, 10), OTHER: (1.0, 2)}
    durable.publish(P, {A: (7.0, 14)}, same, same)
    assert durable.totals() == {A: (6.0, 12), OTHER: (1.0, 2)}


def test_a_sum_that_is_an_ulp_lower_does_not_fall() -> None:
    durable = DurableCounters()
    durable.begin(P, {A: (0.1, 1)}, same)
    durable.publish(P, {A: (0.1 + 0.2, 2)}, same, same)
    before = durable.totals()
    durable.publish(P, {A: (0.3, 2)}, same, same)
    assert durable.totals() == before


def test_nothing_is_shown_of_a_partition_that_has_not_begun() -> None:
    durable = DurableCounters()
    durable.publish(P, {A: (1.0, 1)}, same, same)
    assert durable.totals() == {}


@given(
    counts=st.lists(st.lists(st.sampled_from("abcd"), max_size=5), max_size=6),
    folds=st.lists(st.sampled_from("abcd"), max_size=3, unique=True),
    at=st.integers(0, 6),
    baseline=st.integers(0, 6),
)
def test_all_that_comes_after_the_baseline_is_shown_once(
    counts: list[list[str]], folds: list[str], at: int, baseline: int
) -> None:
    durable, totals = DurableCounters(), dict[CounterKey, tuple[float, int]]()
    durable.begin(P, {}, same)
    after = 0
    for number, values in enumerate(counts):
        if number == baseline:
            durable.begin(P, totals, same)
        fold = folding(*map(key, folds)) if number >= at else same
        for old in list(totals):
            if fold(old) != old:
                totals[fold(old)] = _plus(totals.get(fold(old), (0.0, 0)), *totals.pop(old))
        for value in values:
            folded = fold(key(value))
            totals[folded] = _plus(totals.get(folded, (0.0, 0)), 1.0, 1)
        durable.publish(P, totals, fold, same)
        after += len(values)
        actual = durable.totals()
        assert sum(count for _, count in actual.values()) == after
        assert all(total == count for total, count in actual.values())


def _plus(pair: tuple[float, int], total: float, count: int) -> tuple[float, int]:
    return pair[0] + total, pair[1] + count
