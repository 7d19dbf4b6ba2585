"""What happens to a member of a group, taken from the client's network thread to our own."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Literal, NamedTuple, TypeAlias

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import KafkaError

from streameval.records import Partition

What: TypeAlias = Literal["assigned", "revoked", "lost"]


class Happening(NamedTuple):
    """Something that an owner has to be told."""

    what: What
    partitions: tuple[Partition, ...]


class _Interruption(Exception):  # noqa: N818  it is no error: it only brings `poll` back to us
    """Ends a `poll` of the client, so that the owner is told on the thread that polls."""


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """Notes what happens, and ends the client's `poll` there and then.

    The client calls it on its network thread, where nothing may take long and no request can be
    made; and a raised error comes out of `poll`. A revocation that is interrupted so has not taken
    place: the client asks again in the next `poll`, and only then gives the partitions up. In
    between, the member is in its group, and heartbeats go on.
    """

    def __init__(self) -> None:
        self._news: deque[Happening] = deque()
        self._finished: frozenset[Partition] = frozenset()
        self._closed = False

    def take(self) -> list[Happening]:
        """What happened since the last time, in order."""
        taken = []
        while self._news:
            taken.append(self._news.popleft())
        return taken

    def finish(self, partitions: Collection[Partition]) -> None:
        """Say that these may be given up."""
        self._finished = frozenset(partitions)

    def close(self) -> None:
        """Note nothing any more; giving up happens without asking."""
        self._closed = True

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Told also when there are none."""
        self._finished = frozenset()
        self._note("assigned", _partitions(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Returns only when these were finished."""
        partitions = _partitions(revoked)
        if not self._finished.issuperset(partitions):
            self._note("revoked", partitions)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """They are gone already."""
        self._finished = frozenset()
        self._note("lost", _partitions(lost))

    def _note(self, what: What, partitions: tuple[Partition, ...]) -> None:
        if self._closed:
            return
        self._news.append(Happening(what, partitions))
        raise _Interruption


def interrupted(error: KafkaError) -> bool:
    """Whether the error that came out of `poll` is only the listener's interruption."""
    return isinstance(error.__cause__, _Interruption)


def _partitions(given: Collection[TopicPartition]) -> tuple[Partition, ...]:
    return tuple(sorted(Partition(*each) for each in given))
