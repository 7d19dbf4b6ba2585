"""A member of a consumer group, with either client: its rebalances, records and commits.

Functions raise KafkaError if the broker does not answer, and FencedInstanceIdError if another
process uses our member name; `dispatch` and `reassign` raise errors of the owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeAlias

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError

from streameval.events.records import PENDING, Assignment, Owner, Partition, RecordBatch
from streameval.extras import imported
from streameval.sources.kafka.client import connect
from streameval.sources.kafka.cluster import Cluster, assignments_of
from streameval.sources.kafka.consumer import Consumer, Rebalance, Rebalances, skip_to
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.settings import KAFKA_PYTHON, client_of
from streameval.sources.kafka.watchdog import ClusterMonitor
from streameval.sources.options import KafkaOptions

_ANSWER_MS: Final = 5_000


Subscribe: TypeAlias = Callable[[Sequence[str], Rebalances, ClusterMonitor], Consumer]
"""Creates a consumer of topics; raises KafkaError if no broker answers."""


def consumer_factory(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> Subscribe:
    """A factory of consumers of the configured client."""
    if client_of(options) == KAFKA_PYTHON:
        return partial(KafkaPythonConsumer, config)
    settings = _module("librdkafka").librdkafka_config(options, environment, config)
    return partial(_module("confluent").ConfluentConsumer, settings, config)


def try_connection(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Let the configured client connect once, with the settings of a reader."""
    if client_of(options) == KAFKA_PYTHON:
        connect(KafkaConsumer, config).close(autocommit=False)
        return
    named = {**config, "group_id": options.group}
    librdkafka = _module("librdkafka")
    librdkafka.try_connection(librdkafka.librdkafka_config(options, environment, named))


def _module(name: str) -> Any:
    """Import a module that needs the extra."""
    what = 'client = "confluent" of [source.kafka]'
    return imported(f"streameval.sources.kafka.{name}", what, "fast")


class GroupMember:
    """A subscribed consumer of either client, which delivers assigned partitions once started.

    `start`: EARLIEST, LATEST, or milliseconds since the epoch.

    Attributes:
        positions: started partition -> the offset after the last delivered record.
        paused: started partitions that are paused.
        unstarted: assigned partitions that wait for `start`; None without a new assignment.
    """

    def __init__(
        self,
        topics: Sequence[str],
        subscribe: Subscribe,
        *,
        config: Mapping[str, Any],
        start: int,
        monitor: ClusterMonitor,
        owner: Owner,
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
        """Keep a rebalance until the owner is called."""
        self._pending.append(rebalance)

    def dispatch(self) -> None:
        """Call the owner for each queued rebalance."""
        while self._pending:
            self._apply(self._pending[0])
            self._pending.popleft()

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Hold assigned partitions back until `start`."""
        self._consumer.hold(partitions)
        self.unstarted = partitions

    def reassign(self) -> None:
        """Assign all partitions again after data loss: the owner decides, as after a restart."""
        mine = sorted(self.positions)
        self._owner.revoked(mine)
        self.positions.clear()
        self.hold(mine)

    def assignments(self) -> list[Assignment]:
        """The assignments of the unstarted partitions, with current offsets of the cluster."""
        if not self.unstarted:
            return []
        with self._cluster() as cluster:
            return assignments_of(
                cluster,
                self.unstarted,
                self._start,
                first=self._monitor.first,
                group=self._config["group_id"],
            )

    def missing_topics(self) -> Sequence[str]:
        """The topics that do not exist, or that this user may not describe."""
        with self._cluster() as cluster:
            found = cluster.topics(self._topics)
        return [*found.missing, *found.refused]

    def start(self, offsets: Mapping[Partition, int]) -> list[RecordBatch]:
        """Deliver partitions from these offsets; the returned batches move the positions there."""
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
        wanted = frozenset(partitions).intersection(self.positions)
        if wanted != self.paused:
            self._consumer.pause(wanted - self.paused)
            self._consumer.resume(self.paused - wanted)
            self.paused = wanted

    def commit(self, positions: Mapping[Partition, int], *, wait: bool) -> str | None:
        """Commit the assigned partitions; returns the problem in one sentence, PENDING or None."""
        mine = {*self.positions, *(self.unstarted or ())}
        ours = {each: offset for each, offset in positions.items() if each in mine}
        foreign = ", ".join(str(each) for each in sorted(positions) if each not in ours)
        try:
            if ours and not self._consumer.commit(ours, wait=wait):
                return PENDING
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
        return closing(Cluster({**self._config, "request_timeout_ms": _ANSWER_MS}))

    def _apply(self, rebalance: Rebalance) -> None:
        if rebalance.what == "assigned":
            self.hold(rebalance.partitions)
            return
        mine = [each for each in rebalance.partitions if each in self.positions]
        if mine:
            call = self._owner.revoked if rebalance.what == "revoked" else self._owner.lost
            call(mine)
        for partition in rebalance.partitions:
            self.positions.pop(partition, None)
        self.paused -= frozenset(rebalance.partitions)
        self._consumer.release(rebalance.partitions)
        self.unstarted = None


def _why(error: Exception) -> str:
    name = type(error).__name__
    text = str(error).removeprefix(f"{name}: ").rstrip(".")
    # kafka-python repeats the name or says None where it has nothing to say.
    return name if text in ("", "None", name) else f"{name}: {text}"
