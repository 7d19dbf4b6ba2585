"""Logs that are joined, as one partition for whoever owns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streameval.errors import UnevenStreamsError
from streameval.records import Assignment, Owner, Partition


class Grouped:
    """Stands between a source and an owner who counts logs of equal number as one.

    Args:
        owner: of the joined partitions.
        home: the partition under whose name a log is counted.
        topics: all topics or files that are joined.
        inspect: looks at the logs before the first of them is handed over; may refuse them.
    """

    def __init__(
        self,
        owner: Owner,
        home: Callable[[Partition], Partition],
        topics: Sequence[str],
        inspect: Callable[[], None] = lambda: None,
    ) -> None:
        self._inspect = inspect
        self._inspected = False
        self._owner = owner
        self._home = home
        self._topics = topics

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """See `Owner.assigned`.

        Raises:
            UnevenStreamsError: the topics do not have the same partitions.
            StreamevalError: whatever the inspection finds, or the owner.
        """
        groups: dict[Partition, list[Assignment]] = {}
        for each in assignments:
            groups.setdefault(self._home(each.partition), []).append(each)
        whole = [self._whole(home, logs) for home, logs in sorted(groups.items())]
        if whole and not self._inspected:
            self._inspect()
            self._inspected = True
        return self._owner.assigned(whole)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.revoked`."""
        self._owner.revoked(self._homes(partitions))

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.lost`."""
        self._owner.lost(self._homes(partitions))

    def _homes(self, partitions: Sequence[Partition]) -> list[Partition]:
        return sorted({self._home(each) for each in partitions})

    def _whole(self, home: Partition, logs: Sequence[Assignment]) -> Assignment:
        ordered = sorted(logs, key=lambda log: self._topics.index(log.partition.topic))
        counts = {log.partition.topic: log.partitions for log in ordered}
        missing = [topic for topic in self._topics if topic not in counts]
        if missing or len(set(counts.values())) > 1:
            raise UnevenStreamsError(home.number, counts, missing)
        return Assignment(
            partition=home,
            identity=".".join(log.identity for log in ordered),
            begin=sum(log.begin for log in ordered),
            end=sum(log.end for log in ordered),
            start=sum(log.start for log in ordered),
            partitions=ordered[0].partitions,
            members=tuple(ordered),
        )
