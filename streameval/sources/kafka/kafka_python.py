"""kafka-python, the default client of a group member."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.base import MemberState
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from streameval.events.records import Partition, RecordBatch
from streameval.sources.kafka.client import connect_watched
from streameval.sources.kafka.consumer import Change, Rebalance, Rebalances, skip_to
from streameval.sources.kafka.watchdog import ClusterMonitor

_COMMIT_MS: Final = 1_000
_LEAVE_MS: Final = 5_000
_STEPS: Final = 100
_STEP_SECONDS: Final = 0.02


class _Interruption(Exception):  # noqa: N818  not an error: it returns control to our thread
    """Interrupts a `poll` of the client, so that the owner is called on the polling thread."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """Queues rebalances, and interrupts the client's `poll`.

    The client calls it on its network thread, which must not block or send requests; an exception
    here is raised by `poll`. An interrupted revocation has not taken place: the client calls again
    in the next `poll`, and only then gives the partitions up. Until then the member stays in its
    group and sends heartbeats.
    """

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances
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
        self._note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Interrupts `poll` until these are released."""
        if not self._released.issuperset(Partition(*each) for each in revoked):
            self._note("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Other members already own these."""
        self._released = frozenset()
        self._note("lost", lost)

    def _note(self, what: Change, given: Collection[TopicPartition]) -> None:
        if self._closed:
            return
        self._rebalances.enqueue(Rebalance(what, tuple(sorted(Partition(*p) for p in given))))
        raise _Interruption


class KafkaPythonConsumer:
    """A `Consumer` of kafka-python."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        rebalances: Rebalances,
        monitor: ClusterMonitor,
    ) -> None:
        self._monitor = monitor
        self._consumer, self._connections = connect_watched(KafkaConsumer, config)
        # After a rebalance the client would resume at the group's commit. The commit may be ahead
        # of our state, and records between would be lost; the owner decides instead.
        coordinator = self._consumer._coordinator  # noqa: SLF001  no setting turns it off
        coordinator.refresh_committed_offsets_if_needed = lambda *_, **__: False
        # While a heartbeat has no answer, the client's `poll` would wait 0 s, again and again, each
        # time with new objects. Heartbeats do not need it: another thread sends them.
        coordinator.time_to_next_poll = lambda: math.inf
        self._listener = _Listener(rebalances)
        self._consumer.subscribe(topics=list(topics), listener=self._listener)
        self._known: frozenset[Partition] = frozenset()
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
        try:
            found = self._consumer.poll(timeout_ms=round(seconds * 1000))
        except KafkaError as error:
            if not isinstance(error.__cause__, _Interruption):
                raise
            return []
        mine = {Partition(*each): records for each, records in found.items()}
        batches = [batch_of(p, records) for p, records in mine.items() if p in positions]
        return batches or self._gaps(positions)

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
        wanted = {_topic_partition(p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        self._consumer.commit(wanted, timeout_ms=_COMMIT_MS)
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
        found = self._monitor.partitions
        if found is not self._known:
            counts = Counter(partition.topic for partition in found)
            known = self._connections.cluster.partitions_for_topic
            if any(len(known(topic) or ()) < count for topic, count in counts.items()):
                self._connections.cluster.request_update()
                return False
            self._known = found
        return True

    def _finish_rejoin(self) -> None:
        """Let a pending rejoin finish.

        After a rejoin for added partitions has computed the assignment, the client considers it
        unnecessary; if `poll` had no time to wait for the assignment, it never takes it.
        """
        if self._consumer.group_metadata().state == MemberState.REBALANCING:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001  no other way is offered

    def _gaps(self, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """Empty batches for offsets without records."""
        reached = {p: self._consumer.position(_topic_partition(p), timeout_ms=0) for p in positions}
        return [skip_to(p, offset) for p, offset in reached.items() if (offset or 0) > positions[p]]


def batch_of(partition: Partition, records: Sequence[Any]) -> RecordBatch:
    """A batch of consecutive records, at least one; headers are read on demand."""
    return RecordBatch(
        partition=partition,
        values=[record.value for record in records],
        offsets=[record.offset for record in records],
        next_offset=records[-1].offset + 1,
        timestamps=[record.timestamp for record in records],
        keys=[record.key for record in records],
        headers=lambda place: records[place].headers,
    )


def _topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)
