"""A group member and its owner, with a fake client; and the watchdog of stalled partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from streameval.events.errors import StoreError
from streameval.events.records import Assignment, Partition
from streameval.sources.kafka.member import GroupMember, Rebalance
from streameval.sources.kafka.source import Stall, Watchdog
from tests.kafka.members import RecordingOwner

ONE, OTHER = Partition("events", 0), Partition("events", 1)


class Client:
    """A fake client that records commits and releases."""

    def __init__(self) -> None:
        self.commits: list[Mapping[Partition, int]] = []
        self.released: list[Partition] = []
        self.error: Exception | None = None

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Nothing is read here."""

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Likewise."""

    def release(self, partitions: Collection[Partition]) -> None:
        self.released += partitions

    def commit(self, offsets: Mapping[Partition, int], **_: bool) -> bool:
        if self.error is not None:
            raise self.error
        self.commits.append(offsets)
        return True


class Refusing(RecordingOwner):
    """An owner that fails to finish revoked partitions at first."""

    full = True

    def revoked(self, partitions: Sequence[Partition]) -> None:
        if self.full:
            raise StoreError("store", "is full", "make room")
        super().revoked(partitions)


def _member(owner: RecordingOwner) -> tuple[GroupMember, Client]:
    client = Client()
    member = GroupMember(
        ["events"],
        lambda *_: cast("Any", client),
        config={},
        start=0,
        monitor=cast("Any", None),
        owner=owner,
    )
    member.enqueue(Rebalance("assigned", (ONE, OTHER)))
    member.dispatch()
    return member, client


def assignment(partition: Partition, start: int) -> Assignment:
    return Assignment(partition=partition, identity="t", begin=0, end=9, start=start)


def test_a_failed_revocation_is_repeated() -> None:
    owner = Refusing()
    member, client = _member(owner)
    member.start([assignment(ONE, 3), assignment(OTHER, 4)])
    member.enqueue(Rebalance("revoked", (ONE,)))
    with pytest.raises(StoreError, match="is full"):
        member.dispatch()
    assert (owner.happened[1:], client.released, set(member.positions)) == ([], [], {ONE, OTHER})
    owner.full = False
    member.dispatch()
    assert (owner.happened[1:], client.released) == ([("revoked", (0,))], [ONE])
    assert set(member.positions) == {OTHER}


def test_only_what_was_assigned_is_committed_even_before_it_is_started() -> None:
    member, client = _member(RecordingOwner())
    strange = Partition("events", 2)
    assert (
        member.commit({ONE: 3, strange: 1}, wait=True)
        == "events[2]: not committed, because not assigned to us."
    )
    member.start([assignment(ONE, 3), assignment(OTHER, 4)])
    member.enqueue(Rebalance("lost", (ONE,)))
    member.dispatch()
    assert (
        member.commit({ONE: 5, OTHER: 6}, wait=True)
        == "events[0]: not committed, because not assigned to us."
    )
    assert client.commits == [{ONE: 3}, {OTHER: 6}]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KafkaTimeoutError(), "the commit to Kafka failed: KafkaTimeoutError."),
        (KafkaTimeoutError(None), "the commit to Kafka failed: KafkaTimeoutError."),
        (OSError("cut off"), "the commit to Kafka failed: OSError: cut off."),
    ],
)
def test_a_failed_commit_is_told_in_one_sentence(error: Exception, sentence: str) -> None:
    member, client = _member(RecordingOwner())
    client.error = error
    assert member.commit({ONE: 3}, wait=True) == sentence


P, Q = Partition("t", 0), Partition("t", 1)


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
