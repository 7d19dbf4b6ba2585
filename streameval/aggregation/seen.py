"""When each combination of label values was last seen, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streameval.aggregation.cap import Labels
from streameval.aggregation.folding import OTHER

SeenState: TypeAlias = list[tuple[Labels, int | None, int]]
"""Combination, latest time and number of events."""


class Sight(NamedTuple):
    """Of one combination.

    Attributes:
        latest: largest event time, microseconds; None where its events have none.
        events: how many there were.
    """

    latest: int | None
    events: int


class Seen:
    """Sights by combination; a function of the events alone, in any order."""

    __slots__ = ("by_labels",)

    def __init__(self) -> None:
        self.by_labels: dict[Labels, Sight] = {}

    def count(
        self, keys: Sequence[Labels], codes: NDArray[np.int64], times: NDArray[np.int64] | None
    ) -> None:
        """See events: the place of each one's combination among the keys, and its time."""
        events = np.bincount(codes, minlength=len(keys))
        latest: NDArray[np.int64] | None = None
        if times is not None:
            latest = np.full(len(keys), np.iinfo(np.int64).min)
            np.maximum.at(latest, codes, times)
        for code in np.flatnonzero(events).tolist():
            last = None if latest is None else int(latest[code])
            self._add(keys[code], Sight(last, int(events[code])))

    def move(self, moves: Mapping[Labels, Labels]) -> None:
        """Combinations that folded become part of others."""
        for labels in self.by_labels.keys() & moves.keys():
            self._add(moves[labels], self.by_labels.pop(labels))

    def merge(self, others: Iterable[tuple[Labels, Sight]]) -> None:
        """Add what others saw."""
        for labels, sight in others:
            self._add(labels, sight)

    @property
    def folded(self) -> int:
        """Events that stand under `__other__` in any dimension."""
        return sum(sight.events for labels, sight in self.by_labels.items() if OTHER in labels)

    def state(self) -> list[Any]:
        """Plain integers and strings, sorted."""
        return [[labels, *self.by_labels[labels]] for labels in sorted(self.by_labels)]

    def load(self, state: SeenState) -> None:
        """Take the place of the content by what `state` gave."""
        self.by_labels = {labels: Sight(last, events) for labels, last, events in state}

    def _add(self, labels: Labels, sight: Sight) -> None:
        known = self.by_labels.get(labels)
        if known is not None:
            times = [time for time in (known.latest, sight.latest) if time is not None]
            sight = Sight(max(times, default=None), known.events + sight.events)
        self.by_labels[labels] = sight
