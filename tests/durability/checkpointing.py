"""A checkpointer that counts records made by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streameval.checkpoints.format import CheckpointDraft, Shard
from streameval.checkpoints.settings import LogEvent, Policies
from streameval.checkpoints.store import Store
from streameval.engine.dead_letters import Identity
from streameval.events.records import Assignment, CommitAnswer, Partition, RecordBatch
from tests.batches import batch_of
from tests.durability.process import METRIC, SETTINGS, Member, record
from tests.stores.drafts import MemoryStore

P = Partition("events", 0)
OTHER = Partition("events", 1)


def assignment(**changed: Any) -> Assignment:
    """Partition 0 of 4, with a hundred records, none of them committed."""
    usual = Assignment(partition=P, identity="id-1", begin=0, end=100, start=0, partitions=4)
    return msgspec.structs.replace(usual, **changed)


def batch(start: int, stop: int, partition: Partition = P, minute: int = 0) -> RecordBatch:
    """Events of one variant and minute, all of them hits."""
    values = [record(number, minute=minute, variant="x") for number in range(start, stop)]
    return batch_of(partition, values, start)


class Recorded(MemoryStore):
    """Attributes: rounds: the drafts of each round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[Sequence[CheckpointDraft]] = []

    def save(self, drafts: Sequence[CheckpointDraft], *more: Any) -> frozenset[Shard]:
        self.rounds.append(drafts)
        return super().save(drafts, *more)

    @property
    def offsets(self) -> list[int]:
        """The offset of each draft, in order."""
        return [draft.header.offset for drafts in self.rounds for draft in drafts]


class LoneMember(Member):
    """A process that owns a store alone.

    Attributes:
        commits: accepted commits.
        trouble: failure of every commit, or None.
        safe: records whose dead letters are durable.
    """

    def __init__(self, store: Store | None = None, **options: Any) -> None:
        # Each process opens a store for itself.
        self.store = (
            MemoryStore(store.disk) if type(store) is MemoryStore else store or MemoryStore()
        )
        self.commits: list[Mapping[Partition, int]] = []
        self.trouble: str | CommitAnswer | None = None
        self.safe: set[Identity] = set()
        super().__init__(self.store, self.safe, **options)

    def assign(self, **changed: Any) -> int:
        """Assign partition 0; returns its start offset."""
        first = assignment(**changed)
        return self.checkpointer.assigned([first])[first.partition]

    def count(self, start: int, stop: int, minute: int = 0) -> None:
        self.checkpointer.apply(batch(start, stop, minute=minute))

    def checkpoint(self) -> None:
        """Run a round of checkpoints, after an interval without records."""
        self.now += SETTINGS.interval
        self.checkpointer.waited(SETTINGS.interval)
        for _ in range(5):
            self.checkpointer.advance()

    @property
    def shown(self) -> int:
        return self.checkpointer.counted.get((0, ("x",), METRIC), (0.0, 0))[1]

    @property
    def events(self) -> Sequence[str]:
        return [log_event.event for log_event in self.news()]

    def news(self) -> Sequence[LogEvent]:
        return self.checkpointer.take_log_events()

    def commit(self, positions: Mapping[Partition, int], **_: bool) -> str | CommitAnswer | None:
        if self.trouble is None:
            self.commits.append(positions)
        return self.trouble


def owner(store: Store | None = None, **options: Any) -> LoneMember:
    """A process that has been assigned partition 0."""
    member = LoneMember(store, **options)
    member.assign()
    return member


def after(offset: int, store: Store | None = None, **settings: Any) -> Store:
    """A store with a checkpoint at this offset, written by a process that has ended."""
    member = owner(store, **settings)
    member.count(0, offset)
    member.checkpointer.finish()
    return member.store


def with_policy(policy: str, choice: str) -> Policies:
    """Policies of which all others fail."""
    return msgspec.structs.replace(Policies(), **{policy: choice})
