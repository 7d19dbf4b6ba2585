"""Members of a group on the real broker, with the calls to their owners."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from streameval.events.records import Assignment, Partition
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.schemas.records import Schemas
from streameval.sources.settings import KafkaOptions
from tests.effort import PATIENCE


class RecordingOwner:
    """An owner that continues at its positions, and records all calls.

    Attributes:
        happened: what, and with which numbers of partitions.
        positions: of all that was ever ours; `start` of what is new.
        held: what is ours.
        values: of each partition, in order.
        seen: how each partition was described the last time.
    """

    def __init__(self) -> None:
        self.happened: list[tuple[str, tuple[int, ...]]] = []
        self.positions: dict[Partition, int] = {}
        self.held: set[Partition] = set()
        self.values: dict[int, list[bytes | None]] = {}
        self.seen: dict[Partition, Assignment] = {}

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        self._note("assigned", [assignment.partition for assignment in assignments])
        self.held |= {assignment.partition for assignment in assignments}
        self.seen |= {assignment.partition: assignment for assignment in assignments}
        return {p.partition: self.positions.setdefault(p.partition, p.start) for p in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._note("revoked", partitions)
        self.held -= set(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._note("lost", partitions)
        self.held -= set(partitions)

    def _note(self, what: str, partitions: Sequence[Partition]) -> None:
        self.happened.append((what, tuple(sorted(partition.number for partition in partitions))))


_STEP = 0.1


class Reading:
    """An open member.

    Attributes:
        source: the member.
        told: its owner.
    """

    def __init__(self, source: KafkaSource, told: RecordingOwner) -> None:
        self.source = source
        self.told = told

    @property
    def numbers(self) -> list[int]:
        """Positions of the assigned partitions."""
        return sorted(partition.number for partition in self.told.held)

    def step(self, seconds: float = 0.05) -> None:
        """Poll once; checks that all batches are of assigned partitions."""
        for batch in self.source.poll(seconds):
            assert batch.partition in self.told.held
            if batch.values:
                self.told.values.setdefault(batch.partition.number, []).extend(batch.values)
            self.told.positions[batch.partition] = batch.next_offset


@contextmanager
def reading(
    options: KafkaOptions, schemas: Schemas | None = None, **limits: float
) -> Iterator[Reading]:
    """A member of the group, closed at the end."""
    told = RecordingOwner()
    source = KafkaSource(options, {}, shared=True, schemas=schemas, **limits)
    source.open(told)
    try:
        yield Reading(source, told)
    finally:
        source.close()


def until(condition: Callable[[], bool], *members: Reading, seconds: float = _STEP) -> None:
    """Let members poll in parallel until a condition is true.

    One after the other, they may put each other off for ever: a group is joined by all or by none.

    Raises:
        TimeoutError: it never is.
    """
    deadline = time.monotonic() + PATIENCE
    with ThreadPoolExecutor(len(members)) as pool:
        while not condition():
            if time.monotonic() > deadline:
                states = [
                    (member.told.happened, member.told.positions, member.source)
                    for member in members
                ]
                raise TimeoutError([(*told, source.status.problem) for *told, source in states])
            list(pool.map(lambda member: member.step(seconds), members))
