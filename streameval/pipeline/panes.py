"""The means of every pane of a family, read again only where something changed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

from streameval.aggregation.blocks import Block
from streameval.aggregation.cap import Labels
from streameval.aggregation.place import Place
from streameval.aggregation.time import span_text
from streameval.aggregation.views import Views
from streameval.pipeline.past import FamilyPast, Mean, PaneMeans
from streameval.pipeline.readable import Readable

R = TypeVar("R", bound=Readable)

LONGEST: Final = 200
"""So many panes of a family are read, the newest ones."""


class Panes(Generic[R]):
    """Reads the panes of a family, a bounded number of readings at a time.

    Args:
        view: of the family.
    """

    def __init__(self, view: Views[R]) -> None:
        self._view = view
        metrics = view.spec.new().metrics if view.spec.spans else ()
        self._texts = tuple(metric.text for metric in metrics if metric.is_mean)
        self._spans = {span_text(span): span for span in view.spec.spans}
        self._known: dict[Place, _Pane[R]] = {}

    def take(self, clock: int | None, most: int) -> FamilyPast:
        """The panes as far as they are read, the newest first.

        Args:
            clock: largest event time, microseconds; None where there is none.
            most: readings to be spent on those that moved, and as many on those never read.
        """
        if not self._texts or clock is None:
            return FamilyPast()
        before, self._known = self._known, {}
        left = {True: most, False: most}
        there = self._view.panes()
        for place, block in there[:LONGEST]:
            known = place in before
            pane = before[place] if known else _Pane(place, self._texts)
            if not known and left[known] <= 0:
                break
            left[known] -= pane.read(block, left[known])
            self._known[place] = pane
        panes = tuple(pane.means for pane in reversed(self._known.values()))
        since = clock - max((family.kept for family in self._view.families), default=0)
        if len(panes) < len(there):
            since = panes[0].start
        return FamilyPast(self._texts, panes, since, self._spans)


class _Pane(Generic[R]):
    """One of them, with what was read of it.

    Attributes:
        means: what is published of it.
    """

    __slots__ = ("_known", "_texts", "_version", "means")

    def __init__(self, place: Place, texts: Sequence[str]) -> None:
        self.means = PaneMeans(place.start, place.size, {})
        self._texts = texts
        self._version: Hashable = None
        self._known: dict[Labels, tuple[R, int]] = {}

    def read(self, block: Block[R], most: int) -> int:
        """Read what changed, spending so many readings or a few more; returns how many it took."""
        if block.version == self._version:
            self._known.clear()
            return 0
        before, items = self.means.rows, dict(block.items())
        rows = {labels: before[labels] for labels in items if labels in before}
        changed = [labels for labels, each in items.items() if self._moved(labels, each)]
        # What was never read goes first, so that nothing is missing for long.
        changed.sort(key=before.__contains__)
        due = changed[: -(-most // len(self._texts))] if most > 0 else []
        for labels in due:
            accumulator = items[labels]
            rows[labels] = [_mean(accumulator, text) for text in self._texts]
            self._known[labels] = accumulator, accumulator.version
        whole = len(rows) == len(items)
        self.means = PaneMeans(self.means.start, self.means.size, rows, whole)
        self._version = block.version if len(due) == len(changed) else None
        return len(due) * len(self._texts)

    def _moved(self, labels: Labels, accumulator: R) -> bool:
        return self._known.get(labels) != (accumulator, accumulator.version)


def _mean(accumulator: Readable, text: str) -> Mean:
    reading = accumulator.read(text)
    if not reading.defined or reading.total is None:
        return math.nan, reading.count
    return reading.total, reading.count
