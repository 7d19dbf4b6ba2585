"""Checks that logs can be joined, and groups those of equal number to one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from streameval.errors import SplitKeyError, UnevenStreamsError
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.interactions import InteractionColumns
from streameval.join.joint import Joint
from streameval.join.state import Content


class Grouped:
    """Stands between a source and an owner that counts logs of equal number as one partition.

    `inspect`: checks the logs before the first of them is handed over; may raise.
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
            StreamevalError: raised by the inspection or the owner.
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


def require_together(joint: Joint, sample: Iterable[RecordBatch]) -> None:
    """Check a sample: all records of a key lie in partitions of one number.

    Raises:
        SplitKeyError: a key is in partitions of different numbers, so its records never meet.
    """
    places: dict[str, dict[str, int]] = {}
    by_user = joint.rules.key == "user_item"
    for batch in sample:
        for key in _keys_in(joint, batch, by_user=by_user):
            known = places.setdefault(key, {})
            known.setdefault(batch.partition.topic, batch.partition.number)
            if set(known.values()) != {batch.partition.number}:
                raise SplitKeyError(key, {**known, batch.partition.topic: batch.partition.number})


def _keys_in(joint: Joint, batch: RecordBatch, *, by_user: bool) -> Iterable[str]:
    """Keys of a batch; a record that ends a process is named when its turn to be counted comes."""
    try:
        return _keys(joint.decode(batch), by_user=by_user)
    except Exception:  # noqa: BLE001  a mistake of ours, whatever it raises
        count = len(batch.values)
        if count < 2:
            return ()
        halves = [
            batch.piece(*ends, batch.next_offset) for ends in ((0, count // 2), (count // 2, count))
        ]
        return [key for half in halves for key in _keys_in(joint, half, by_user=by_user)]


def _keys(content: Content, *, by_user: bool) -> Iterable[str]:
    if isinstance(content, InteractionColumns):
        return content.keys
    found = content.users if by_user else content.event_ids
    return [each for each in found or () if each is not None]
