"""The contract of a group member's client (kafka-python or confluent-kafka), and its watchdog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from streameval.events.records import Partition, RecordBatch

Remedy: TypeAlias = Literal["seek", "rejoin", "give up"]

_REMEDIES: Final[tuple[Remedy, ...]] = ("seek", "rejoin", "give up")
_LONGEST_STEP: Final = 5.0
"""Most seconds between two checks that count; a longer gap means that the process was suspended."""

Change: TypeAlias = Literal["assigned", "revoked", "lost"]
"""The method of `Owner` to call."""


class Rebalance(NamedTuple):
    """An event of the group that the owner must handle."""

    what: Change
    partitions: tuple[Partition, ...]


class Rebalances(Protocol):
    """Queues rebalances, and calls the owner for each."""

    def enqueue(self, rebalance: Rebalance) -> None:
        """Queue a rebalance until the owner is called; safe to call from any thread."""

    def dispatch(self) -> None:
        """Call the owner for queued rebalances; only on the thread that polls.

        Raises:
            StreamevalError: an error of the owner; the next call repeats the callback.
        """


class Monitor(Protocol):
    """What a second connection to the cluster knows.

    Attributes:
        partitions: all partitions seen so far.
        answers: whether the broker answered the last query.
        trouble: one sentence while the cluster cannot be read completely, else None.
    """

    partitions: frozenset[Partition]
    answers: bool
    trouble: str | None

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the source is closed."""


class Consumer(Protocol):
    """A subscribed client. It queues rebalances and delivers only started partitions.

    Revoked partitions are given up only after the owner's callback.
    """

    def poll(self, seconds: float, positions: Mapping[Partition, int]) -> list[RecordBatch]:
        """Records that arrive within `seconds`; none while the group rebalances.

        `positions`: started partitions that are still assigned -> next offset.

        Returns:
            At most one batch per partition; an empty batch for offsets without records
            (compaction, aborted transactions).

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: an error of the client.
        """

    def hold(self, partitions: Sequence[Partition]) -> None:
        """Read nothing from these, which are all assigned partitions, until `start`."""

    def start(self, offsets: Mapping[Partition, int]) -> None:
        """Read held partitions from these offsets."""

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Seek started partitions to these offsets, possibly again."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Continue reading these partitions."""

    def release(self, partitions: Collection[Partition]) -> None:
        """Give up these partitions, which the owner has finished or forgotten."""

    def commit(self, offsets: Mapping[Partition, int], *, wait: bool) -> bool:
        """Commit to the group; returns whether it has accepted these offsets.

        With `wait` it has. Without, it may not have answered yet: `poll` receives the answer, and
        the next call with these offsets returns it.

        Raises:
            FencedInstanceIdError: another process uses our member name.
            KafkaError: this commit, or one without an answer until now, failed.
        """

    def close(self) -> None:
        """Leave the group, unless a static member, and close; no more rebalances are queued."""


def skip_to(partition: Partition, offset: int) -> RecordBatch:
    """An empty batch that moves a position."""
    return RecordBatch(partition=partition, values=(), offsets=(), next_offset=offset)


class Stall(NamedTuple):
    """Stalled partitions, and the remedy to try next.

    Attributes:
        remedy: seek to the position again, rejoin the group, or give up.
        positions: stalled partition -> position.
    """

    remedy: Remedy
    positions: Mapping[Partition, int]


class _Stalled(NamedTuple):
    position: int
    seconds: float
    tried: int


class Watchdog:
    """Detects partitions that do not advance although records wait.

    Only time counts during which the broker answers and checks are made. Time and remedies of a
    partition start over when it advances or reaches its end, but not when it is revoked for a while
    (rejoining).

    `timeout`: seconds without progress before the next remedy; above 0.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._looked_at = clock()
        self._stalled: dict[Partition, _Stalled] = {}

    def check(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], *, answers: bool
    ) -> Stall | None:
        """The stall to act on, or None.

        `answers`: whether the broker answered the last query.
        """
        now = self._clock()
        step = min(now - self._looked_at, _LONGEST_STEP) if answers else 0.0
        self._looked_at = now
        for partition, position in positions.items():
            if ends.get(partition, 0) > position:
                self._stalled[partition] = self._observed(partition, position, step)
            else:
                self._stalled.pop(partition, None)
        ours = {p: stalled for p, stalled in self._stalled.items() if p in positions}
        due = {p: our for p, our in ours.items() if our.seconds >= self._timeout}
        return self._stall(due) if due else None

    def _observed(self, partition: Partition, position: int, step: float) -> _Stalled:
        before = self._stalled.get(partition)
        if before is None or position > before.position:
            return _Stalled(position, 0.0, 0)
        return before._replace(seconds=before.seconds + step)

    def _stall(self, due: Mapping[Partition, _Stalled]) -> Stall:
        """The strongest remedy that is due; the time of each partition then starts over."""
        tried = max(stalled.tried for stalled in due.values())
        for partition, stalled in due.items():
            self._stalled[partition] = stalled._replace(seconds=0.0, tried=tried + 1)
        remedy = _REMEDIES[min(tried, len(_REMEDIES) - 1)]
        return Stall(remedy, {p: stalled.position for p, stalled in due.items()})
