"""Who owns the partitions now, behind one name for as long as the source is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streameval.daemon.garbage import set_aside
from streameval.records import Assignment, Owner, Partition


class Delegate:
    """Passes on what a source says of partitions.

    Args:
        owner: who owns them at the moment.
    """

    def __init__(self, owner: Callable[[], Owner]) -> None:
        self._owner = owner

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """See `Owner.assigned`."""
        with set_aside():
            return self._owner().assigned(assignments)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.revoked`."""
        self._owner().revoked(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.lost`."""
        self._owner().lost(partitions)
