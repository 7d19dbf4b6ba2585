"""What must be true at the end: the fold of the log, and of nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from hashlib import blake2b

from msgspec.structs import replace

from streameval.config import load
from streameval.config.pipeline import new_ingest
from streameval.daemon.assembly import snapshots_of
from streameval.dead_letters.replay import DeadLetterReader
from streameval.engine.ingest import Ingest
from streameval.engine.snapshots import RuntimeStatus
from streameval.events.records import Partition
from streameval.exporters.prometheus import PrometheusExporter
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.options import LATEST, KafkaOptions
from streameval.sources.source import Positions
from tests.chaos.configuration import Setting
from tests.chaos.daemons import counters, samples
from tests.effort import PATIENCE


class Fold:
    """A log that is folded by one process, without any store, group or crash.

    Args:
        setting: whose configuration says what is read, and how it is counted.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._config = load(setting.written())
        self.ingest: Ingest = new_ingest(self._config)

    @property
    def digests(self) -> dict[int, dict[str, str]]:
        """Of each part of each partition's state, by number of the partition."""
        return digests(self.ingest)

    @property
    def positions(self) -> dict[int, int]:
        """Offset after the last record of each partition."""
        return {partition.number: o for partition, o in self.ingest.positions.items()}

    def counters(self) -> dict[str, float]:
        """What counters would show of all of it."""
        source = KafkaSource(self._options, {}, shared=False)
        picture = snapshots_of(self._config, source, self.ingest.layout, 0.0)
        exporter = PrometheusExporter(version="", kafka=True, first_exposure=0)
        snapshot = picture.take(self.ingest.copied(), 0.0, RuntimeStatus())
        return counters(samples(exporter.exposition(snapshot).decode()))

    def read(self, begins: Mapping[int, int] | None = None) -> None:
        """Fold what there is from where it stands.

        Args:
            begins: where to go on instead, by number of the partition.

        Raises:
            TimeoutError: it does not come.
        """
        targets = ends(self._setting)
        topic = self._setting.topic
        told = {Partition(topic, number): offset for number, offset in (begins or {}).items()}
        deadline = time.monotonic() + PATIENCE
        with closing(KafkaSource(self._options, {}, shared=False)) as source:
            source.open(Positions({**self.ingest.positions, **told}))
            while any(self.positions.get(each, 0) < end for each, end in targets.items()):
                for batch in source.poll(0.2):
                    self.ingest.apply(batch)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{targets} awaited, {self.positions} read")

    @property
    def _options(self) -> KafkaOptions:
        """By kafka-python, whichever client the daemons read with."""
        source = self._config.source
        assert isinstance(source, KafkaOptions)
        return replace(source, kafka={**source.kafka, "client": "kafka-python"})


def digests(ingest: Ingest) -> dict[int, dict[str, str]]:
    """Of each part of each partition's state, by number of the partition."""
    return {
        partition.number: {
            section.name: _digest(b"".join(section.content()()))
            for section in ingest.sections(partition)
        }
        for partition in ingest.partitions
    }


def ends(setting: Setting) -> dict[int, int]:
    """The offset after the last committed record of each partition of a topic."""
    with closing(Cluster({"bootstrap_servers": setting.address})) as cluster:
        partitions = cluster.topics([setting.topic]).partitions
        found = cluster.offsets(partitions, LATEST)
    return {partition.number: offset for partition, offset in found.items()}


def dead_letters(setting: Setting) -> set[tuple[int, int]]:
    """Identities of the records that were set aside, as (partition, offset)."""
    config, topic = {"bootstrap_servers": setting.address}, setting.topic
    letters = DeadLetterReader(config, [f"{topic}.dlq"], [topic])
    return {(each.partition.number, each.offset) for each in letters}


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=32).hexdigest()
