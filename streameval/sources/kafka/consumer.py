"""The contract of a client: the calls that a member of a consumer group makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from streameval.events.records import Partition, RecordBatch

Change: TypeAlias = Literal["assigned", "revoked", "lost"]
"""Of partitions, as the owner is told: `Owner.assigned`, `revoked` or `lost`."""


class Rebalance(NamedTuple):
    """An event of the group that the owner must handle."""

    what: Change
    partitions: tuple[Partition, ...]


class Rebalances(Protocol):
    """Queues rebalances, and calls the owner for each."""

    def note(self, rebalance: Rebalance) -> None:
        """Queue it until the owner is called; safe to call from any thread."""

    def tell(self) -> None:
        """Tell the owner; only on the thread that polls.

        Raises:
            StreamevalError: an error of the owner; the next call repeats the callback.
        """


class Consumer(Protocol):
    """A subscribed client. It notes rebalances, and delivers only partitions that were started.

    Partitions are given up only after the owner's callback for revoked ones.
    """

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """Records that are there, or come in time; none where the group rebalanced.

        `positions`: of the partitions that were started and are still ours: their next offsets.

        Returns:
            At most one batch for each of these; one without values where the log has offsets, but
            holds nothing to deliver (compaction, aborted transactions).

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: an error of the client.
        """

    def hold(self, partitions: Sequence[Partition]) -> None:
        """These are all that is ours; read nothing of them until `start`."""

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Read these of the partitions that are held, from these offsets."""

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Go to these offsets of partitions that were started, perhaps once more."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Read nothing of these for a while."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Go on with these."""

    def release(self, partitions: Collection[Partition]) -> None:
        """The owner has finished or forgotten these: give them up."""

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Tell the group; within a second or in the background.

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: this commit failed, or the one before.
        """

    def close(self) -> None:
        """Leave the group, where dynamic, and close the connections; notes nothing any more."""


def skip_to(partition: Partition, offset: int) -> RecordBatch:
    """A batch without values, which moves a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)
