"""One membership in a consumer group: its rebalances, records and commits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Literal, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.base import MemberState
from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from streameval.events.records import Assignment, Origin, Partition, RecordBatch
from streameval.sources.kafka.client import connected
from streameval.sources.kafka.cluster import Cluster, described
from streameval.sources.kafka.watchdog import ClusterMonitor

_COMMIT_MS: Final = 1_000
_LEAVE_MS: Final = 5_000
_ANSWER_MS: Final = 5_000
_STEPS: Final = 100
_STEP_SECONDS: Final = 0.02


class Rebalance(NamedTuple):
    """Something that the group did, which the owner must be told."""

    what: Literal["assigned", "revoked", "lost"]
    partitions: tuple[Partition, ...]


class _Interruption(Exception):  # noqa: N818  no error: it only returns control to our thread
    """Ends a `poll` of the client, so that the owner is told on the thread that polls."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """Notes rebalances, and ends the client's `poll` there and then.

    The client calls it on its network thread, where nothing may take long and no request can be
    made; an error that it raises comes out of `poll`. A revocation that is interrupted so has not
    taken place: the client asks again in the next `poll`, and only then gives the partitions up.
    In between, the member is in its group, and heartbeats go on.
    """

    def __init__(self) -> None:
        self._rebalances: deque[Rebalance] = deque()
        self._released: frozenset[Partition] = frozenset()
        self._closed = False

    def take(self) -> list[Rebalance]:
        """What happened since the last call, in order."""
        taken = []
        while self._rebalances:
            taken.append(self._rebalances.popleft())
        return taken

    def release(self, partitions: Collection[Partition]) -> None:
        """Let the client give these up."""
        self._released = frozenset(partitions)

    def close(self) -> None:
        """Note nothing any more, and let the client give up everything."""
        self._closed = True

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called also when there are none."""
        self._released = frozenset()
        self._note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Returns only when these were released."""
        if not self._released.issuperset(Partition(*each) for each in revoked):
            self._note("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """They belong to others already."""
        self._released = frozenset()
        self._note("lost", lost)

    def _note(
        self, what: Literal["assigned", "revoked", "lost"], given: Collection[TopicPartition]
    ) -> None:
        if self._closed:
            return
        self._rebalances.append(Rebalance(what, tuple(sorted(Partition(*p) for p in given))))
        raise _Interruption


def _nothing_to_refresh(*_: object, **__: object) -> bool:
    return False


class GroupMember:
    """A subscribed consumer; it delivers the assigned partitions that were started.

    Args:
        topics: to subscribe to.
        config: settings of the client.
        start: EARLIEST, LATEST, or milliseconds since the epoch.
        monitor: knows which partitions there are.

    Attributes:
        positions: partition -> the offset after what was delivered; of those that were started.
        paused: those of them of which nothing is delivered for a while.

    Raises:
        KafkaError: no broker answers.
    """

    def __init__(
        self,
        topics: Sequence[str],
        config: Mapping[str, Any],
        start: int,
        monitor: ClusterMonitor,
    ) -> None:
        self._config = config
        self._start = start
        self._monitor = monitor
        self._consumer, self._connections = connected(KafkaConsumer, config)
        # Where a rebalance takes a position, the client would go on at the group's commit, which
        # may be ahead of the state: what lies between would be lost. It waits for the owner.
        coordinator = self._consumer._coordinator  # noqa: SLF001  no setting turns it off
        coordinator.refresh_committed_offsets_if_needed = _nothing_to_refresh
        self._listener = _Listener()
        self._consumer.subscribe(topics=list(topics), listener=self._listener)
        self._known: frozenset[Partition] = frozenset()
        self._held: Sequence[Partition] | None = None
        self.positions: dict[Partition, int] = {}
        self.paused: frozenset[Partition] = frozenset()
        for _ in range(_STEPS):
            if self._refresh_metadata():
                break
            monitor.sleep(_STEP_SECONDS)

    def read(self, seconds: float) -> list[RecordBatch]:
        """Records that are there, or come in time; none where the group rebalanced.

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: whatever the client says.
        """
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
        batches = [batch_of(p, records) for p, records in mine.items() if p in self.positions]
        batches = batches or self._gaps()
        for batch in batches:
            self.positions[batch.partition] = batch.next_offset
        return batches

    def rebalances(self) -> list[Rebalance]:
        """What the group did since the last call."""
        return self._listener.take()

    def hold(self, partitions: Sequence[Partition]) -> None:
        """These were assigned to us, but nothing is read of them until `start`."""
        for partition in map(_topic_partition, partitions):
            self._consumer.pause(partition)
            # Any offset will do: without one, the client would look for one itself.
            self._consumer.seek(partition, 0)
        self._held = partitions

    def assignments(self) -> list[Assignment] | None:
        """What `hold` holds, as the cluster knows it now; None where there was no assignment.

        Raises:
            KafkaError: the cluster does not answer.
            SourceError: it does not know one of them.
        """
        if not self._held:
            return None if self._held is None else []
        config = {**self._config, "request_timeout_ms": _ANSWER_MS}
        with closing(Cluster(config)) as cluster:
            return described(
                cluster,
                self._held,
                self._start,
                first=self._monitor.first,
                group=self._config["group_id"],
            )

    def start(self, offsets: Mapping[Partition, int]) -> list[RecordBatch]:
        """Deliver these partitions from these offsets.

        Returns:
            Batches without values: they tell where reading starts, before there is a record.
        """
        self.seek(offsets)
        self._consumer.resume(*map(_topic_partition, offsets))
        self.paused -= offsets.keys()
        self._held = None
        return [_skip_to(partition, offset) for partition, offset in offsets.items()]

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Let the client go to these offsets, perhaps once more."""
        for partition, offset in offsets.items():
            self._consumer.seek(_topic_partition(partition), offset)
            self.positions[partition] = offset

    def pause(self, partitions: Collection[Partition]) -> None:
        """Deliver nothing of these, and of all others again."""
        wanted = frozenset(partitions).intersection(self.positions)
        if wanted != self.paused:
            self._consumer.pause(*map(_topic_partition, wanted - self.paused))
            self._consumer.resume(*map(_topic_partition, self.paused - wanted))
            self.paused = wanted

    def release(self, partitions: Sequence[Partition]) -> None:
        """The owner has finished or forgotten these."""
        for partition in partitions:
            self.positions.pop(partition, None)
        self.paused -= frozenset(partitions)
        self._listener.release(partitions)
        self._held = None

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell the group; returns what went wrong, in one sentence.

        Raises:
            FencedInstanceIdError: another process uses our member name.
        """
        ours = {each: offset for each, offset in positions.items() if each in self.positions}
        foreign = ", ".join(str(each) for each in sorted(positions) if each not in ours)
        wanted = {_topic_partition(p): OffsetAndMetadata(o, "", -1) for p, o in ours.items()}
        try:
            if wanted:
                self._consumer.commit(wanted, timeout_ms=_COMMIT_MS)
        except FencedInstanceIdError:
            raise
        except CommitFailedError as error:
            return f"Kafka refused the commit, for we have left the group: {_why(error)}."
        except (KafkaError, OSError) as error:
            return f"the commit to Kafka failed: {_why(error)}."
        return f"{foreign}: not ours to commit." if foreign else None

    def close(self) -> None:
        """Leave the group, where dynamic, and close the connection."""
        self._listener.close()
        self._consumer.close(autocommit=False, timeout_ms=_LEAVE_MS)

    def _refresh_metadata(self) -> bool:
        """Let the client look again where the monitor knows partitions that it does not know.

        The client forgets to ask for topics that are subscribed while it asks for others, and would
        share out only what it knows. Returns whether it knows all.
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
        """Let a rejoin that is under way come to its end.

        One that was begun because partitions were added no longer seems necessary to the client
        once it has shared them out, and what `poll` had no time to await is then never taken.
        """
        if self._consumer.group_metadata().state == MemberState.REBALANCING:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001  no other way is offered

    def _gaps(self) -> list[RecordBatch]:
        """Batches without values where the log goes on, but holds nothing to deliver."""
        reached = {each: self._reached(each) for each in self.positions}
        return [
            _skip_to(partition, position)
            for partition, position in reached.items()
            if position > self.positions[partition]
        ]

    def _reached(self, partition: Partition) -> int:
        position = self._consumer.position(_topic_partition(partition), timeout_ms=0)
        return 0 if position is None else int(position)


def batch_of(partition: Partition, records: Sequence[Any]) -> RecordBatch:
    """Consecutive records of the client, at least one; keys and headers are read when asked for."""
    return RecordBatch(
        partition=partition,
        values=[record.value for record in records],
        offsets=[record.offset for record in records],
        next_offset=records[-1].offset + 1,
        timestamps=[record.timestamp for record in records],
        origin=lambda place: _origin(records[place]),
    )


def _skip_to(partition: Partition, offset: int) -> RecordBatch:
    """A batch without values, which moves a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)


def _topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


def _origin(record: Any) -> Origin:
    # A header may be null in Kafka, but the client cannot write such a one again.
    return Origin(record.key, [(name, value or b"") for name, value in record.headers])


def _why(error: Exception) -> str:
    said = str(error).removeprefix(f"{type(error).__name__}: ").rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
