"""What a snapshot says that the pipeline itself cannot know."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.engine.joined import JoinHealth
from streameval.engine.snapshot import CheckpointHealth, Counted, CountedKey, ReloadHealth
from streameval.events.records import Partition


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """The state of everything around the pipeline.

    Attributes:
        ready: whether the source answers and reading has begun.
        trouble: one sentence while the source is in trouble.
        ends: for each partition, the offset after its last record, as far as known.
        counted: what checkpoints have made durable; None where state is not durable.
        checkpoint: how well state is being kept; None where it is not.
        commit_failures: commits of the group's offsets that failed.
        dead_lettered: records set aside as dead letters; None where none are written.
        recoveries: what the watchdog did: step -> how often.
        connection_failures: attempts to reach the source that failed: reason -> how often.
        registry_failures: attempts to ask the schema registry that failed: reason -> how often;
            empty where there is none.
        reload: what became of the configuration; None where it cannot be read again.
        join: how the join of streams is; None where nothing is joined.
        unread: partitions of what is read that other processes count.
    """

    ready: bool
    trouble: str | None = None
    ends: Mapping[Partition, int] = {}
    counted: Mapping[CountedKey, Counted] | None = None
    checkpoint: CheckpointHealth | None = None
    commit_failures: int = 0
    dead_lettered: int | None = None
    recoveries: Mapping[str, int] = {}
    connection_failures: Mapping[str, int] = {}
    registry_failures: Mapping[str, int] = {}
    reload: ReloadHealth | None = None
    join: JoinHealth | None = None
    unread: int = 0
