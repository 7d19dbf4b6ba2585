"""One membership in a consumer group, by either client: its rebalances, records and commits.

Functions raise KafkaError where the broker does not answer, and FencedInstanceIdError where another
process uses the name of our member; `tell` and `hand_over_again` raise what the owner raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeAlias

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, FencedInstanceIdError, KafkaError

from streameval.errors import MissingExtraError
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.sources.kafka.client import connect
from streameval.sources.kafka.cluster import Cluster, described
from streameval.sources.kafka.consumer import Consumer, Rebalance, Rebalances, skip_to
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.settings import KAFKA_PYTHON, client_of
from streameval.sources.kafka.watchdog import ClusterMonitor
from streameval.sources.options import KafkaOptions

_ANSWER_MS: Final = 5_000


Subscribe: TypeAlias = Callable[[Sequence[str], Rebalances, ClusterMonitor], Consumer]
"""Makes a consumer of these topics; raises KafkaError where no broker answers."""


def subscribing(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> Subscribe:
    """What makes consumers of the client that is asked for."""
    if client_of(options) == KAFKA_PYTHON:
        return partial(KafkaPythonConsumer, config)
    settings = _module("librdkafka").librdkafka_config(options, environment, config)
    return partial(_module("confluent").ConfluentConsumer, settings, config)


def try_reader(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Let the client connect once, as it would to read."""
    if client_of(options) == KAFKA_PYTHON:
        connect(KafkaConsumer, config).close(autocommit=False)
        return
    named = {**config, "group_id": options.group}
    librdkafka = _module("librdkafka")
    librdkafka.try_connection(librdkafka.librdkafka_config(options, environment, named))


def _module(name: str) -> ModuleType:
    """One of those that need the extra."""
    try:
        return import_module(f"streameval.sources.kafka.{name}")
    except ImportError as error:
        raise MissingExtraError('client = "confluent" of [source.kafka]', "fast", error) from error


class GroupMember:
    """A subscribed consumer, of either client; it delivers the assigned partitions once started.

    `start`: EARLIEST, LATEST, or milliseconds since the epoch.

    Attributes:
        positions: partition -> the offset after what was delivered; of those that were started.
        paused: those of them that are not delivered for now.
        held: assigned, and not started yet; None where nothing was assigned since.
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
        self._config = config
        self._start = start
        self._monitor = monitor
        self._owner = owner
        self._untold: deque[Rebalance] = deque()
        self.held: Sequence[Partition] | None = None
        self.positions: dict[Partition, int] = {}
        self.paused: frozenset[Partition] = frozenset()
        self._consumer = subscribe(topics, self, monitor)

    def read(self, seconds: float) -> list[RecordBatch]:
        """Records that are there, or come in time; none where the group rebalanced."""
        # Below zero, one client would wait for ever, and the other refuses it.
        batches = self._consumer.poll(max(0.0, seconds), self.positions)
        for batch in batches:
            self.positions[batch.partition] = batch.next_offset
        return batches

    def note(self, rebalance: Rebalance) -> None:
        """Keep it until the owner was called."""
        self._untold.append(rebalance)

    def tell(self) -> None:
        """Tell the owner of the rebalances that were noted."""
        while self._untold:
            self._apply(self._untold[0])
            self._untold.popleft()

    def hold(self, partitions: Sequence[Partition]) -> None:
        """These were assigned to us, but nothing is read of them until `start`."""
        self._consumer.hold(partitions)
        self.held = partitions

    def hand_over_again(self) -> None:
        """The log no longer has what comes next: the owner decides, as it does after a restart."""
        mine = sorted(self.positions)
        self._owner.revoked(mine)
        self.positions.clear()
        self.hold(mine)

    def assignments(self) -> list[Assignment]:
        """What is held, as the cluster knows it now."""
        if not self.held:
            return []
        config = {**self._config, "request_timeout_ms": _ANSWER_MS}
        with closing(Cluster(config)) as cluster:
            return described(
                cluster,
                self.held,
                self._start,
                first=self._monitor.first,
                group=self._config["group_id"],
            )

    def start(self, offsets: Mapping[Partition, int]) -> list[RecordBatch]:
        """Deliver these partitions from these offsets; the batches move their positions there."""
        self._consumer.start(offsets)
        self.positions.update(offsets)
        self.paused -= offsets.keys()
        self.held = None
        return [skip_to(partition, offset) for partition, offset in offsets.items()]

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Let the client go to these offsets, perhaps once more."""
        self._consumer.seek(offsets)
        self.positions.update(offsets)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Deliver nothing of these, and of all others again."""
        wanted = frozenset(partitions).intersection(self.positions)
        if wanted != self.paused:
            self._consumer.pause(wanted - self.paused)
            self._consumer.resume(self.paused - wanted)
            self.paused = wanted

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell the group, for what was assigned to us; returns what went wrong, in one sentence."""
        mine = {*self.positions, *(self.held or ())}
        ours = {each: offset for each, offset in positions.items() if each in mine}
        foreign = ", ".join(str(each) for each in sorted(positions) if each not in ours)
        try:
            if ours:
                self._consumer.commit(ours)
        except FencedInstanceIdError:
            raise
        except CommitFailedError as error:
            return f"Kafka refused the commit: this member has left the group: {_why(error)}."
        except (KafkaError, OSError) as error:
            return f"the commit to Kafka failed: {_why(error)}."
        return f"{foreign}: not ours to commit." if foreign else None

    def close(self) -> None:
        """Leave the group, where dynamic, and close the connection."""
        self._consumer.close()

    def _apply(self, rebalance: Rebalance) -> None:
        if rebalance.what == "assigned":
            self.hold(rebalance.partitions)
            return
        mine = [each for each in rebalance.partitions if each in self.positions]
        if mine:
            tell = self._owner.revoked if rebalance.what == "revoked" else self._owner.lost
            tell(mine)
        for partition in rebalance.partitions:
            self.positions.pop(partition, None)
        self.paused -= frozenset(rebalance.partitions)
        self._consumer.release(rebalance.partitions)
        self.held = None


def _why(error: Exception) -> str:
    said = str(error).removeprefix(f"{type(error).__name__}: ").rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
