"""Interactions that came before, by their event ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from streameval.aggregation.section import Section
from streameval.attribution.interactions import InteractionColumns
from streameval.pipeline.clock import NEVER
from streameval.pipeline.memory import Memory


class Repeats:
    """Remembers the event ids of one stream for a span of event time.

    Args:
        span: how long, microseconds.

    Attributes:
        newest: largest time of those that were asked about; None before the first.
    """

    def __init__(self, span: int) -> None:
        self.newest: int | None = None
        # Those from the future were left out before, so the newest one is the clock.
        self._memory = Memory(span, recent=1)

    def among(
        self, found: Sequence[InteractionColumns], asked: Sequence[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        """Those that came before, and takes note of the others.

        Args:
            found: interactions, piece by piece; without event ids none comes again.
            asked: piece and row of each, in the order of their turns.
        """
        ids = [each.event_ids[row] for n, row in asked if (each := found[n]).event_ids is not None]
        if not ids:
            return set()
        times = np.array([found[n].times[row] for n, row in asked], dtype=np.int64)
        clocks = np.maximum(
            np.maximum.accumulate(times), NEVER if self.newest is None else self.newest
        )
        novel = self._memory.novel(ids, times, clocks)
        self.newest = int(clocks[-1])
        return {place for place, new in zip(asked, novel.tolist(), strict=True) if not new}

    def sections(self) -> Iterator[Section]:
        """What is remembered, in pieces."""
        return self._memory.sections()

    def restore(self, sections: Mapping[str, bytes], newest: int | None) -> None:
        """Take the place of the content by what `sections` gave.

        Raises:
            DamagedStateError: it is not that.
        """
        self._memory.restore(sections)
        self.newest = newest
