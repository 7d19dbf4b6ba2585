"""One order for the records of several logs, that depends on nothing but what they hold.

The next record is always one of the log whose clock stands lowest. So it does not matter in which
order batches arrive, and a log that leads is held back without anything being forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.attribution.interactions import InteractionColumns
from streameval.attribution.rules import FOREVER, NEVER
from streameval.pipeline.decode import Decoded
from streameval.pipeline.invalid import InvalidEvent
from streameval.records import Partition, RecordBatch

Content: TypeAlias = Decoded | InteractionColumns


class Piece(NamedTuple):
    """Consecutive records of one log whose turn has come.

    Attributes:
        lane: number of the log.
        content: the valid ones among them.
        before: clock of the log before each of these; NEVER where it had none.
        offsets: of the records by their places.
        records: how many there are, valid or not.
        invalid: those that are no impression or interaction.
        tombstones: how many have no value.
    """

    lane: int
    content: Content
    before: NDArray[np.int64]
    offsets: Sequence[int]
    records: int
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: int

    def offset(self, row: int) -> int:
        """The offset of a valid record."""
        return self.offsets[self.content.places[row]]


class _Chunk(msgspec.Struct, gc=False):
    """A batch of which some records wait; `done` of them do not any more."""

    content: Content
    offsets: Sequence[int]
    next_offset: int
    before: NDArray[np.int64]
    done: int = 0

    @property
    def waiting(self) -> int:
        return len(self.offsets) - self.done


class Lane:
    """A log of one stream.

    Attributes:
        number: of the log among all.
        stream: number of its stream; that of impressions is 0.
        partition: of the log.
        position: offset of the next record whose turn comes.
        clock: largest event time up to there; NEVER before the first.
        idle: whether nobody waits for it.
        ended: whether nothing more comes.
    """

    def __init__(self, number: int, stream: int, partition: Partition, position: int) -> None:
        self.number = number
        self.stream = stream
        self.partition = partition
        self.position = position
        self.clock = NEVER
        self.idle = False
        self.ended = False
        self._chunks: deque[_Chunk] = deque()
        self._tail = NEVER
        self._next = position

    @property
    def waiting(self) -> int:
        """Records whose turn has not come."""
        return sum(chunk.waiting for chunk in self._chunks)

    @property
    def expected(self) -> int:
        """The offset that has not been handed over yet."""
        return self._next

    @property
    def horizon(self) -> int:
        """Its clock when all that waits has had its turn; nobody waits for it beyond that."""
        return FOREVER if self.ended or self.idle else max(self._tail, self.clock)

    def resume(self, clock: int) -> None:
        """Go on with this clock."""
        self.clock = self._tail = clock

    def skip(self, offset: int) -> None:
        """Go on at this offset, if that is further."""
        self.position = self._next = max(self.position, offset)

    def push(self, batch: RecordBatch, content: Content) -> None:
        """Hand over the records that come next."""
        if batch.values:
            self.idle = self.ended = False
        times = np.full(len(batch.values) + 1, NEVER, dtype=np.int64)
        times[0] = max(self._tail, self.clock)
        if content.times is not None and len(content.places):
            times[np.array(content.places) + 1] = content.times
        running = np.maximum.accumulate(times)
        self._tail = int(running[-1])
        self._next = batch.next_offset
        if batch.values or self._chunks:
            chunk = _Chunk(content, batch.offsets, batch.next_offset, running[:-1])
            self._chunks.append(chunk)
        else:
            self.position = batch.next_offset

    def take(self, bound: int, *, including: bool) -> list[Piece]:
        """The records that come before a moment: those with a clock before them below it."""
        pieces = []
        while self._chunks:
            chunk = self._chunks[0]
            stop = int(np.searchsorted(chunk.before, bound, "right" if including else "left"))
            if stop > chunk.done:
                pieces.append(self._piece(chunk, stop))
            if chunk.waiting:
                break
            self.position = chunk.next_offset
            self._chunks.popleft()
        return pieces

    def _piece(self, chunk: _Chunk, stop: int) -> Piece:
        start, chunk.done = chunk.done, stop
        content = chunk.content
        places = content.places
        first, last = bisect_left(places, start), bisect_left(places, stop)
        if (first, last) != (0, len(places)):
            rows = np.zeros(len(places), dtype=np.bool_)
            rows[first:last] = True
            content = content.keep(rows)
        whole = stop == len(chunk.offsets)
        self.position = chunk.next_offset if whole else chunk.offsets[stop - 1] + 1
        self._advance(content, chunk.before[start:stop])
        return Piece(
            lane=self.number,
            content=content,
            before=chunk.before[np.array(content.places, dtype=np.intp)],
            offsets=chunk.offsets,
            records=stop - start,
            invalid=[each for each in content.invalid if start <= each[0] < stop],
            tombstones=sum(start <= place < stop for place in content.tombstones),
        )

    def _advance(self, content: Content, before: NDArray[np.int64]) -> None:
        self.clock = max(self.clock, int(before[-1]))
        if content.times is not None and len(content.times):
            self.clock = max(self.clock, int(content.times.max()))


def in_turn(lanes: Sequence[Lane]) -> list[Piece]:
    """All records whose turn has come, log by log; the turn of the others waits for a log.

    Of two logs with equal clocks the first one goes on.
    """
    first = min(range(len(lanes)), key=lambda place: (lanes[place].horizon, place))
    bound = lanes[first].horizon
    pieces = []
    for place, lane in enumerate(lanes):
        pieces += lane.take(bound, including=place <= first)
    return pieces


def awaited(lanes: Sequence[Lane]) -> list[Lane]:
    """The logs that the others wait for: those whose clocks stand lowest, and nothing waits."""
    lowest = min(lane.horizon for lane in lanes)
    return [lane for lane in lanes if lane.horizon == lowest and lane.horizon < FOREVER]
