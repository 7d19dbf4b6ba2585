"""Topics of a Kafka cluster as a source: all partitions, read by one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer

from streameval.records import Assignment, Owner, Partition, RecordBatch
from streameval.sources.kafka_assignments import places
from streameval.sources.kafka_base import KafkaBase
from streameval.sources.kafka_batches import topic_partition
from streameval.sources.kafka_client import connect
from streameval.sources.kafka_group import KafkaGroupSource
from streameval.sources.kafka_probe import probe
from streameval.sources.kafka_reader import KafkaReader
from streameval.sources.kafka_settings import source_config, source_topics
from streameval.sources.kafka_start import start_spec
from streameval.sources.options import KafkaOptions
from streameval.sources.owning import Positions

__all__ = ["KafkaGroupSource", "KafkaSource", "probe"]


class KafkaSource:
    """Every partition of some topics, without a consumer group, and without a commit.

    Only committed records are delivered. Where records are missing from the log (compaction,
    aborted transactions), a batch without values moves the position over them. Partitions that
    are added, and topics that are made, while it is open are read from their beginning.

    Args:
        options: the topics, where to begin, and settings of the client.
        environment: what ${NAME} in the settings refers to.

    Raises:
        ConfigError: a setting is unknown or not a user's to set, or `start` is no such thing.
        SourceError: no topic is named.
    """

    def __init__(self, options: KafkaOptions, environment: Mapping[str, str]) -> None:
        self._base = KafkaBase(
            source_topics(options), source_config(options, environment), start_spec(options.start)
        )
        self._owner: Owner = Positions()
        self._consumer: Any = None
        self._reader: KafkaReader | None = None

    @property
    def name(self) -> str:
        """The topics."""
        return self._base.name

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._base.watch.cluster

    @property
    def ended(self) -> Collection[Partition]:
        """None: a topic has no end."""
        return ()

    @property
    def finished(self) -> bool:
        """Never: a topic has no end."""
        return False

    @property
    def trouble(self) -> str | None:
        """Why nothing, or not everything, can be read at the moment."""
        return self._base.trouble

    @property
    def joined(self) -> bool:
        """Whether the owner has taken what there is, be it nothing."""
        watch, reader = self._base.watch, self._reader
        return watch.looked and (not watch.found or bool(reader and reader.positions))

    def open(self, owner: Owner) -> None:
        """Begin to look for the cluster; `poll` hands partitions over as they are found."""
        self.close()
        self._owner = owner
        self._base.begin()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Records that are there; also batches without values, which move a position over a gap.

        Raises:
            SourceError: reading begins outside a log, a topic was made again, a record is corrupt,
                or the client refuses its settings.
        """
        found = self._base.watch.await_found(seconds)
        self._base.require_sound()
        begun = {} if self._reader is None else self._reader.positions
        new = [found[partition] for partition in found if partition not in begun]
        if new:
            return self._begin(new, seconds)
        with self._base.guard(seconds):
            return [] if self._reader is None else self._reader.read(seconds)
        return []

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Nothing: without a group, nobody is to be told."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Leave these alone until told otherwise."""
        if self._reader is not None:
            self._reader.hold(partitions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The offset after the last committed record of each partition, at most a second old."""
        return self._base.watch.ends

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._base.watch.end()
        consumer, self._consumer, self._reader = self._consumer, None, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def _begin(self, new: Sequence[Assignment], seconds: float) -> Sequence[RecordBatch]:
        """Read these too; the client keeps its place in what it reads already."""
        with self._base.guard(seconds):
            if self._reader is None:
                self._consumer = connect(KafkaConsumer, self._base.config)
                self._reader = KafkaReader(self._consumer)
        if self._reader is None:
            return []
        starts = places(self._owner, new)
        wanted = [*self._reader.positions, *starts]
        self._consumer.assign([topic_partition(partition) for partition in wanted])
        return self._reader.begin(starts)
