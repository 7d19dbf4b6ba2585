"""The sentence of a commit that failed, and the watchdog of stalled partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from unittest.mock import create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from streameval.events.records import Partition
from streameval.sources.kafka.cluster import ClusterMonitor
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.member import GroupMember, Rebalance
from streameval.sources.kafka.source import Stall, Watchdog
from streameval.sources.source import Positions

P, Q = Partition("t", 0), Partition("t", 1)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KafkaTimeoutError(), "the commit to Kafka failed: KafkaTimeoutError."),
        (KafkaTimeoutError(None), "the commit to Kafka failed: KafkaTimeoutError."),
        (OSError("cut off"), "the commit to Kafka failed: OSError: cut off."),
    ],
)
def test_a_failed_commit_is_told_in_one_sentence(error: Exception, sentence: str) -> None:
    client = create_autospec(KafkaPythonConsumer)
    client.commit.side_effect = error
    member = GroupMember(
        ["t"],
        lambda *_: client,
        config={},
        start=0,
        monitor=ClusterMonitor(["t"], {}),
        owner=Positions(),
    )
    member.enqueue(Rebalance("assigned", (P,)))
    member.dispatch()
    assert member.commit({P: 3}, wait=True) == sentence


class Look(NamedTuple):
    """Checks of a watchdog that stalls after 10 seconds, one a second."""

    checks: int
    positions: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    answers: bool = True
    pause: float = 1.0


@pytest.mark.parametrize(
    ("looks", "remedies"),
    [
        ([Look(60, {P: 3}, {P: 9})], ["seek", "rejoin", "give up", "give up", "give up"]),
        # It moves, and it is at its end.
        ([Look(5, {P: position}, {P: 1000}) for position in range(100)], []),
        ([Look(1000, {P: 7, Q: 0}, {P: 7})], []),
        # Time without answers of the broker does not count, nor time without checks.
        (
            [
                Look(8, {P: 3}, {P: 9}),
                Look(1000, {P: 3}, {P: 9}, answers=False),
                Look(3, {P: 3}, {P: 9}),
            ],
            ["seek"],
        ),
        ([Look(1, {P: 3}, {P: 9}), Look(1, {P: 3}, {P: 9}, pause=10_000)], []),
        # Progress resets the remedies; to come back at the same position is none.
        ([Look(11, {P: 3}, {P: 9}), Look(11, {P: 4}, {P: 9})], ["seek", "seek"]),
        (
            [Look(22, {P: 3}, {P: 9}), Look(100, {}, {P: 9}), Look(11, {P: 1}, {P: 9})],
            ["seek", "rejoin", "give up"],
        ),
    ],
)
def test_a_partition_that_does_not_advance_has_one_remedy_after_the_other(
    looks: Sequence[Look], remedies: Sequence[str]
) -> None:
    stalls = stalls_of(looks)
    assert [stall.remedy for stall in stalls] == remedies
    assert all(stall.positions in [look.positions for look in looks] for stall in stalls)


def stalls_of(looks: Sequence[Look]) -> list[Stall]:
    now, stalls = 0.0, list[Stall | None]()
    watch = Watchdog(10.0, lambda: now)
    for checks, positions, ends, answers, pause in looks:
        for _ in range(checks):
            now += pause
            stalls.append(watch.check(positions, ends, answers=answers))
    return [stall for stall in stalls if stall is not None]


def test_one_moving_partition_does_not_hide_a_stalled_one() -> None:
    looks = [Look(1, {P: position, Q: 5}, {P: 99, Q: 6}) for position in range(11)]
    assert stalls_of(looks) == [Stall("seek", {Q: 5})]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=60),
    st.floats(0.1, 4.0),
)
def test_no_remedy_comes_sooner_than_the_timeout(
    looks: list[tuple[int, int, bool]], step: float
) -> None:
    now = 0.0
    watch = Watchdog(10.0, lambda: now)
    last = 0.0
    for position, end, answers in looks:
        now += step
        if watch.check({P: position}, {P: end}, answers=answers) is not None:
            assert now - last >= 10.0 - 1e-9
            assert answers
            last = now
