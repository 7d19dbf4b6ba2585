"""Whether what a scenario left behind is what it should be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing

from kafka import KafkaAdminClient

from streameval.checkpoints.checkpoint import Place
from streameval.checkpoints.store import SavedCheckpoint
from streameval.sources.kafka.cluster import Cluster
from tests.chaos.configuration import Setting
from tests.chaos.log import Content
from tests.chaos.truth import Fold, dead_letters, ends

Faults = list[str]

_ULPS = 1e-9
"""Relative; sums of floats in another order differ by less."""


def faults(
    setting: Setting,
    fold: Fold,
    content: Content,
    *,
    counted: Mapping[str, float],
    exact: bool,
) -> Faults:
    """One sentence for everything that is wrong; none where all is as it should be.

    Args:
        setting: of a daemon that has ended in order.
        fold: of the whole log.
        content: what was written to its topic.
        counted: counters by sample, added up over all processes that there were.
        exact: whether nothing may be missing in them: no process died without a word.
    """
    return [
        *_states(setting, fold),
        *_letters(setting, content),
        *_records(fold, content),
        *_counters(fold.counters(), counted, exact=exact),
        *progress(setting, ended=True),
    ]


def progress(setting: Setting, *, ended: bool = False) -> Faults:
    """Of each partition, committed <= checkpoint <= end; all equal where counting has ended."""
    told = committed(setting)
    covered = {number: each.header.offset for number, each in saved(setting).items()}
    there = ends(setting)
    return [
        f"partition {number}: committed {told.get(number)}, saved {covered.get(number)}, end {end}"
        for number, end in sorted(there.items())
        if not told.get(number, 0) <= covered.get(number, 0) <= end
        or (ended and not told.get(number, 0) == covered.get(number, 0) == end)
    ]


def saved(setting: Setting) -> dict[int, SavedCheckpoint]:
    """The newest sound checkpoint of each partition of the topic as it is now, by its number."""
    with closing(Cluster({"bootstrap_servers": setting.address})) as cluster:
        described = cluster.topics([setting.topic])
    identity = described.identities[setting.topic]
    kept = setting.store
    found = {
        partition.number: kept.newest(Place(setting.topic, identity, partition.number)).saved
        for partition in described.partitions
    }
    return {number: each for number, each in found.items() if each is not None}


def committed(setting: Setting) -> dict[int, int]:
    """What the group has committed, by number of the partition."""
    with closing(KafkaAdminClient(bootstrap_servers=setting.address)) as admin:
        found = admin.list_group_offsets({setting.group: None})[setting.group]
    return {place.partition: each.offset for place, each in found.items() if each.offset >= 0}


def _states(setting: Setting, fold: Fold) -> Faults:
    found, there = [], saved(setting)
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


def _letters(setting: Setting, content: Content) -> Faults:
    found = dead_letters(setting)
    missing, more = content.bad - found, found - content.bad
    return [
        *([f"{len(missing)} invalid records were not set aside"] if missing else []),
        *([f"{len(more)} valid records were set aside"] if more else []),
    ]


def _records(fold: Fold, content: Content) -> Faults:
    tally = fold.ingest.tally
    invalid = sum(tally.invalid.values())
    accounted = tally.valid + invalid + tally.tombstones + tally.duplicates
    if accounted == content.count and invalid == len(content.bad):
        return []
    written = f"{content.count} records were written ({len(content.bad)} bad)"
    return [f"{written}, {accounted} are accounted for ({invalid} bad)"]


def _counters(truth: Mapping[str, float], shown: Mapping[str, float], *, exact: bool) -> Faults:
    wrong = [
        f"{name} is {shown.get(name, 0.0)} in all processes together, and in truth "
        f"{truth.get(name, 0.0)}"
        for name in sorted(truth.keys() | shown.keys())
        if not _right(truth.get(name, 0.0), shown.get(name, 0.0), exact=exact)
    ]
    return [f"{len(wrong)} counters are wrong; {wrong[0]}"] if wrong else []


def _right(truth: float, shown: float, *, exact: bool) -> bool:
    same = math.isclose(truth, shown, rel_tol=_ULPS, abs_tol=_ULPS)
    return same or (shown < truth and not exact)
