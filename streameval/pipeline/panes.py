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

    def take(self, most: int) -> FamilyPast:
        """The panes as far as they are read, the newest first.

        Args:
            most: readings to be spent on those that moved, and as many on those never read.
        """
        if not self._texts:
            return FamilyPast()
        before, self._known = self._known, {}
        left = {True: most, False: most}
        for place, block in self._view.panes()[:LONGEST]:
            known = place in before
            pane = before[place] if known else _Pane(place, self._texts)
            if not known and left[known] <= 0:
                break
            left[known] -= pane.read(block, left[known])
            self._known[place] = pane
        panes = tuple(pane.means for pane in reversed(self._known.values()))
        return FamilyPast(self._texts, panes, self._kept(), self._spans)

    def _kept(self) -> int:
        return max((family.kept for family in self._view.families), default=0)


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
        rows: dict[Labels, Sequence[Mean]] = {}
        spent, whole = 0, True
        for labels, accumulator in block.items():
            now = (accumulator, accumulator.version)
            if self._known.get(labels) == now:
                rows[labels] = self.means.rows[labels]
            elif spent < most:
                rows[labels] = [_mean(accumulator, text) for text in self._texts]
                self._known[labels] = now
                spent += len(self._texts)
            else:
                whole = False
                if labels in self.means.rows:
                    rows[labels] = self.means.rows[labels]
        self.means = PaneMeans(self.means.start, self.means.size, rows)
        self._version = block.version if whole else None
        return spent


def _mean(accumulator: Readable, text: str) -> Mean:
    reading = accumulator.read(text)
    if not reading.defined or reading.total is None:
        return math.nan, reading.count
    return reading.total, reading.count
