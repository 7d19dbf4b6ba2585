"""States of checkpoints for reading only: they count nothing."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.engine.partition import META, EventCounter, Layout, PartitionState
from streameval.events.records import Partition


class StoredStates:
    """Makes states for reading, of one log or of several that are joined.

    They do not load the ids and records that only counting needs. Loaded tables never change, see
    `Counting.frozen`.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._counter = layout, EventCounter(layout, frozen=True)

    def reads(self, part: str) -> bool:
        """True if a state for reading needs a part of a checkpoint."""
        families = (f"{spec.name}/" for spec in self._layout.families)
        return part == META or part.startswith(tuple(families))

    def state(self, offsets: Mapping[Partition, int], _: EventCounter) -> PartitionState:
        """An empty state; see `States`. It has a counter of its own, which counts nothing."""
        return PartitionState(self._counter, offsets)
