"""Owners that keep nothing, and handing partitions to an owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streameval.events.records import Assignment, Owner, Partition

NO_END: Final = 2**63 - 1
"""`Assignment.end` of a log whose end nobody knows before it has been read (files, a pipe)."""


class Positions:
    """An owner without state: begins where told, else where configured.

    Args:
        positions: where to begin; the other partitions begin at their `start`.

    Example:
        >>> mine = Assignment(partition=Partition("t", 0), identity="i", begin=0, end=9, start=4)
        >>> Positions().assigned([mine])
        {Partition(topic='t', number=0): 4}
    """

    def __init__(self, positions: Mapping[Partition, int] | None = None) -> None:
        self._positions = dict(positions or {})

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Where to begin each."""
        return {a.partition: self._positions.get(a.partition, a.start) for a in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""


class Handover:
    """What a source without a group does once: it hands over everything that it has.

    Args:
        owner: who counts the partitions.
    """

    def __init__(self, owner: Owner | None = None) -> None:
        self._owner = owner
        self._given: Mapping[Partition, int] | None = None

    @property
    def done(self) -> bool:
        """Whether the owner has taken the partitions."""
        return self._given is not None

    def begin(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Hand them to the owner; where it begins each of them.

        Raises:
            StreamevalError: the owner refuses one.
        """
        found = {} if self._owner is None else self._owner.assigned(assignments)
        self._given = {each.partition: found[each.partition] for each in assignments}
        return self._given
