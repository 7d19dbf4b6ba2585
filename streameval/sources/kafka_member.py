"""One membership in a consumer group, from joining to leaving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final

from kafka import KafkaConsumer
from kafka.coordinator.base import MemberState
from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from streameval.records import Assignment, Partition, RecordBatch
from streameval.sources.kafka_assignments import assignments, require_described
from streameval.sources.kafka_base import KafkaBase
from streameval.sources.kafka_batches import topic_partition
from streameval.sources.kafka_client import connected
from streameval.sources.kafka_cluster import Cluster
from streameval.sources.kafka_listener import Happening, Listener, interrupted
from streameval.sources.kafka_reader import KafkaReader

_COMMIT_MS: Final = 1_000
_LEAVE_MS: Final = 5_000
_ANSWER_MS: Final = 5_000
_STEPS: Final = 100
_STEP_SECONDS: Final = 0.02


class KafkaMember:
    """A consumer that is subscribed, and reads what it was told to begin.

    Args:
        base: topics and settings.

    Attributes:
        waiting: partitions that were given to us and are not begun; None where none were given.

    Raises:
        KafkaError: no broker answers.
    """

    def __init__(self, base: KafkaBase) -> None:
        self._base = base
        self._consumer, self._cluster = connected(KafkaConsumer, base.config)
        self._reader = KafkaReader(self._consumer)
        self._listener = Listener()
        self._consumer.subscribe(topics=list(base.topics), listener=self._listener)
        self._found: Mapping[Partition, Assignment] = {}
        self.waiting: Sequence[Partition] | None = None
        for _ in range(_STEPS):
            if self.learn():
                break
            base.watch.pause(_STEP_SECONDS)

    @property
    def positions(self) -> Mapping[Partition, int]:
        """What is read -> the offset after what was delivered of it."""
        return self._reader.positions

    @property
    def held(self) -> Collection[Partition]:
        """What is left alone for a while."""
        return self._reader.held

    def hold(self, partitions: Collection[Partition]) -> None:
        """Leave these alone, and no others."""
        self._reader.hold(partitions)

    def learn(self) -> bool:
        """Let the client look again where the watch knows partitions that it does not know.

        The client forgets to ask for topics that are subscribed while it asks for others, and would
        share out only what it knows. Returns whether it knows all.
        """
        found = self._base.watch.found
        if found is not self._found:
            counts = Counter(partition.topic for partition in found)
            known = self._cluster.partitions_for_topic
            if any(len(known(topic) or ()) < count for topic, count in counts.items()):
                self._cluster.request_update()
                return False
            self._found = found
        return True

    def read(self, seconds: float) -> list[RecordBatch]:
        """Records; none where something happened in the group, which `happenings` tells.

        Raises:
            KafkaError: whatever the client says.
        """
        self.learn()
        self._insist()
        try:
            return self._reader.read(seconds)
        except KafkaError as error:
            if not interrupted(error):
                raise
        return []

    def _insist(self) -> None:
        """Let a rejoining that is under way come to its end.

        One that was begun because partitions were added no longer seems necessary to the client
        once it has shared them out, and what `poll` had no time to await is then never taken.
        """
        if self._consumer.group_metadata().state == MemberState.REBALANCING:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001  no other way is offered

    def happenings(self) -> list[Happening]:
        """What has happened since the last time."""
        return self._listener.take()

    def wait(self, partitions: Sequence[Partition]) -> None:
        """These are ours, but nothing is read of them until `begin`."""
        for partition in map(topic_partition, partitions):
            self._consumer.pause(partition)
            # Any place will do: without one, the client would look for one itself.
            self._consumer.seek(partition, 0)
        self.waiting = partitions

    def described(self) -> list[Assignment] | None:
        """What waits, as the cluster knows it now; None where nothing waits.

        Raises:
            KafkaError: the cluster does not answer.
            SourceError: it does not know one of them.
        """
        if not self.waiting:
            return None if self.waiting is None else []
        base = self._base
        with closing(Cluster({**base.config, "request_timeout_ms": _ANSWER_MS})) as cluster:
            topics = cluster.topics(sorted({partition.topic for partition in self.waiting}))
            require_described(topics, self.waiting)
            old, group = base.watch.first, base.config["group_id"]
            return assignments(cluster, topics, self.waiting, base.start, old=old, group=group)

    def begin(self, starts: Mapping[Partition, int]) -> list[RecordBatch]:
        """Read what has waited from these offsets."""
        batches = self._reader.begin(starts)
        self._consumer.resume(*map(topic_partition, starts))
        self.waiting = None
        return batches

    def give_up(self, partitions: Sequence[Partition]) -> None:
        """The owner has finished or forgotten these."""
        self._reader.end(partitions)
        self._listener.finish(partitions)
        self.waiting = None

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Go there once more."""
        self._reader.begin(positions)

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell the group; returns what went wrong, in one sentence.

        Raises:
            FencedInstanceIdError: another process has our name.
        """
        ours = {each: offset for each, offset in positions.items() if each in self.positions}
        foreign = ", ".join(str(each) for each in sorted(positions) if each not in ours)
        wanted = {topic_partition(p): OffsetAndMetadata(o, "", -1) for p, o in ours.items()}
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
        """Leave, where dynamic, and let go of the connection."""
        self._listener.close()
        self._consumer.close(autocommit=False, timeout_ms=_LEAVE_MS)


def _why(error: Exception) -> str:
    said = str(error).removeprefix(f"{type(error).__name__}: ").rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
