"""Checks the state, dead letters, commits and counters that a scenario leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing

from kafka import KafkaAdminClient

from streameval.checkpoints.checkpoint import Place
from streameval.checkpoints.store import SavedCheckpoint
from streameval.sources.kafka.cluster import Cluster
from tests.chaos.configuration import DaemonConfig
from tests.chaos.log import LogContents
from tests.chaos.reference import Fold, dead_letters, ends

Problems = list[str]

_ULPS = 1e-9
"""Relative tolerance for sums of floats in another order."""


def problems(
    config: DaemonConfig,
    fold: Fold,
    content: LogContents,
    *,
    counted: Mapping[str, float],
    exact: bool,
) -> Problems:
    """One message for each deviation from the reference, after a daemon that stopped cleanly.

    Args:
        config: of the daemon.
        fold: of the whole log.
        content: of its topic.
        counted: sample -> sum of the counter over all processes.
        exact: whether counters must be complete, because every process stopped cleanly.
    """
    return [
        *_states(config, fold),
        *_dead_letters(config, content),
        *_records(fold, content),
        *_counters(fold.counters(), counted, exact=exact),
        *progress(config, ended=True),
    ]


def progress(config: DaemonConfig, *, ended: bool = False) -> Problems:
    """Partitions that break committed <= checkpoint <= end, or equality if `ended`."""
    told = committed(config)
    covered = {number: each.header.offset for number, each in saved(config).items()}
    there = ends(config)
    return [
        f"partition {number}: committed {told.get(number)}, saved {covered.get(number)}, end {end}"
        for number, end in sorted(there.items())
        if not told.get(number, 0) <= covered.get(number, 0) <= end
        or (ended and not told.get(number, 0) == covered.get(number, 0) == end)
    ]


def saved(config: DaemonConfig) -> dict[int, SavedCheckpoint]:
    """Partition number -> newest valid checkpoint, for the current topic id."""
    with closing(Cluster({"bootstrap_servers": config.address})) as cluster:
        described = cluster.topics([config.topic])
    identity = described.identities[config.topic]
    kept = config.store
    found = {
        partition.number: kept.newest(Place(config.topic, identity, partition.number)).saved
        for partition in described.partitions
    }
    return {number: each for number, each in found.items() if each is not None}


def committed(config: DaemonConfig) -> dict[int, int]:
    """Partition number -> committed offset of the group."""
    with closing(KafkaAdminClient(bootstrap_servers=config.address)) as admin:
        found = admin.list_group_offsets({config.group: None})[config.group]
    return {place.partition: each.offset for place, each in found.items() if each.offset >= 0}


def _states(config: DaemonConfig, fold: Fold) -> Problems:
    found, there = [], saved(config)
    for number, here in sorted(fold.digests.items()):
        digests = there[number].digests if number in there else {}
        names = sorted(here.keys() | digests.keys())
        unlike = [name for name in names if here.get(name) != digests.get(name)]
        if unlike:
            found.append(
                f"partition {number} is not the fold of its log: "
                f"{len(unlike)} of {len(names)} parts differ ({', '.join(unlike[:3])})"
            )
    return found


def _dead_letters(config: DaemonConfig, content: LogContents) -> Problems:
    found = dead_letters(config)
    missing, more = content.bad - found, found - content.bad
    return [
        *([f"{len(missing)} invalid records are not in the dead letters"] if missing else []),
        *([f"{len(more)} valid records are in the dead letters"] if more else []),
    ]


def _records(fold: Fold, content: LogContents) -> Problems:
    tally = fold.ingest.tally
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
