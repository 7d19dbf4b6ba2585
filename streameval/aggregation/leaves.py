"""Panes of several partitions as they are read: with the label values that all of them keep."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, NamedTuple

from streameval.aggregation.cap import Labels
from streameval.aggregation.folding import Folding
from streameval.aggregation.pane import Pane
from streameval.aggregation.slices import A
from streameval.aggregation.spec import FamilySpec


class Settling:
    """Where the combinations of several partitions belong together.

    Attributes:
        folding: theirs, merged.
        edges: while they stay the same, every combination stays where it belongs.

    Args:
        spec: of the families.
    """

    __slots__ = ("_places", "_versions", "edges", "folding")

    def __init__(self, spec: FamilySpec[Any]) -> None:
        self.folding = Folding(spec.folding, len(spec.columns))
        self.edges = self.folding.edges
        self._versions: Sequence[tuple[Folding, Hashable]] = ()
        self._places: dict[Labels, Labels] = {}

    def follow(self, foldings: Sequence[Folding]) -> None:
        """These are the foldings of the partitions now."""
        versions = [(folding, folding.version) for folding in foldings]
        if versions != self._versions:
            self._versions = versions
            first, *others = foldings or [self.folding]
            self.folding = first.merged(others)
            self.edges = self.folding.edges
            self._places.clear()

    def settled(self, items: Iterable[tuple[Labels, Any]]) -> Iterable[tuple[Labels, Any]]:
        """The same with the combinations where they belong."""
        if all(edge is None for edge in self.edges):
            return items
        return [(self._settled(labels), each) for labels, each in items]

    def _settled(self, labels: Labels) -> Labels:
        found = self._places.get(labels)
        if found is None:
            found = self._places[labels] = self.folding.settled(labels)
        return found


class Leaf(NamedTuple, Generic[A]):
    """One pane of one partition.

    Attributes:
        pane: what is read.
        settling: where its slices belong.
    """

    pane: Pane[A]
    settling: Settling

    @property
    def version(self) -> tuple[int, tuple[int | None, ...]]:
        """While it stays the same, so does what `items` gives."""
        return self.pane.version, self.settling.edges

    def items(self) -> Iterable[tuple[Labels, A]]:
        """Label values, maybe several times, and accumulators."""
        return self.settling.settled(self.pane.slices.items())
