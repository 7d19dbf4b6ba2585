"""A member of a consumer group: its partitions, its positions, and the contract of its client.

kafka-python and confluent-kafka each have a `Consumer`; the rest is shared.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError

from streameval.events.errors import SourceError
from streameval.events.records import (
    Assignment,
    CommitAnswer,
    Partition,
    PartitionOwner,
    RecordBatch,
)
from streameval.sources.kafka.cluster import ANSWER_MS, Cluster, ClusterMonitor
from streameval.sources.settings import EARLIEST, LATEST

AssignmentChange: TypeAlias = Literal["assigned", "revoked", "lost"]
"""The method of `PartitionOwner` to call."""


class Rebalance(NamedTuple):
    """An event of the group that the owner must handle."""

    what: AssignmentChange
    partitions: tuple[Partition, ...]


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
        ...

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Read nothing from these, which are all assigned partitions, until `start`."""

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Read held partitions from these offsets."""

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Seek started partitions to these offsets, possibly again.

        Raises:
            KafkaError: a partition cannot seek; it is left unchanged.
        """

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
        ...

    def close(self) -> None:
        """Leave the group, unless a static member, and close; no more rebalances are queued."""


def skip_to(partition: Partition, offset: int) -> RecordBatch:
    """An empty batch that only sets a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)


class GroupMember:
    """A subscribed consumer of either client, which delivers assigned partitions once started.

    `subscribe`: creates the consumer; raises KafkaError if no broker answers. `start`: EARLIEST,
    LATEST, or milliseconds since the epoch.

    Attributes:
        positions: started partition -> the offset after the last delivered record.
        paused: started partitions that are paused.
        unstarted: assigned partitions that wait for `start`; None without a new assignment.
    """

    def __init__(
        self,
        topics: Sequence[str],
        subscribe: Callable[[Sequence[str], GroupMember, ClusterMonitor], Consumer],
        *,
        config: Mapping[str, Any],
        start: int,
        monitor: ClusterMonitor,
        owner: PartitionOwner,
    ) -> None:
        self._topics = topics
        self._config = config
        self._start = start
        self._monitor = monitor
        self._owner = owner
        self._pending: deque[Rebalance] = deque()
        self.unstarted: Sequence[Partition] | None = None
        self.positions: dict[Partition, int] = {}
        self.paused: frozenset[Partition] = frozenset()
        self._consumer = subscribe(topics, self, monitor)

    def read(self, seconds: float) -> list[RecordBatch]:
        """Records that arrive within `seconds`; none while the group rebalances."""
        # With a negative timeout one client waits for ever, and the other raises.
        batches = self._consumer.poll(max(0.0, seconds), self.positions)
        for batch in batches:
            self.positions[batch.partition] = batch.next_offset
        return batches

    def enqueue(self, rebalance: Rebalance) -> None:
        """Queue a rebalance until the owner is called; safe to call from any thread."""
        self._pending.append(rebalance)

    def dispatch(self) -> None:
        """Call the owner for each queued rebalance; only on the thread that polls.

        Raises:
            StreamevalError: an error of the owner; the next call repeats the callback.
        """
        while self._pending:
            self._apply(self._pending[0])
            self._pending.popleft()

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Hold assigned partitions back until `start`."""
        self._consumer.hold(partitions)
        self.unstarted = partitions

    def reassign(self) -> None:
        """Assign all partitions again after data loss: the owner decides, as after a restart."""
        assigned = sorted(self.positions)
        self._owner.revoked(assigned)
        self.positions.clear()
        self.hold(assigned)

    def assignments(self) -> list[Assignment]:
        """The unstarted partitions with the current offsets of the cluster.

        All records of a partition that was added since the source was opened are new, so even
        "latest" starts at its beginning.
        """
        partitions, start = self.unstarted, self._start
        if not partitions:
            return []
        with self._cluster() as cluster:
            topics = cluster.topics(sorted({partition.topic for partition in partitions}))
            if unknown := sorted({*partitions}.difference(topics.partitions)):
                problem = "is assigned to this process, but the cluster does not know it"
                remedy = "its topic was deleted; restart when it exists again"
                raise SourceError(str(unknown[0]), problem, remedy)
            begins = cluster.offsets(partitions, EARLIEST)
            ends = cluster.offsets(partitions, LATEST)
            starts = begins if start == EARLIEST else cluster.offsets(partitions, start)
            committed = cluster.committed(self._config["group_id"], partitions)
        starts = {log: ends[log] if offset < 0 else offset for log, offset in starts.items()}
        if start == LATEST:
            starts |= {log: begins[log] for log in {*partitions} - self._monitor.first}
        counts = Counter(partition.topic for partition in topics.partitions)
        return [
            Assignment(
                partition=log,
                identity=topics.identities[log.topic],
                begin=begins[log],
                end=ends[log],
                start=starts[log],
                committed=committed.get(log),
                partitions=counts[log.topic],
            )
            for log in partitions
        ]

    def missing_topics(self) -> Sequence[str]:
        """The topics that do not exist, or that this user may not describe."""
        with self._cluster() as cluster:
            described = cluster.topics(self._topics)
        return [*described.missing, *described.refused]

    def start(self, assignments: Sequence[Assignment]) -> list[RecordBatch]:
        """Hand partitions to their owner, and deliver them from its offsets on.

        The returned batches set the positions to these offsets.

        Raises:
            SourceError: an offset is outside of its log.
        """
        positions = self._owner.assigned(assignments) if assignments else {}
        logs = [log for log in assignments if log.partition in positions]
        offsets = {log.partition: positions[log.partition] for log in logs}
        for log in logs:
            _require_within(log, offsets[log.partition])
        self._consumer.start(offsets)
        self.positions.update(offsets)
        self.paused -= offsets.keys()
        self.unstarted = None
        return [skip_to(partition, offset) for partition, offset in offsets.items()]

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Let the client seek to these offsets, possibly again."""
        self._consumer.seek(offsets)
        self.positions.update(offsets)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause exactly these partitions, and resume all others."""
        paused = frozenset(partitions).intersection(self.positions)
        if paused != self.paused:
            self._consumer.pause(paused - self.paused)
            self._consumer.resume(self.paused - paused)
            self.paused = paused

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool
    ) -> str | CommitAnswer | None:
        """Commit the assigned partitions; returns the problem in one sentence, PENDING or None."""
        assigned = {*self.positions, *(self.unstarted or ())}
        ours = {log: offset for log, offset in positions.items() if log in assigned}
        foreign = ", ".join(str(position) for position in sorted(positions) if position not in ours)
        try:
            if ours and not self._consumer.commit(ours, wait=wait):
                return CommitAnswer.PENDING
        except FencedInstanceIdError:
            raise
        except CommitFailedError as error:
            return f"Kafka refused the commit: this member has left the group: {_why(error)}."
        except (KafkaError, OSError) as error:
            return f"the commit to Kafka failed: {_why(error)}."
        return f"{foreign}: not committed, because not assigned to us." if foreign else None

    def close(self) -> None:
        """Leave the group, unless a static member, and close the connection."""
        self._consumer.close()

    def _cluster(self) -> closing[Cluster]:
        return closing(Cluster({**self._config, "request_timeout_ms": ANSWER_MS}))

    def _apply(self, rebalance: Rebalance) -> None:
        if rebalance.what == "assigned":
            self.hold(rebalance.partitions)
            return
        assigned = [log for log in rebalance.partitions if log in self.positions]
        if assigned:
            call = self._owner.revoked if rebalance.what == "revoked" else self._owner.lost
            call(assigned)
        for partition in rebalance.partitions:
            self.positions.pop(partition, None)
        self.paused -= frozenset(rebalance.partitions)
        self._consumer.release(rebalance.partitions)
        self.unstarted = None


def _why(error: Exception) -> str:
    name = type(error).__name__
    text = str(error).removeprefix(f"{name}: ").rstrip(".")
    # kafka-python repeats the name, or writes None, if there is no message.
    return name if text in ("", "None", name) else f"{name}: {text}"


def _require_within(log: Assignment, offset: int) -> None:
    where = f"the next offset to read is {offset}, but"
    if offset < log.begin:
        lost = log.begin - offset
        raise SourceError(
            str(log.partition),
            f"{where} the topic now begins at {log.begin}: {lost} records were deleted unread",
            "restart from `start`, and give the topic a longer retention",
        )
    if offset > log.end:
        raise SourceError(
            str(log.partition),
            f"{where} the topic ends at {log.end}",
            "it was recreated, or lost records; restart from `start`",
        )
