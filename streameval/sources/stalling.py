"""Noticing that nothing comes although there is something, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from streameval.records import Partition

Remedy: TypeAlias = Literal["seek", "rejoin", "give up"]

_REMEDIES: Final[tuple[Remedy, ...]] = ("seek", "rejoin", "give up")
_LONGEST_STEP: Final = 5.0
"""More than this many seconds between two looks is time in which we did not look (suspended)."""


class Stall(NamedTuple):
    """Partitions that do not go on, and what to try next.

    Attributes:
        remedy: go to the position once more, join the group once more, or give up.
        positions: where each of them stands.
    """

    remedy: Remedy
    positions: Mapping[Partition, int]


class _Standing(NamedTuple):
    position: int
    seconds: float
    tried: int


class StallWatch:
    """Looks whether partitions behind their end move.

    Only time counts in which the broker answers, and in which we look. A partition that goes
    further than before, or has come to its end, begins from nothing, its remedies too; one that is
    not ours for a while (we join once more) does not.

    Args:
        timeout: seconds that a partition may stand before the next remedy; above 0.
        clock: seconds that only grow.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._looked_at = clock()
        self._standing: dict[Partition, _Standing] = {}

    def look(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], *, answers: bool
    ) -> Stall | None:
        """What to do now; None where all is well, or only slow.

        Args:
            positions: of the partitions that are ours and not paused.
            ends: the offset after the last record of each, as last known.
            answers: whether the broker did, lately.
        """
        now = self._clock()
        step = min(now - self._looked_at, _LONGEST_STEP) if answers else 0.0
        self._looked_at = now
        for partition, position in positions.items():
            if ends.get(partition, 0) > position:
                self._standing[partition] = self._longer(partition, position, step)
            else:
                self._standing.pop(partition, None)
        mine = {p: each for p, each in self._standing.items() if p in positions}
        due = {p: each for p, each in mine.items() if each.seconds >= self._timeout}
        return self._stall(due) if due else None

    def _longer(self, partition: Partition, position: int, step: float) -> _Standing:
        before = self._standing.get(partition)
        if before is None or position > before.position:
            return _Standing(position, 0.0, 0)
        return before._replace(seconds=before.seconds + step)

    def _stall(self, due: Mapping[Partition, _Standing]) -> Stall:
        """The furthest remedy that any of them is due; each is then given its time again."""
        tried = max(each.tried for each in due.values())
        for partition, each in due.items():
            self._standing[partition] = each._replace(seconds=0.0, tried=tried + 1)
        remedy = _REMEDIES[min(tried, len(_REMEDIES) - 1)]
        return Stall(remedy, {p: each.position for p, each in due.items()})
