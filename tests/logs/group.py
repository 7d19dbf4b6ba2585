"""Topics in memory, and who reads which partition: driven by a test, or by itself as Kafka does."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple, TypeAlias

from streameval.events.records import Partition


class Entry(NamedTuple):
    """One record as it lies in the log."""

    offset: int
    value: bytes | None
    timestamp: int


class Log:
    """Topics with partitions."""

    def __init__(self) -> None:
        self._entries: dict[Partition, list[Entry]] = {}
        self._ends: dict[Partition, int] = {}

    @property
    def partitions(self) -> list[Partition]:
        return sorted(self._ends)

    def identity(self, topic: str) -> str:
        return f"{topic}-1"

    def add_topic(self, topic: str, partitions: int = 1) -> None:
        for number in range(partitions):
            self._entries[Partition(topic, number)] = []
            self._ends[Partition(topic, number)] = 0

    def append(self, partition: Partition, value: bytes | None, *, timestamp: int = 0) -> int:
        offset = self._ends[partition]
        self._entries[partition].append(Entry(offset, value, timestamp))
        self._ends[partition] += 1
        return offset

    def skip(self, partition: Partition, count: int = 1) -> None:
        """Use up offsets that will never hold a record."""
        self._ends[partition] += count

    def end(self, partition: Partition) -> int:
        """The offset that the next record gets."""
        return self._ends[partition]

    def entries(self, partition: Partition, start: int = 0) -> list[Entry]:
        """Records at or after an offset."""
        return [entry for entry in self._entries[partition] if entry.offset >= start]


Happening: TypeAlias = Literal["assigned", "revoked", "lost"]


class Order(NamedTuple):
    """What is to happen to a member in its next poll."""

    what: Happening
    partitions: tuple[Partition, ...]


class Member:
    """What the group keeps of one member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.orders: deque[Order] = deque()
        self.failing: deque[bool] = deque()
        self.untold: set[Partition] = set()
        self.crashed = False


class Group:
    """Members and what each holds (see the package's docstring for how to drive it).

    Attributes:
        log: what is read.
        holder: partition -> name of the member that it belongs to, as the group knows.
        committed: partition -> the last offset whose commit was taken.
    """

    def __init__(self, log: Log, topics: Sequence[str], *, automatic: bool = False) -> None:
        self.log = log
        self.topics = tuple(topics)
        self.holder: dict[Partition, str] = {}
        self.committed: dict[Partition, int] = {}
        self._members: dict[str, Member] = {}
        self._automatic = automatic
        self._shared: tuple[tuple[str, ...], tuple[Partition, ...]] | None = None

    @property
    def partitions(self) -> list[Partition]:
        return [partition for partition in self.log.partitions if partition.topic in self.topics]

    def held_by(self, name: str) -> list[Partition]:
        return sorted(partition for partition, member in self.holder.items() if member == name)

    def has_member(self, name: str) -> bool:
        """Whether there is a member of this name."""
        return name in self._members

    def has_orders(self, name: str) -> bool:
        """Whether something is yet to happen to the member."""
        return bool(self._members[name].orders)

    def has_lost(self, name: str) -> bool:
        """Whether the member has lost what it does not know of yet."""
        return name in self._members and bool(self._members[name].untold)

    def join(self, name: str) -> Member:
        """A member, from its source's `open`."""
        if name in self._members and not self._members[name].crashed:
            raise ValueError(f"there is a member {name}")
        self._members[name] = Member(name)
        self._shared = None
        return self._members[name]

    def leave(self, name: str) -> None:
        """The member gives up everything, and is forgotten."""
        self._release(self.held_by(name))
        self._members.pop(name, None)
        self._shared = None

    def assign(self, name: str, partitions: Collection[Partition]) -> None:
        """Give them to the member, be they none; what it has lost, it is told before."""
        if self._members[name].untold:
            self.tell(name)
        taken = [partition for partition in partitions if partition in self.holder]
        if taken:
            raise ValueError(f"{taken} are held")
        self.holder.update(dict.fromkeys(partitions, name))
        self._order(name, "assigned", partitions)

    def revoke(self, name: str, partitions: Collection[Partition]) -> None:
        """Take them from the member, which holds them until its owner has finished them."""
        self._require_held(name, partitions)
        self._order(name, "revoked", partitions)

    def lose(self, name: str, partitions: Collection[Partition]) -> None:
        """Take them at once; the member learns of it by `tell`."""
        self._require_held(name, partitions)
        self._members[name].untold |= set(partitions)
        self._release(partitions)

    def tell(self, name: str) -> None:
        """Let the member know what it has lost."""
        member = self._members[name]
        self._order(name, "lost", member.untold)
        member.untold = set()

    def crash(self, name: str) -> None:
        """End the member without a word."""
        self._members[name].crashed = True
        self._release(self.held_by(name))

    def fail_commits(self, name: str, times: int = 1, *, landed: bool = False) -> None:
        """Answer the member's next commits with a sentence; landed: take them all the same."""
        self._members[name].failing.extend([landed] * times)

    def released(self, name: str, order: Order) -> None:
        """The member's owner has done with these."""
        if order.what == "revoked":
            self._release(
                [partition for partition in order.partitions if self.holder.get(partition) == name]
            )

    def share_out(self) -> None:
        """Where automatic: everybody gives up everything when there is news; then all is shared."""
        if not self._automatic:
            return
        names = tuple(
            name for name, membership in sorted(self._members.items()) if not membership.crashed
        )
        wanted = (names, tuple(self.partitions))
        if self._shared == wanted or not names:
            return
        if self.holder:
            for name in names:
                self._revoke_everything(name)
            return
        self._shared = wanted
        for name, partitions in self._ranges(names).items():
            self.assign(name, partitions)

    def _revoke_everything(self, name: str) -> None:
        if self.held_by(name) and not self._members[name].orders:
            self.revoke(name, self.held_by(name))

    def _ranges(self, names: Sequence[str]) -> dict[str, list[Partition]]:
        """Per topic, its partitions in as many runs as there are members, the first the longest."""
        shares: dict[str, list[Partition]] = {name: [] for name in names}
        for topic in self.topics:
            assigned = [partition for partition in self.partitions if partition.topic == topic]
            for number, name in enumerate(names):
                least, more = divmod(len(assigned), len(names))
                start = number * least + min(number, more)
                shares[name] += assigned[start : start + least + (number < more)]
        return shares

    def _order(self, name: str, what: Happening, partitions: Collection[Partition]) -> None:
        self._members[name].orders.append(Order(what, tuple(sorted(partitions))))

    def _release(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self.holder.pop(partition, None)

    def _require_held(self, name: str, partitions: Collection[Partition]) -> None:
        foreign = [partition for partition in partitions if self.holder.get(partition) != name]
        if foreign:
            raise ValueError(f"{foreign} are not held by {name}")
