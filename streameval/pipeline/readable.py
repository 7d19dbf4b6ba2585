"""What readings are taken from, and since when they are complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from streameval.aggregation.slices import Mergeable
from streameval.metric import Metric
from streameval.reading import Reading

ALL: Final = "*"
"""Stands for every statistic of a family that is new as a whole."""

PANES: Final = "panes"
"""Stands for panes that are kept for longer than they once were."""


class Readable(Mergeable, Protocol):
    """An accumulator of which readings are taken."""

    metrics: tuple[Metric, ...]

    def read(self, metric: str) -> Reading:
        """One metric now."""

    def needs(self, metric: str | Metric) -> frozenset[str]:
        """Names of the statistics that a metric is read from."""

    def advice(self) -> str | None:
        """One sentence about what looks wrong with the events, if anything does."""


class Beginnings:
    """Since when what is kept of a family has been kept, in any of its partitions.

    Args:
        family: its name.
        since: of each partition: "family:statistic" -> clock at which it was first kept.
    """

    def __init__(self, family: str, since: Iterable[Mapping[str, int]]) -> None:
        self._found: dict[str, int] = {}
        for each in since:
            for key, moment in each.items():
                owner, _, name = key.partition(":")
                if owner == family:
                    self._found[name] = max(moment, self._found.get(name, moment))

    def of(self, needs: Collection[str]) -> int | None:
        """From when on what is read from these is complete; None where it always was."""
        moments = (self._found.get(name) for name in (*needs, ALL))
        return max((moment for moment in moments if moment is not None), default=None)

    def of_window(self, needs: Collection[str], start: int) -> int | None:
        """The same for a window that reaches back to `start`."""
        moments = [self.of(needs), self._found.get(PANES)]
        later = [moment for moment in moments if moment is not None and moment > start]
        return max(later, default=None)

    def __bool__(self) -> bool:
        return bool(self._found)
