"""The expected result of a scenario, a recount of its log, and the check of what it leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing

from msgspec.structs import replace

from streameval.checkpoints.dead_letters.topic import DeadLetterReader
from streameval.checkpoints.format import Shard, digest_of
from streameval.checkpoints.store import SavedCheckpoint
from streameval.config import load
from streameval.config.pipeline import new_ingest
from streameval.daemon.assembly import snapshots_of
from streameval.engine.capture import RuntimeStatus
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.exporters.prometheus import PrometheusExporter
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.settings import LATEST, KafkaOptions
from streameval.sources.source import Positions
from tests.chaos.daemons import DaemonConfig, counters, samples
from tests.chaos.log import LogContents
from tests.effort import PATIENCE
from tests.kafka.topics import admin_of


class Recount:
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
            while any(self.positions.get(number, 0) < end for number, end in targets.items()):
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
        offsets = cluster.offsets(partitions, LATEST)
    return {partition.number: offset for partition, offset in offsets.items()}


def dead_letters(config: DaemonConfig) -> set[tuple[int, int]]:
    """The dead-lettered records, as (partition, offset)."""
    client, topic = {"bootstrap_servers": config.address}, config.topic
    letters = DeadLetterReader(client, [f"{topic}.dlq"], [topic])
    return {(dead_letter.partition.number, dead_letter.offset) for dead_letter in letters}


Problems = list[str]

_ULPS = 1e-9
"""Relative tolerance for sums of floats in another order."""


def problems(
    config: DaemonConfig,
    recount: Recount,
    content: LogContents,
    *,
    counted: Mapping[str, float],
    exact: bool,
) -> Problems:
    """One message for each deviation from the reference, after a daemon that stopped cleanly.

    Args:
        config: of the daemon.
        recount: of the whole log.
        content: of its topic.
        counted: sample -> sum of the counter over all processes.
        exact: whether counters must be complete, because every process stopped cleanly.
    """
    return [
        *_states(config, recount),
        *_dead_letters(config, content),
        *_records(recount, content),
        *_counters(recount.counters(), counted, exact=exact),
        *progress(config, ended=True),
    ]


def progress(config: DaemonConfig, *, ended: bool = False) -> Problems:
    """Partitions that break committed <= checkpoint <= end, or equality if `ended`."""
    told = committed(config)
    covered = {
        number: checkpoint.header.offset
        for number, checkpoint in newest_checkpoints(config).items()
    }
    there = ends(config)
    return [
        f"partition {number}: committed {told.get(number)}, saved {covered.get(number)}, end {end}"
        for number, end in sorted(there.items())
        if not told.get(number, 0) <= covered.get(number, 0) <= end
        or (ended and not told.get(number, 0) == covered.get(number, 0) == end)
    ]


def newest_checkpoints(config: DaemonConfig) -> dict[int, SavedCheckpoint]:
    """Partition number -> newest valid checkpoint, for the current topic id."""
    with closing(Cluster({"bootstrap_servers": config.address})) as cluster:
        described = cluster.topics([config.topic])
    identity = described.identities[config.topic]
    store = config.store
    checkpoints = {
        partition.number: store.newest(Shard(config.topic, identity, partition.number)).saved
        for partition in described.partitions
    }
    return {
        number: checkpoint for number, checkpoint in checkpoints.items() if checkpoint is not None
    }


def committed(config: DaemonConfig) -> dict[int, int]:
    """Partition number -> committed offset of the group."""
    with admin_of(config.address) as admin:
        group_offsets = admin.list_group_offsets({config.group: None})[config.group]
    return {
        at.partition: group_offset.offset
        for at, group_offset in group_offsets.items()
        if group_offset.offset >= 0
    }


def _states(config: DaemonConfig, recount: Recount) -> Problems:
    states, there = [], newest_checkpoints(config)
    for number, here in sorted(recount.digests.items()):
        digests = there[number].digests if number in there else {}
        names = sorted(here.keys() | digests.keys())
        unlike = [name for name in names if here.get(name) != digests.get(name)]
        if unlike:
            states.append(
                f"partition {number} is not the count of its log: "
                f"{len(unlike)} of {len(names)} parts differ ({', '.join(unlike[:3])})"
            )
    return states


def _dead_letters(config: DaemonConfig, content: LogContents) -> Problems:
    letters = dead_letters(config)
    missing, more = content.bad - letters, letters - content.bad
    return [
        *([f"{len(missing)} invalid records are not in the dead letters"] if missing else []),
        *([f"{len(more)} valid records are in the dead letters"] if more else []),
    ]


def _records(recount: Recount, content: LogContents) -> Problems:
    tally = recount.ingest.tally
    invalid = sum(tally.invalid.values())
    accounted = tally.valid + invalid + tally.tombstones + tally.duplicates
    if accounted == content.count and invalid == len(content.bad):
        return []
    written = f"{content.count} records were written ({len(content.bad)} bad)"
    return [f"{written}, {accounted} are accounted for ({invalid} bad)"]


def _counters(truth: Mapping[str, float], shown: Mapping[str, float], *, exact: bool) -> Problems:
    wrong = [
        f"{name} sums to {shown.get(name, 0.0)} over all processes; expected {truth.get(name, 0.0)}"
        for name in sorted(truth.keys() | shown.keys())
        if not _right(truth.get(name, 0.0), shown.get(name, 0.0), exact=exact)
    ]
    return [f"{len(wrong)} counters are wrong; {wrong[0]}"] if wrong else []


def _right(truth: float, shown: float, *, exact: bool) -> bool:
    same = math.isclose(truth, shown, rel_tol=_ULPS, abs_tol=_ULPS)
    return same or (shown < truth and not exact)
