"""The sentence of a commit that failed, and the watchdog of stalled partitions."""

from __future__ import annotations

from collections.abc import Mapping
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


class Time:
    """A watchdog with a manual clock; stalls after 10 seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = Watchdog(10.0, lambda: self.now)

    def after(
        self,
        seconds: float,
        positions: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        *,
        answers: bool = True,
    ) -> list[Stall]:
        """The stalls reported while time passes, with a check every second."""
        delays = []
        for _ in range(int(seconds)):
            self.now += 1.0
            stall = self.watch.check(positions, ends, answers=answers)
            delays += [stall] if stall else []
        return delays


def test_a_moving_partition_never_stalls() -> None:
    time = Time()
    for position in range(100):
        assert time.after(5, {P: position}, {P: 1000}) == []


def test_a_partition_at_its_end_never_stalls() -> None:
    assert Time().after(1000, {P: 7, Q: 0}, {P: 7}) == []


def test_remedies_are_seek_then_rejoin_then_give_up() -> None:
    said = Time().after(60, {P: 3}, {P: 9})
    assert [stall.remedy for stall in said][:3] == ["seek", "rejoin", "give up"]
    assert all(stall.positions == {P: 3} for stall in said)


def test_time_without_answers_of_the_broker_does_not_count() -> None:
    time = Time()
    assert time.after(8, {P: 3}, {P: 9}) == []
    assert time.after(1000, {P: 3}, {P: 9}, answers=False) == []
    assert [stall.remedy for stall in time.after(3, {P: 3}, {P: 9})] == ["seek"]


def test_time_without_checks_does_not_count() -> None:
    time = Time()
    time.after(1, {P: 3}, {P: 9})
    time.now += 10_000
    assert time.watch.check({P: 3}, {P: 9}, answers=True) is None


def test_progress_resets_the_remedies() -> None:
    time = Time()
    assert [stall.remedy for stall in time.after(11, {P: 3}, {P: 9})] == ["seek"]
    assert [stall.remedy for stall in time.after(11, {P: 4}, {P: 9})] == ["seek"]


def test_a_partition_that_returns_at_the_same_position_made_no_progress() -> None:
    time = Time()
    assert [stall.remedy for stall in time.after(22, {P: 3}, {P: 9})] == ["seek", "rejoin"]
    assert time.after(100, {}, {P: 9}) == []
    assert [stall.remedy for stall in time.after(11, {P: 1}, {P: 9})] == ["give up"]


def test_one_moving_partition_does_not_hide_a_stalled_one() -> None:
    time, said = Time(), []
    for position in range(11):
        said += time.after(1, {P: position, Q: 5}, {P: 99, Q: 6})
    assert said == [Stall("seek", {Q: 5})]


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
