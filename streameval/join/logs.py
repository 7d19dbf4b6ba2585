"""The logs of one joined partition: the order of their records, positions, and the watermark.

Records are joined no further than the clock of the slowest log. So the records that wait depend on
the logs, not on the arrival of batches, and a log that is ahead does not add to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import BEFORE_ALL, Clock, Int64, Ticks
from streameval.events.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.events.saved_states import LOADED, unlike
from streameval.join.attribution import FOREVER, Rules
from streameval.join.interactions import InteractionColumns

MAX_WAITING: Final = 20_000
"""Limit of waiting records of a log, above which reading it pauses."""

Content: TypeAlias = Decoded | InteractionColumns


class RecordSlice(NamedTuple):
    """Consecutive records of one log that are next in order.

    Attributes:
        before: clock of the log before each record of the content; BEFORE_ALL before the first.
        offsets: of all records of the batch.
        future: the valid records from the future, or None.
    """

    log: int
    content: Content
    before: NDArray[np.int64]
    offsets: NDArray[np.int64]
    records: int
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: int
    future: Content | None


class _Chunk(msgspec.Struct, gc=False):
    """A batch with waiting records.

    Attributes:
        before: clock of the log before each record.
        clock_after: the clock of the log after the batch.
        refuted: indices of the records from the future.
        done: number of records that wait no more.
    """

    content: Content
    offsets: NDArray[np.int64]
    next_offset: int
    before: NDArray[np.int64]
    clock_after: Clock
    refuted: set[int]
    done: int = 0

    @property
    def waiting(self) -> int:
        return len(self.offsets) - self.done


class _Unconfirmed(NamedTuple):
    """A record too far ahead, which later records have neither confirmed nor refuted yet."""

    event: int
    time: int
    chunk: _Chunk
    at: int


class Log(NamedTuple):
    """A log, its stream and its first offset.

    Attributes:
        stream: number of its stream; 0 for impressions.
    """

    partition: Partition
    stream: int
    offset: int


class LogCursor:
    """The position in a log, and the records that were read ahead of it.

    A record ahead of the clock by more than the lateness waits until later records confirm it, or
    refute it as from the future; the records after it wait as well. So none is refuted if no record
    is behind an earlier one by more than the lateness. The clock advances as without a join.

    Attributes:
        stream: number of its stream; 0 for impressions.
        time: its clock at the position.
        expected: the next offset to read.
        idle: True if the other logs do not wait for it.
    """

    def __init__(self, number: int, log: Log, time: Clock, lateness: int) -> None:
        self.number = number
        self.stream = log.stream
        self.partition = log.partition
        self.position = log.offset
        self.time = time
        self.idle = False
        self.ended = False
        self._chunks: deque[_Chunk] = deque()
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self._tail = time.copy()
        self._lateness = lateness
        self.expected = log.offset

    @property
    def waiting(self) -> int:
        """Number of records that were read and not joined yet."""
        return sum(chunk.waiting for chunk in self._chunks)

    @property
    def horizon(self) -> int:
        """Its clock after all records that need not wait for confirmation."""
        if self.ended or self.idle:
            return FOREVER
        if self._unconfirmed:
            first = self._unconfirmed[0]
            return int(first.chunk.before[first.at])
        return self._tail.now

    def clock_before(self, index: int) -> int:
        """Its clock before the waiting record with this index; FOREVER if fewer wait."""
        for chunk in self._chunks:
            if index < chunk.waiting:
                return int(chunk.before[chunk.done + index])
            index -= chunk.waiting
        return FOREVER

    def skip(self, offset: int) -> None:
        """Continue at this offset if it is after the position."""
        self.position = self.expected = max(self.position, offset)

    def push(self, batch: RecordBatch, content: Content) -> None:
        """Append the next records."""
        if batch.values:
            self.idle = self.ended = False
        times = np.full(len(batch.values) + 1, BEFORE_ALL, dtype=np.int64)
        times[0] = self._tail.now
        ticks = None
        if len(content.indices):
            ticks = self._tail.advance(_times(content), content.voters)
            times[content.indices + 1] = ticks.clocks
        before = np.maximum.accumulate(times)[:-1]
        self.expected = batch.next_offset
        if batch.values or self._chunks:
            offsets = np.array(batch.offsets, dtype=np.int64)
            chunk = _Chunk(content, offsets, batch.next_offset, before, self._tail.copy(), set())
            self._chunks.append(chunk)
            if ticks is not None:
                self._resolve_unconfirmed(chunk, ticks)
        else:
            self.position = batch.next_offset

    def confirm(self) -> None:
        """Confirm the records ahead of the clock, as no more records come to refute them."""
        self._unconfirmed.clear()

    def take(self, bound: int) -> list[RecordSlice]:
        """Remove the waiting records before which the clock is at most at a bound."""
        slices = []
        while self._chunks:
            chunk = self._chunks[0]
            stop = int(np.searchsorted(chunk.before, bound, "right"))
            if self._unconfirmed and self._unconfirmed[0].chunk is chunk:
                stop = min(stop, self._unconfirmed[0].at)
            if stop > chunk.done:
                slices.append(self._slice(chunk, stop))
            if chunk.waiting:
                break
            self.position = chunk.next_offset
            self._chunks.popleft()
        return slices

    def _resolve_unconfirmed(self, chunk: _Chunk, ticks: Ticks) -> None:
        """Find records too far ahead of the clock; confirm or refute earlier ones."""
        times, first = _times(chunk.content), ticks.first
        clocks = ticks.clocks + self._lateness
        for row in np.flatnonzero(times > clocks).tolist():
            index = int(chunk.content.indices[row])
            self._unconfirmed.append(_Unconfirmed(first + row, int(times[row]), chunk, index))
        waiting, self._unconfirmed = self._unconfirmed, deque()
        for record in waiting:
            verdict = ticks.verdict(record.event)
            if clocks[-1 if verdict is None else verdict] >= record.time:
                continue
            if verdict is not None:
                record.chunk.refuted.add(record.at)
            else:
                self._unconfirmed.append(record)

    def _slice(self, chunk: _Chunk, stop: int) -> RecordSlice:
        start, chunk.done = chunk.done, stop
        indices = chunk.content.indices
        first, last = np.searchsorted(indices, (start, stop)).tolist()
        content, future = chunk.content.rows(first, last), None
        if stop == len(chunk.offsets):
            self.time, self.position = chunk.clock_after, chunk.next_offset
        else:
            self.position = int(chunk.offsets[stop - 1]) + 1
            if first < last:
                self.time.advance(_times(content), content.voters)
        ahead = np.isin(content.indices, list(chunk.refuted))
        if ahead.any():
            content, future = content.keep(~ahead), content.keep(ahead)
        return RecordSlice(
            log=self.number,
            content=content,
            before=chunk.before[content.indices],
            offsets=chunk.offsets,
            records=stop - start,
            invalid=[entry for entry in content.invalid if start <= entry[0] < stop],
            tombstones=sum(start <= index < stop for index in content.tombstones),
            future=future,
        )


def _times(content: Content) -> NDArray[np.int64]:
    """Event time of each record; the streams of a join have one."""
    return cast("NDArray[np.int64]", content.times)


class Logs:
    """The joined logs, numbered in their order.

    `logs`: their order must be the same to restore a state. `lateness`: how far ahead of its clock
    a record is accepted at once, microseconds.

    Attributes:
        has_more: whether the last `take` left records that are next in order.
    """

    def __init__(self, logs: Sequence[Log], clock: Callable[[], Clock], lateness: int) -> None:
        self._clock, self._lateness = clock, lateness
        self.has_more = False
        self.cursors = [
            LogCursor(number, log, clock(), lateness) for number, log in enumerate(logs)
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
        """Event time of each log, microseconds; logs without event time are absent."""
        clocks = {cursor.partition: cursor.time.latest for cursor in self.cursors}
        return {partition: clock for partition, clock in clocks.items() if clock is not None}

    @property
    def expected(self) -> dict[Partition, int]:
        """The next offset to read of each log."""
        return {cursor.partition: cursor.expected for cursor in self.cursors}

    @property
    def waiting(self) -> int:
        """Number of records that wait for other logs."""
        return sum(cursor.waiting for cursor in self.cursors)

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return [cursor.partition for cursor in self.cursors if cursor.waiting > MAX_WAITING]

    @property
    def slowest(self) -> list[Partition]:
        """Logs that the others wait for."""
        lowest = min(cursor.horizon for cursor in self.cursors)
        return [cursor.partition for cursor in self.cursors if cursor.horizon == lowest < FOREVER]

    def push(self, batch: RecordBatch, content: Content) -> None:
        """Add a batch of one of the logs."""
        cursor = self._by_partition[batch.partition]
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < cursor.expected:
            problem = f"record {first} was delivered again after record {cursor.expected - 1}"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        cursor.push(batch, content)

    def take(self, most: int) -> dict[int, list[RecordSlice]]:
        """Remove the records that are next, by stream; at most about `most` of each log.

        The others wait for a slower log.
        """
        lowest = min(cursor.horizon for cursor in self.cursors)
        near = min(cursor.clock_before(most) for cursor in self.cursors)
        self.has_more = near < lowest
        slices: dict[int, list[RecordSlice]] = {}
        for cursor in self.cursors:
            for part in cursor.take(min(near, lowest)):
                slices.setdefault(cursor.stream, []).append(part)
        return dict(sorted(slices.items()))

    def last_time(self, rules: Rules) -> int:
        """The largest time of a record that may close while no more come."""
        newest = max(self.clocks.values(), default=BEFORE_ALL)
        return newest + max(rules.window, rules.lateness)

    def watermark(self, rules: Rules, latest: Callable[[int], int]) -> tuple[int, int]:
        """The event time before which no record is expected, and the newest event time.

        `latest`: returns the largest time of a joined record up to a limit.
        """
        newest = max(self.clocks.values(), default=BEFORE_ALL)
        waited_for = [
            cursor.time.now
            for cursor in self.cursors
            if cursor.waiting or not (cursor.idle or cursor.ended)
        ]
        if not waited_for:
            if all(cursor.ended for cursor in self.cursors):
                return FOREVER, newest
            # The last records may be ahead of their clocks; a wrong time stays open.
            newest = max(newest, latest(self.last_time(rules)))
            return newest + rules.window + 1, newest
        lowest = min(waited_for)
        return (BEFORE_ALL if lowest == BEFORE_ALL else lowest - rules.lateness), newest

    def end(self, partitions: Collection[Partition]) -> bool:
        """Mark logs as ended; returns whether this changed any."""
        ending = [
            cursor for cursor in self.cursors if cursor.partition in partitions and not cursor.ended
        ]
        for cursor in ending:
            cursor.ended = True
            cursor.confirm()
        return bool(ending)

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Continue at these offsets, where logs have lost the records before them."""
        for cursor in self.cursors:
            cursor.skip(offsets.get(cursor.partition, 0))

    def state(self) -> list[Any]:
        """Position, clock and status of each log, as plain values."""
        return [
            (cursor.partition, cursor.position, cursor.time.state(), cursor.idle, cursor.ended)
            for cursor in self.cursors
        ]

    def restore(self, saved: Sequence[Any]) -> None:
        """Continue from the output of `state`."""
        logs = msgspec.convert(saved, list[tuple[Partition, Int64, Any, bool, bool]])
        saved_logs = [log for log, *_ in logs]
        if saved_logs != self.partitions:
            own, others = (list(map(str, logs)) for logs in (self.partitions, saved_logs))
            raise unlike("logs", own, others, sides=LOADED)
        for number, (_, position, clock, idle, ended) in enumerate(logs):
            time = self._clock()
            time.restore(clock)
            log = Log(saved_logs[number], self.cursors[number].stream, position)
            fresh = LogCursor(number, log, time, self._lateness)
            fresh.idle, fresh.ended = idle, ended
            self.cursors[number] = fresh
        self._by_partition = {cursor.partition: cursor for cursor in self.cursors}
