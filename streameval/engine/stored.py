"""States of checkpoints that are read and count nothing, of every partition of a store."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.engine.partition import META, EventCounter, Layout, PartitionState, Progress
from streameval.events.records import Partition


class StoredState(PartitionState):
    """The counts of a partition at a checkpoint, of one log or of several that are joined.

    Ids and records that only a process that goes on counting needs are not among its parts.
    """

    def __init__(self, counter: EventCounter, offsets: Mapping[Partition, int]) -> None:
        super().__init__(counter, next(iter(offsets)), 0)
        self._offsets = dict(offsets)

    def holds(self, part: str) -> bool:
        """Whether the next state may take a part over, if it has not changed."""
        return any(part in family.loaded for family in self.families.values())

    def progress(self) -> Mapping[Partition, Progress]:
        """How far each log was counted, and the event time of the counts."""
        return {log: Progress(offset, self.clock) for log, offset in self._offsets.items()}

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Be at these offsets."""
        self._offsets = dict(offsets)


class StoredStates:
    """Makes states for reading; what they have loaded never changes, see `Counting.frozen`."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._counter = layout, EventCounter(layout, frozen=True)

    def reads(self, part: str) -> bool:
        """Whether a state for reading needs a part of a checkpoint."""
        families = (f"{spec.name}/" for spec in self._layout.families)
        return part == META or part.startswith(tuple(families))

    def state(self, offsets: Mapping[Partition, int], _: EventCounter) -> StoredState:
        """An empty state; see `States`. It has a counter of its own, which counts nothing."""
        return StoredState(self._counter, offsets)
