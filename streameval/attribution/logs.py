"""The logs behind one state: whose turn it is, how far each has come, and who is waited for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streameval.attribution.lanes import Content, Lane, Piece, awaited, in_turn
from streameval.attribution.rules import FOREVER, Rules
from streameval.errors import SourceError, UnlikeStateError
from streameval.pipeline.clock import NEVER, Clock
from streameval.records import Partition, RecordBatch

CROWDED: Final = 20_000
"""So many records of a log may wait for the others before no more of it should be read."""


class Log(NamedTuple):
    """One log of one stream, and where to begin in it.

    Attributes:
        partition: of the log.
        stream: number of its stream; that of impressions is 0.
        offset: of the first record to be read.
    """

    partition: Partition
    stream: int
    offset: int


class Logs:
    """Some logs that are joined; each has a number, by its place.

    Args:
        logs: which; their order is part of the meaning of what is saved.
        clock: makes the clock of a log.

    Attributes:
        lanes: of the logs.
    """

    def __init__(self, logs: Sequence[Log], clock: Callable[[], Clock]) -> None:
        self._clock = clock
        self.lanes = [
            Lane(number, log.stream, log.partition, log.offset, clock())
            for number, log in enumerate(logs)
        ]
        self._by_partition = {lane.partition: lane for lane in self.lanes}

    @property
    def partitions(self) -> list[Partition]:
        """The logs, in the order of their numbers."""
        return [lane.partition for lane in self.lanes]

    @property
    def position(self) -> int:
        """A number that grows with every record that had its turn."""
        return sum(lane.position for lane in self.lanes)

    @property
    def clocks(self) -> dict[Partition, int]:
        """Event time of each log so far, microseconds; without those that have none."""
        clocks = {lane.partition: lane.time.latest for lane in self.lanes}
        return {partition: clock for partition, clock in clocks.items() if clock is not None}

    @property
    def expected(self) -> dict[Partition, int]:
        """Of each log, the offset that has not been handed over yet."""
        return {lane.partition: lane.expected for lane in self.lanes}

    @property
    def waiting(self) -> bool:
        """Whether a record waits for its turn."""
        return any(lane.waiting for lane in self.lanes)

    @property
    def crowded(self) -> list[Partition]:
        """Logs that lead so far that no more of them should be read now."""
        return [lane.partition for lane in self.lanes if lane.waiting > CROWDED]

    @property
    def awaited(self) -> list[Partition]:
        """Logs that the others wait for."""
        return [lane.partition for lane in awaited(self.lanes)]

    def push(self, batch: RecordBatch, content: Content) -> None:
        """Take a batch of one of them.

        Raises:
            SourceError: it begins before what was handed over already.
        """
        lane = self._by_partition[batch.partition]
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < lane.expected:
            problem = f"record {first} came again, although all before {lane.expected} were read"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        lane.push(batch, content)

    def take(self) -> dict[int, list[Piece]]:
        """The records whose turn has come, by stream."""
        found: dict[int, list[Piece]] = {}
        for piece in in_turn(self.lanes):
            found.setdefault(self.lanes[piece.lane].stream, []).append(piece)
        return dict(sorted(found.items()))

    def watermark(self, rules: Rules) -> tuple[int, int]:
        """Before which moment nothing comes any more; and the newest event time."""
        newest = max(self.clocks.values(), default=NEVER)
        waited_for = [lane.time.now for lane in self.lanes if not lane.idle and not lane.ended]
        if not waited_for:
            ended = all(lane.ended for lane in self.lanes)
            return (FOREVER if ended else newest + rules.window + 1), newest
        lowest = min(waited_for)
        return (NEVER if lowest == NEVER else lowest - rules.lateness), newest

    def end(self, partitions: Collection[Partition]) -> bool:
        """Nothing more comes in these; whether that is new."""
        ending = [lane for lane in self.lanes if lane.partition in partitions and not lane.ended]
        for lane in ending:
            lane.ended = True
            lane.settle()
        return bool(ending)

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at these offsets, where a log has lost what lies before them."""
        for lane in self.lanes:
            lane.skip(offsets.get(lane.partition, 0))

    def state(self) -> list[Any]:
        """How far each has come, as plain values."""
        return [
            (lane.partition, lane.position, lane.time.state(), lane.idle, lane.ended)
            for lane in self.lanes
        ]

    def restore(self, saved: Sequence[Any]) -> None:
        """Go on from what `state` gave.

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
            fresh = Lane(number, self.lanes[number].stream, there[number], position, time)
            fresh.idle, fresh.ended = idle, ended
            self.lanes[number] = fresh
        self._by_partition = {lane.partition: lane for lane in self.lanes}
