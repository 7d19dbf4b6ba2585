"""The logs of one joined partition: the order of their records, positions, and the watermark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streameval.engine.clock import NEVER, Clock
from streameval.errors import SourceError, UnlikeStateError
from streameval.events.records import Partition, RecordBatch
from streameval.join.cursors import Content, LogCursor, RecordSlice, ready, slowest
from streameval.join.rules import FOREVER, Rules

MAX_AHEAD: Final = 20_000
"""Records of a log that may wait for the other logs; beyond it, reading the log pauses."""


class Log(NamedTuple):
    """One log of one stream, and where to begin in it.

    Attributes:
        stream: number of its stream; that of impressions is 0.
    """

    partition: Partition
    stream: int
    offset: int


class Logs:
    """Some logs that are joined; each has a number, by its place.

    `logs`: which; their order is part of the meaning of what is saved.

    Attributes:
        has_more: whether the last `take` left records that are next in order.
    """

    def __init__(self, logs: Sequence[Log], clock: Callable[[], Clock]) -> None:
        self._clock = clock
        self.has_more = False
        self.cursors = [
            LogCursor(number, log.stream, log.partition, log.offset, clock())
            for number, log in enumerate(logs)
        ]
        self._by_partition = {cursor.partition: cursor for cursor in self.cursors}

    @property
    def partitions(self) -> list[Partition]:
        """The logs, in the order of their numbers."""
        return [cursor.partition for cursor in self.cursors]

    @property
    def position(self) -> int:
        """A number that grows with every record that was joined."""
        return sum(cursor.position for cursor in self.cursors)

    @property
    def clocks(self) -> dict[Partition, int]:
        """Event time of each log so far, microseconds; without those that have none."""
        clocks = {cursor.partition: cursor.time.latest for cursor in self.cursors}
        return {partition: clock for partition, clock in clocks.items() if clock is not None}

    @property
    def expected(self) -> dict[Partition, int]:
        """The next offset to read of each log."""
        return {cursor.partition: cursor.expected for cursor in self.cursors}

    @property
    def waiting(self) -> bool:
        """Whether a record waits for other logs."""
        return any(cursor.waiting for cursor in self.cursors)

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return [cursor.partition for cursor in self.cursors if cursor.waiting > MAX_AHEAD]

    @property
    def slowest(self) -> list[Partition]:
        """Logs that the others wait for."""
        return [cursor.partition for cursor in slowest(self.cursors)]

    def push(self, batch: RecordBatch, content: Content) -> None:
        """Take a batch of one of them.

        Raises:
            SourceError: it begins before what was handed over already.
        """
        cursor = self._by_partition[batch.partition]
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < cursor.expected:
            read = f"although all before {cursor.expected} were read"
            problem = f"record {first} was delivered again, {read}"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        cursor.push(batch, content)

    def take(self, most: int) -> dict[int, list[RecordSlice]]:
        """The records that are next in order, by stream; about as many of each log."""
        found: dict[int, list[RecordSlice]] = {}
        slices, self.has_more = ready(self.cursors, most)
        for part in slices:
            found.setdefault(self.cursors[part.log].stream, []).append(part)
        return dict(sorted(found.items()))

    def watermark(self, rules: Rules) -> tuple[int, int]:
        """The event time before which no record comes any more, and the newest event time."""
        newest = max(self.clocks.values(), default=NEVER)
        waited_for = [
            cursor.time.now
            for cursor in self.cursors
            if cursor.waiting or not (cursor.idle or cursor.ended)
        ]
        if not waited_for:
            ended = all(cursor.ended for cursor in self.cursors)
            return (FOREVER if ended else newest + rules.window + 1), newest
        lowest = min(waited_for)
        return (NEVER if lowest == NEVER else lowest - rules.lateness), newest

    def end(self, partitions: Collection[Partition]) -> bool:
        """Mark logs as ended; returns whether one was not marked before."""
        ending = [
            cursor for cursor in self.cursors if cursor.partition in partitions and not cursor.ended
        ]
        for cursor in ending:
            cursor.ended = True
            cursor.settle()
        return bool(ending)

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at these offsets, where a log has lost what lies before them."""
        for cursor in self.cursors:
            cursor.skip(offsets.get(cursor.partition, 0))

    def state(self) -> list[Any]:
        """How far each has come, as plain values."""
        return [
            (cursor.partition, cursor.position, cursor.time.state(), cursor.idle, cursor.ended)
            for cursor in self.cursors
        ]

    def restore(self, saved: Sequence[Any]) -> None:
        """Continue from the output of `state`.

        Raises:
            UnlikeStateError: it is of other logs.
            ValueError: it is not that.
            TypeError: likewise.
        """
        there = [Partition(*log) for log, *_ in saved]
        if there != self.partitions:
            raise UnlikeStateError("logs", list(map(str, self.partitions)), list(map(str, there)))
        for number, (_, position, clock, idle, ended) in enumerate(saved):
            time = self._clock()
            time.restore(clock)
            fresh = LogCursor(number, self.cursors[number].stream, there[number], position, time)
            fresh.idle, fresh.ended = idle, ended
            self.cursors[number] = fresh
        self._by_partition = {cursor.partition: cursor for cursor in self.cursors}
