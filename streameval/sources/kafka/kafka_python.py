"""kafka-python, the default client of a group member.

What needs more than its public names is in this file: `_finish_rejoin` and `close_producer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.base import MemberState
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.cluster import ClusterMonitor, connect_watched
from streameval.sources.kafka.member import AssignmentChange, GroupMember, Rebalance, skip_to

_COMMIT_MS: Final = 1_000
_LEAVE_MS: Final = 5_000
_STEPS: Final = 100
_STEP_SECONDS: Final = 0.02


def close_producer(producer: Any, seconds: float) -> None:
    """Close a producer with its thread and connections, even if its flush fails."""
    try:
        producer.close(timeout=seconds)
    except KafkaError:
        # After a failed flush the client closes neither its thread nor its connections.
        sender = producer._sender  # noqa: SLF001  the client has no public way to close it
        sender.force_close()
        sender.join(seconds)
        # Nothing is left to flush, so that it can close now.
        producer.close(timeout=seconds)


class _Interruption(Exception):  # noqa: N818  not an error: it returns control to our thread
    """Interrupts a `poll` of the client, so that the owner is called on the polling thread."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """Queues rebalances, and interrupts the client's `poll`.

    The client calls it on its network thread, which must not block or send requests; an exception
    here is raised by `poll`. An interrupted revocation has not taken place: the client calls again
    in the next `poll`, and only then gives the partitions up. Until then the member stays in its
    group and sends heartbeats.

    `hold`: gives assigned partitions a position at once. Without one, the client would resume at
    the group's commit; that may be ahead of our state, and records between would be lost.
    """

    def __init__(self, member: GroupMember, hold: Callable[[Sequence[Partition]], None]) -> None:
        self._member = member
        self._hold = hold
        self._released: frozenset[Partition] = frozenset()
        self._closed = False

    def release(self, partitions: Collection[Partition]) -> None:
        """Let the client give up these partitions."""
        self._released = frozenset(partitions)

    def close(self) -> None:
        """Stop queueing, and let the client give up everything."""
        self._closed = True

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Also called for an empty assignment."""
        self._released = frozenset()
        self._hold([Partition(*partition) for partition in assigned])
        self._note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Interrupts `poll` until these are released."""
        if not self._released.issuperset(Partition(*partition) for partition in revoked):
            self._note("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Other members already own these."""
        self._released = frozenset()
        self._note("lost", lost)

    def _note(self, what: AssignmentChange, partitions: Collection[TopicPartition]) -> None:
        if self._closed:
            return
        self._member.enqueue(Rebalance(what, tuple(sorted(Partition(*p) for p in partitions))))
        raise _Interruption


class KafkaPythonConsumer:
    """A `Consumer` of kafka-python."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        member: GroupMember,
        monitor: ClusterMonitor,
    ) -> None:
        self._monitor = monitor
        self._consumer, self._connections = connect_watched(KafkaConsumer, config)
        self._listener = _Listener(member, self.hold)
        self._consumer.subscribe(topics=list(topics), listener=self._listener)
        self._partitions: frozenset[Partition] = frozenset()
        for _ in range(_STEPS):
            if self._refresh_metadata():
                break
            monitor.sleep(_STEP_SECONDS)

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """See `Consumer`."""
        if self._connections.fenced:
            raise FencedInstanceIdError
        self._refresh_metadata()
        self._finish_rejoin()
        if self._connections.unanswered:
            # While a heartbeat has no answer, the client's `poll` would not wait but spin.
            self._monitor.sleep(seconds)
            seconds = 0.0
        try:
            polled = self._consumer.poll(timeout_ms=round(seconds * 1000))
        except KafkaError as error:
            if not isinstance(error.__cause__, _Interruption):
                raise
            return []
        by_partition = {Partition(*partition): records for partition, records in polled.items()}
        batches = [
            record_batch(p, records) for p, records in by_partition.items() if p in positions
        ]
        if batches:
            return batches
        # Offsets without records advance the position, too.
        reached = {p: self._consumer.position(_topic_partition(p), timeout_ms=0) for p in positions}
        return [skip_to(p, offset) for p, offset in reached.items() if (offset or 0) > positions[p]]

    def hold(self, partitions: Sequence[Partition]) -> None:
        """See `Consumer`."""
        for partition in map(_topic_partition, partitions):
            self._consumer.pause(partition)
            # Any offset will do; without one, the client would look one up.
            self._consumer.seek(partition, 0)

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`."""
        self.seek(offsets)
        self.resume(offsets)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """See `Consumer`."""
        for partition, offset in offsets.items():
            self._consumer.seek(_topic_partition(partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._consumer.pause(*map(_topic_partition, partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._consumer.resume(*map(_topic_partition, partitions))

    def release(self, partitions: Collection[Partition]) -> None:
        """See `Consumer`."""
        self._listener.release(partitions)

    def commit(self, offsets: Mapping[Partition, int], *, wait: bool) -> bool:  # noqa: ARG002  it does
        """See `Consumer`; it always waits, for a second at most."""
        commits = {_topic_partition(p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        self._consumer.commit(commits, timeout_ms=_COMMIT_MS)
        return True

    def close(self) -> None:
        """See `Consumer`."""
        self._listener.close()
        self._consumer.close(autocommit=False, timeout_ms=_LEAVE_MS)

    def _refresh_metadata(self) -> bool:
        """Make the client update its metadata if the monitor knows more partitions.

        The client may omit topics that are subscribed during a metadata request, and would assign
        only the partitions that it knows. Returns whether it knows all.
        """
        partitions = self._monitor.partitions
        if partitions is not self._partitions:
            counts = Counter(partition.topic for partition in partitions)
            partitions_of = self._connections.cluster.partitions_for_topic
            if any(len(partitions_of(topic) or ()) < count for topic, count in counts.items()):
                self._connections.cluster.request_update()
                return False
            self._partitions = partitions
        return True

    def _finish_rejoin(self) -> None:
        """Let a pending rejoin finish.

        After a rejoin for added partitions has computed the assignment, the client considers it
        unnecessary; if `poll` had no time to wait for the assignment, it never takes it.
        """
        if self._consumer.group_metadata().state == MemberState.REBALANCING:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001  no other way is offered


def record_batch(partition: Partition, records: Sequence[Any]) -> RecordBatch:
    """A batch of consecutive records, at least one; headers are read on demand."""
    return RecordBatch(
        partition=partition,
        values=[record.value for record in records],
        offsets=[record.offset for record in records],
        next_offset=records[-1].offset + 1,
        timestamps=[record.timestamp for record in records],
        keys=[record.key for record in records],
        headers=lambda index: records[index].headers,
    )


def _topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)
