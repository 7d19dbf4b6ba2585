"""After a checkpoint is durable: the group is told, then counters show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from streameval.durability.checkpoint import Place
from streameval.durability.counted import Durable
from streameval.durability.needs import Evidence, Fold, Totals
from streameval.durability.news import News
from streameval.records import Partition

Commit: TypeAlias = Callable[[Mapping[Partition, int]], str | None]
"""Tells the group how far has been counted; returns what went wrong."""


class Confirmed(msgspec.Struct, frozen=True):
    """What a checkpoint made durable.

    Attributes:
        place: of the checkpoint.
        offset: that it covers.
        offsets: of each log behind it.
        totals: all evidence in it; None where nothing is to be shown.
        fold: how the partition folded.
    """

    place: Place
    offset: int
    offsets: Mapping[Partition, int]
    totals: Totals | None = None
    fold: Fold | None = None


class Confirming:
    """Commits offsets, and shows what is below them.

    The commit comes first and must succeed: the group refuses one of a member that it has put
    out, and what such a member counts is counted by another. So counters show nothing twice, and
    whatever is shown lies below the group's commit. A commit that fails is tried again.

    Args:
        commit: tells the group.
        durable: the counters.
        evidence: says how label values are folded.
    """

    def __init__(self, commit: Commit, durable: Durable, evidence: Evidence) -> None:
        self.failures = 0
        self.shown: dict[Place, int] = {}
        self._commit = commit
        self._durable = durable
        self._evidence = evidence
        self._waiting: dict[Partition, Confirmed] = {}

    @property
    def waits(self) -> bool:
        """Whether something durable has not been committed and shown yet."""
        return bool(self._waiting)

    def add(self, partition: Partition, confirmed: Confirmed) -> None:
        """A checkpoint is durable; it takes the place of an earlier one that still waits."""
        self._waiting[partition] = confirmed

    def forget(self, partitions: Iterable[Partition]) -> None:
        """These are somebody else's, who shows what is not shown yet."""
        for partition in partitions:
            self._waiting.pop(partition, None)

    def now(self) -> News | None:
        """Commit and show all that waits; returns what went wrong."""
        if not self._waiting:
            return None
        offsets = {
            log: offset
            for _, each in sorted(self._waiting.items())
            for log, offset in each.offsets.items()
        }
        trouble = self._commit(offsets)
        if trouble is not None:
            self.failures += 1
            return News("warning", "offsets were not committed", {"problem": trouble})
        for partition, confirmed in sorted(self._waiting.items()):
            self._show(partition, confirmed)
        self._waiting.clear()
        return None

    def _show(self, partition: Partition, confirmed: Confirmed) -> None:
        if confirmed.totals is None or confirmed.fold is None:
            return
        shown = self._evidence.shown()
        self._durable.publish(partition, confirmed.totals, confirmed.fold, shown)
        self.shown[confirmed.place] = confirmed.offset
