"""Simulated traffic: deterministic bytes, a pace, and known true values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from streameval.events.records import Partition
from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulator import (
    BLOCK_RECORDS,
    CATALOG_SIZE,
    LENGTH,
    SIMULATION_START,
    STEP,
    VARIANTS,
    SimulatedVariant,
    SimulatorSource,
    click_probabilities,
    expected_ctr,
    expected_hit_rate,
    records,
)
from streameval.sources.source import Positions

_SAMPLE = 12_000
_SURE = 4.5
"""Standard errors within which a mean lies but once in 100,000 seeds; the seed is fixed."""


@cache
def _sample() -> Mapping[SimulatedVariant, Sequence[Mapping[str, Any]]]:
    decoded = [msgspec.json.decode(value) for value in records(SimulatorOptions(events=_SAMPLE))]
    return {
        variant: [record for record in decoded if record["variant"] == variant]
        for variant in VARIANTS
    }


def _hits(record: Mapping[str, Any]) -> list[int]:
    return [record["recommendations"].index(item) + 1 for item in record["interactions"]]


def _close(total: float, count: int, probability: float) -> bool:
    error = math.sqrt(count * probability * (1 - probability))
    return abs(total - count * probability) < _SURE * error


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_sample_has_the_true_click_rate_at_every_rank(variant: SimulatedVariant) -> None:
    ranks = [rank for record in _sample()[variant] for rank in _hits(record)]
    lists = len(_sample()[variant])
    for rank, probability in enumerate(click_probabilities(variant), 1):
        assert _close(ranks.count(rank), lists, probability)


@pytest.mark.parametrize(("variant", "k"), [*itertools.product(VARIANTS, [1, 10, LENGTH])])
def test_the_sample_has_the_true_rates_of_hits_and_clicks(
    variant: SimulatedVariant, k: int
) -> None:
    hits = [min(_hits(record), default=math.inf) <= k for record in _sample()[variant]]
    assert _close(sum(hits), len(hits), expected_hit_rate(variant, k))
    clicks = sum(rank <= k for record in _sample()[variant] for rank in _hits(record))
    assert _close(clicks, k * len(hits), expected_ctr(variant, k))


def test_the_treatment_is_truly_better_and_placebo_is_control() -> None:
    difference = expected_hit_rate("treatment", 10) - expected_hit_rate("control", 10)
    assert difference == pytest.approx(0.1276, abs=1e-4)
    assert expected_ctr("treatment") > 1.3 * expected_ctr("control")
    assert expected_ctr("placebo") == expected_ctr("control")
    assert expected_hit_rate("placebo", 10) == expected_hit_rate("control", 10)


def test_a_third_of_the_users_has_each_variant_and_keeps_it() -> None:
    users = [{record["user"] for record in _sample()[variant]} for variant in VARIANTS]
    everybody = set().union(*users)
    assert len(everybody) == sum(map(len, users))
    assert all(0.3 < len(users_of_variant) / len(everybody) < 0.37 for users_of_variant in users)


def test_lists_are_whole_and_popular_items_are_shown_more() -> None:
    lists = [
        record["recommendations"]
        for records_of_log in _sample().values()
        for record in records_of_log
    ]
    assert all(len(set(shown)) == LENGTH for shown in lists)
    shown = [item for items in lists for item in items]
    item_names = {f"item-{number}" for number in range(CATALOG_SIZE)}
    assert set(shown) <= item_names
    assert len(set(shown)) > 0.99 * CATALOG_SIZE
    assert shown.count("item-0") > 2 * shown.count(f"item-{CATALOG_SIZE - 1}")


def test_a_record_has_readable_fields() -> None:
    first = msgspec.json.decode(next(records(SimulatorOptions(seed=4))))
    assert [*first][:5] == ["event_id", "ts", "user", "variant", "country"]
    assert [*first][5:] == ["recommendations", "interactions"]
    assert first["event_id"] == "4-0"
    assert datetime.fromisoformat(first["ts"]) == SIMULATION_START
    assert set(first["interactions"]) <= set(first["recommendations"])


def test_event_time_takes_equal_steps() -> None:
    times = [
        datetime.fromisoformat(msgspec.json.decode(value)["ts"])
        for value in records(SimulatorOptions(events=BLOCK_RECORDS + 5))
    ]
    assert {after - before for before, after in itertools.pairwise(times)} == {STEP}
    assert timedelta(milliseconds=10) == STEP


def test_a_limit_only_truncates() -> None:
    long = list(records(SimulatorOptions(seed=2, events=2 * BLOCK_RECORDS + 1)))
    assert (
        list(records(SimulatorOptions(seed=2, events=BLOCK_RECORDS - 1)))
        == long[: BLOCK_RECORDS - 1]
    )
    assert len(set(long)) == 2 * BLOCK_RECORDS + 1
    assert not list(records(SimulatorOptions(events=0)))


@pytest.mark.parametrize("offset", [BLOCK_RECORDS - 1, BLOCK_RECORDS])
def test_any_offset_has_the_same_bytes_each_time(offset: int) -> None:
    source = SimulatorSource(SimulatorOptions(seed=9, partitions=1))
    source.open(Positions({Partition("simulator", 0): offset}))
    values: list[bytes | None] = []
    while len(values) < BLOCK_RECORDS:
        values += [value for batch in source.poll(0) for value in batch.values]
    expected = itertools.islice(records(SimulatorOptions(seed=9)), offset, offset + BLOCK_RECORDS)
    assert values[:BLOCK_RECORDS] == list(expected)


class _Time:
    """A manual clock; sleeping advances it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _count(source: SimulatorSource, seconds: float = 0.0) -> int:
    return sum(len(batch.values) for batch in source.poll(seconds))


def test_the_pace_follows_the_clock() -> None:
    time = _Time()
    source = SimulatorSource(SimulatorOptions(events_per_second=8), time, time.sleep)
    source.open(Positions())
    assert _count(source) == 0
    time.now += 2
    assert _count(source) == 16
    assert source.status.ends == {Partition("simulator", n): 16 for n in (0, 1)}
    assert _count(source) == 0


def test_records_that_become_due_between_polls_are_not_behind() -> None:
    time = _Time()
    source = SimulatorSource(SimulatorOptions(events_per_second=100), time, time.sleep)
    source.open(Positions())
    time.now += 25.5
    behind = []
    for _ in range(3):
        (first, second) = source.poll(0.0)
        time.now += 0.5
        assert first.next_offset == second.next_offset
        behind.append(source.status.ends[first.partition] - first.next_offset)
    # A consumer that is slower than the pace still sees by how much.
    assert behind == [2550 - BLOCK_RECORDS, 2600 - 2 * BLOCK_RECORDS, 0]


def test_a_poll_waits_for_the_next_record_within_its_limit() -> None:
    time = _Time()
    source = SimulatorSource(SimulatorOptions(events_per_second=0.5), time, time.sleep)
    source.open(Positions())
    assert _count(source, 1.5) == 0
    assert time.now == 1001.5
    assert _count(source, 60) == 1
    assert time.now == 1002


def test_overdue_records_are_delivered_in_blocks() -> None:
    time = _Time()
    source = SimulatorSource(SimulatorOptions(events_per_second=100), time, time.sleep)
    source.open(Positions())
    time.now += 25.5
    assert [_count(source) for _ in range(4)] == [BLOCK_RECORDS, BLOCK_RECORDS, 550, 0]


def test_endless_traffic_without_a_pace_has_no_known_end() -> None:
    source = SimulatorSource(SimulatorOptions())
    source.open(Positions())
    assert source.status.ends == {}
    assert _count(source) == BLOCK_RECORDS
    assert not source.status.finished
