"""A group member and its owner, with a fake client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pytest
from kafka.errors import KafkaTimeoutError

from streameval.errors import StoreError
from streameval.events.records import Partition
from streameval.sources.kafka.consumer import Rebalance
from streameval.sources.kafka.member import GroupMember
from tests.effort import every_case
from tests.kafka.members import Told

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


class Refusing(Told):
    """An owner that fails to finish revoked partitions at first."""

    full = True

    def revoked(self, partitions: Sequence[Partition]) -> None:
        if self.full:
            raise StoreError("store", "is full", "make room")
        super().revoked(partitions)


def _member(owner: Told) -> tuple[GroupMember, Client]:
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


def test_a_failed_revocation_is_repeated() -> None:
    owner = Refusing()
    member, client = _member(owner)
    member.start({ONE: 3, OTHER: 4})
    member.enqueue(Rebalance("revoked", (ONE,)))
    with pytest.raises(StoreError, match="is full"):
        member.dispatch()
    assert (owner.happened, client.released, set(member.positions)) == ([], [], {ONE, OTHER})
    owner.full = False
    member.dispatch()
    assert (owner.happened, client.released) == ([("revoked", (0,))], [ONE])
    assert set(member.positions) == {OTHER}


def test_only_what_was_assigned_is_committed_even_before_it_is_started() -> None:
    member, client = _member(Told())
    strange = Partition("events", 2)
    assert (
        member.commit({ONE: 3, strange: 1}, wait=True)
        == "events[2]: not committed, because not assigned to us."
    )
    member.start({ONE: 3, OTHER: 4})
    member.enqueue(Rebalance("lost", (ONE,)))
    member.dispatch()
    assert (
        member.commit({ONE: 5, OTHER: 6}, wait=True)
        == "events[0]: not committed, because not assigned to us."
    )
    assert client.commits == [{ONE: 3}, {OTHER: 6}]


@every_case(
    ("error", "sentence"),
    [
        (KafkaTimeoutError(), "the commit to Kafka failed: KafkaTimeoutError."),
        (KafkaTimeoutError(None), "the commit to Kafka failed: KafkaTimeoutError."),
        (OSError("cut off"), "the commit to Kafka failed: OSError: cut off."),
    ],
)
def test_a_failed_commit_is_told_in_one_sentence(error: Exception, sentence: str) -> None:
    member, client = _member(Told())
    client.error = error
    assert member.commit({ONE: 3}, wait=True) == sentence
