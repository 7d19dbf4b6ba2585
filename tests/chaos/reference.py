"""The expected result of a scenario: an uninterrupted fold of its log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from msgspec.structs import replace

from streameval.checkpoints.format import digest_of
from streameval.config import load
from streameval.config.pipeline import new_ingest
from streameval.daemon.assembly import snapshots_of
from streameval.dead_letters.topic import DeadLetterReader
from streameval.engine.ingest import Ingest
from streameval.engine.snapshots import RuntimeStatus
from streameval.events.records import Partition
from streameval.exporters.prometheus import PrometheusExporter
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.options import LATEST, KafkaOptions
from streameval.sources.source import Positions
from tests.chaos.configuration import DaemonConfig
from tests.chaos.daemons import counters, samples
from tests.effort import PATIENCE


class Fold:
    """A log counted by one process, without store, group or crash."""

    def __init__(self, config: DaemonConfig) -> None:
        self._daemon_config = config
        self._config = load(config.written())
        self.ingest: Ingest = new_ingest(self._config)

    @property
    def digests(self) -> dict[int, dict[str, str]]:
        """Partition number -> digest of each part of its state."""
        return digests(self.ingest)

    @property
    def positions(self) -> dict[int, int]:
        return {partition.number: o for partition, o in self.ingest.positions.items()}

    def counters(self) -> dict[str, float]:
        """The counters of one process that counted everything."""
        source = KafkaSource(self._options, {}, shared=False)
        picture = snapshots_of(self._config, source, self.ingest.layout, 0.0)
        exporter = PrometheusExporter(version="", kafka=True, first_exposure=0)
        snapshot = picture.take(self.ingest.copied(), 0.0, RuntimeStatus())
        return counters(samples(exporter.exposition(snapshot).decode()))

    def read(self, begins: Mapping[int, int] | None = None) -> None:
        """Count from the current position, or that in `begins`, to the end of the log."""
        targets = ends(self._daemon_config)
        topic = self._daemon_config.topic
        changed = {Partition(topic, number): offset for number, offset in (begins or {}).items()}
        deadline = time.monotonic() + PATIENCE
        with closing(KafkaSource(self._options, {}, shared=False)) as source:
            source.open(Positions({**self.ingest.positions, **changed}))
            while any(self.positions.get(each, 0) < end for each, end in targets.items()):
                for batch in source.poll(0.2):
                    self.ingest.apply(batch)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"expected {targets}, read {self.positions}")

    @property
    def _options(self) -> KafkaOptions:
        """The source with kafka-python, for any client of the daemons."""
        source = self._config.source
        assert isinstance(source, KafkaOptions)
        return replace(source, kafka={**source.kafka, "client": "kafka-python"})


def digests(ingest: Ingest) -> dict[int, dict[str, str]]:
    """Partition number -> digest of each part of its state."""
    return {
        partition.number: {
            section.name: digest_of(b"".join(section.content()()))
            for section in ingest.sections(partition)
        }
        for partition in ingest.partitions
    }


def ends(config: DaemonConfig) -> dict[int, int]:
    """Partition number -> offset after the last committed record of a topic."""
    with closing(Cluster({"bootstrap_servers": config.address})) as cluster:
        partitions = cluster.topics([config.topic]).partitions
        found = cluster.offsets(partitions, LATEST)
    return {partition.number: offset for partition, offset in found.items()}


def dead_letters(config: DaemonConfig) -> set[tuple[int, int]]:
    """The dead-lettered records, as (partition, offset)."""
    client, topic = {"bootstrap_servers": config.address}, config.topic
    letters = DeadLetterReader(client, [f"{topic}.dlq"], [topic])
    return {(each.partition.number, each.offset) for each in letters}
