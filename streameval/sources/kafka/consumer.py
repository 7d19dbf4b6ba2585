"""The contract between a group member and its client (kafka-python or confluent-kafka)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from streameval.events.records import Partition, RecordBatch

Change: TypeAlias = Literal["assigned", "revoked", "lost"]
"""The method of `Owner` to call."""


class Rebalance(NamedTuple):
    """An event of the group that the owner must handle."""

    what: Change
    partitions: tuple[Partition, ...]


class Rebalances(Protocol):
    """Queues rebalances, and calls the owner for each."""

    def enqueue(self, rebalance: Rebalance) -> None:
        """Queue a rebalance until the owner is called; safe to call from any thread."""

    def dispatch(self) -> None:
        """Call the owner for queued rebalances; only on the thread that polls.

        Raises:
            StreamevalError: an error of the owner; the next call repeats the callback.
        """


class Consumer(Protocol):
    """A subscribed client. It queues rebalances and delivers only started partitions.

    Revoked partitions are given up only after the owner's callback.
    """

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """Records that arrive within `seconds`; none while the group rebalances.

        `positions`: started partitions that are still assigned -> next offset.

        Returns:
            At most one batch per partition; an empty batch for offsets without records
            (compaction, aborted transactions).

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: an error of the client.
        """

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Read nothing from these, which are all assigned partitions, until `start`."""

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Read held partitions from these offsets."""

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Seek started partitions to these offsets, possibly again."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Continue reading these partitions."""

    def release(self, partitions: Collection[Partition]) -> None:
        """Give up these partitions, which the owner has finished or forgotten."""

    def commit(self, offsets: Mapping[Partition, int], *, wait: bool) -> bool:
        """Commit to the group; returns whether it has accepted these offsets.

        With `wait` it has. Without, it may not have answered yet: `poll` receives the answer, and
        the next call with these offsets returns it.

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: this commit, or one without an answer until now, failed.
        """

    def close(self) -> None:
        """Leave the group, unless a static member, and close; no more rebalances are queued."""


def skip_to(partition: Partition, offset: int) -> RecordBatch:
    """An empty batch that moves a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)
