"""One member of a group in memory, as a source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from streameval.events.errors import SourceError
from streameval.events.records import (
    Assignment,
    CommitAnswer,
    Partition,
    PartitionOwner,
    RecordBatch,
)
from streameval.sources.source import UNHURRIED, SourceStatus
from tests.logs.group import Group, Member, Order


class LogSource:
    """Reads what the group gives it.

    Args:
        group: whose member it is.
        member: its name in the group.
    """

    cluster = "in memory"
    budget = UNHURRIED

    def __init__(self, group: Group, member: str) -> None:
        self._group = group
        self._log = group.log
        self._name = member
        self._owner: PartitionOwner | None = None
        self._member: Member | None = None
        self._positions: dict[Partition, int] = {}
        self._owned: set[Partition] = set()
        self._asked: Mapping[Partition, int] = {}
        self.joined = False

    @property
    def name(self) -> str:
        return ", ".join(self._group.topics)

    def open(self, owner: PartitionOwner) -> None:
        self.close()
        self._owner = owner
        self._member = self._group.join(self._name)

    def poll(self, seconds: float) -> Sequence[RecordBatch]:  # noqa: ARG002  part of the contract
        """What was ordered happens first, one after the other; then records. Never waits."""
        member, owner = self._alive()
        self._group.share_out()
        while member.orders:
            order = member.orders[0]
            self._obey(owner, order)
            member.orders.popleft()
            self._group.released(self._name, order)
        return self._records()

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool = True
    ) -> str | CommitAnswer | None:
        """Taken for the partitions that are ours, as the group knows.

        A broker refuses the generation of a member that does not know yet what it has lost, even
        where it has been given the same again.

        Without `wait` it is taken at the second call: much may happen in between.
        """
        member, _ = self._alive()
        if not wait and self._asked != positions:
            self._asked = dict(positions)
            return CommitAnswer.PENDING
        self._asked = {}
        landed = member.failing.popleft() if member.failing else None
        if landed is False:
            return "the group refused the commit."
        lost = {p for order in member.orders if order.what == "lost" for p in order.partitions}
        partitions = set(self._group.held_by(self._name)) - lost
        self._group.committed.update({p: o for p, o in positions.items() if p in partitions})
        foreign = ", ".join(
            str(partition) for partition in sorted(positions) if partition not in partitions
        )
        if foreign:
            return f"{foreign}: not ours to commit."
        return "no answer came to the commit." if landed else None

    def pause(self, partitions: Collection[Partition]) -> None:
        """Nobody asks for it here."""

    @property
    def status(self) -> SourceStatus:
        ends = {partition: self._log.end(partition) for partition in self._group.partitions}
        return SourceStatus(joined=self.joined, ends=ends)

    def close(self) -> None:
        """Leave the group; the owner is not called."""
        if self._member is not None and not self._member.crashed:
            self._group.leave(self._name)
        self._member = self._owner = None
        self._positions, self._owned, self.joined = {}, set(), False

    def _alive(self) -> tuple[Member, PartitionOwner]:
        assert self._member is not None, "it is not open"
        assert self._owner is not None
        assert not self._member.crashed, f"{self._name} has crashed"
        return self._member, self._owner

    def _obey(self, owner: PartitionOwner, order: Order) -> None:
        if order.what == "assigned":
            self._take(owner, order.partitions)
            return
        assigned = [place for place in order.partitions if place in self._owned]
        for partition in assigned:
            self._positions.pop(partition, None)
        if assigned:
            call = owner.revoked if order.what == "revoked" else owner.lost
            call(assigned)
        self._owned -= set(assigned)

    def _take(self, owner: PartitionOwner, partitions: Sequence[Partition]) -> None:
        assignments = [self._assignment(partition) for partition in partitions]
        starts = owner.assigned(assignments)
        for assignment in assignments:
            self._require_inside(assignment, starts[assignment.partition])
        self._positions.update({partition: starts[partition] for partition in partitions})
        self._owned |= set(partitions)
        self.joined = True

    def _assignment(self, partition: Partition) -> Assignment:
        same = [other for other in self._log.partitions if other.topic == partition.topic]
        return Assignment(
            partition=partition,
            identity=self._log.identity(partition.topic),
            begin=0,
            end=self._log.end(partition),
            start=0,
            committed=self._group.committed.get(partition),
            partitions=len(same),
        )

    def _require_inside(self, assignment: Assignment, offset: int) -> None:
        if not assignment.begin <= offset <= assignment.end:
            problem = f"{offset} is not within {assignment.begin} to {assignment.end}"
            raise SourceError(str(assignment.partition), problem, "start anew")

    def _records(self) -> list[RecordBatch]:
        batches = []
        for partition, position in sorted(self._positions.items()):
            batch = self._batch(partition, position)
            if batch is not None:
                self._positions[partition] = batch.next_offset
                batches.append(batch)
        return batches

    def _batch(
        self, partition: Partition, position: int, limit: int | None = None
    ) -> RecordBatch | None:
        entries = self._log.entries(partition, position)[:limit]
        # Behind the last record there may be a gap, which the position moves over too.
        stop = entries[-1].offset + 1 if len(entries) == limit else self._log.end(partition)
        if stop == position:
            return None
        return RecordBatch(
            partition=partition,
            values=[entry.value for entry in entries],
            offsets=[entry.offset for entry in entries],
            next_offset=stop,
            timestamps=[entry.timestamp for entry in entries],
            keys=[None] * len(entries),
        )
