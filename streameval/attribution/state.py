"""What has been counted of one partition of several streams, and up to where in each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple

import msgspec
import numpy as np

from streameval.aggregation.family import Family
from streameval.aggregation.section import Section, next_version
from streameval.aggregation.slices import A
from streameval.attribution.account import Account
from streameval.attribution.joiner import Joiner
from streameval.attribution.lanes import Content, Lane, Piece, awaited, in_turn
from streameval.attribution.rules import FOREVER, NEVER, Rules
from streameval.errors import DamagedStateError, SourceError, UnlikeStateError
from streameval.pipeline.ahead import too_far_ahead
from streameval.pipeline.awaited import Awaited
from streameval.pipeline.decode import Decoded
from streameval.pipeline.layout import Layout
from streameval.pipeline.partition import Applied, PartitionState, Progress
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch

PREFIX: Final = "~join"
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


class JoinedState(Generic[A]):
    """The fold of some logs up to `positions`: a function of their records alone.

    A `PartitionState` counts the events that come out of the join.

    Args:
        layout: what is kept of the events.
        rules: what is joined with what.
        logs: those that are joined; their order is part of the state's meaning.
        sink: handed the events that are complete; None counts them.

    Attributes:
        joiner: what waits.
        passed_by: how often a log was waited for no longer, since this object was made.
        proposed_at: position at which passing by idle logs was proposed, until it is accepted.
    """

    def __init__(
        self,
        layout: Layout[A],
        rules: Rules,
        logs: Sequence[Log],
        sink: Callable[[Decoded], object] | None = None,
    ) -> None:
        self._layout = layout
        self._counted = PartitionState(layout, logs[0].partition, 0)
        self._sink = sink or self._counted.count
        self._lanes = [
            Lane(number, log.stream, log.partition, log.offset) for number, log in enumerate(logs)
        ]
        self._by_partition = {lane.partition: lane for lane in self._lanes}
        self._replays = [Awaited() for _ in logs]
        self._version = next_version()
        self._advances = 0
        self._proposed: frozenset[int] = frozenset()
        self.proposed_at: int | None = None
        self.passed_by = 0
        self.joiner = Joiner(rules, [log.stream for log in logs])
        self._before = [Account() for _ in self.joiner.accounts]

    @property
    def position(self) -> int:
        """A number that grows with every record that had its turn, and every idle log passed by."""
        return sum(lane.position for lane in self._lanes) + self._advances

    def progress(self) -> Mapping[Partition, Progress]:
        """How far each log was counted; and the time of the newest event that was."""
        return {
            lane.partition: Progress(lane.position, self._counted.clock) for lane in self._lanes
        }

    @property
    def clocks(self) -> dict[Partition, int]:
        """Newest event time of each log, microseconds; without those that have none."""
        return {lane.partition: lane.clock for lane in self._lanes if lane.clock != NEVER}

    @property
    def logs(self) -> list[Partition]:
        """The logs behind it, in the order of their numbers."""
        return [lane.partition for lane in self._lanes]

    @property
    def blocked(self) -> bool:
        """Whether something waits: for its turn, or for its window to end."""
        waiting = any(lane.waiting for lane in self._lanes)
        return waiting or any(account.open for account in self.accounts)

    @property
    def expected(self) -> dict[Partition, int]:
        """Of each log, the offset that has not been handed over yet."""
        return {lane.partition: lane.expected for lane in self._lanes}

    def done(self) -> list[Account]:
        """What became of the records of each stream since this object began, or was restored."""
        pairs = zip(self.accounts, self._before, strict=True)
        return [account.less(before) for account, before in pairs]

    @property
    def clock(self) -> int | None:
        """Time of the newest event that was counted, microseconds."""
        return self._counted.clock

    @property
    def tally(self) -> Tally:
        """What became of the records."""
        return self._counted.tally

    @property
    def families(self) -> Mapping[str, Family[A]]:
        """What is kept, by name."""
        return self._counted.families

    @property
    def since(self) -> dict[str, int]:
        """`family:statistic` -> clock at which it was first kept."""
        return self._counted.since

    @property
    def accounts(self) -> Sequence[Account]:
        """What became of the records of each stream."""
        return self.joiner.accounts

    @property
    def crowded(self) -> list[Partition]:
        """Logs that lead so far that no more of them should be read now."""
        return [lane.partition for lane in self._lanes if lane.waiting > CROWDED]

    @property
    def awaited(self) -> list[Partition]:
        """Logs that the others wait for."""
        return [lane.partition for lane in awaited(self._lanes)]

    def apply(self, batch: RecordBatch, content: Content) -> Applied:
        """Take a batch; count whatever is complete by it.

        Raises:
            SourceError: it begins before what was handed over already.
            TooManyOpenError: more waits than the limits allow.
        """
        lane = self._by_partition[batch.partition]
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < lane.expected:
            problem = f"record {first} came again, although all before {lane.expected} were read"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        if batch.timestamps is not None:
            content = too_far_ahead(content, batch.timestamps, self._layout.max_ahead)
        lane.push(batch, content)
        self._count()
        tally = Tally(consumed=len(batch.values), tombstones=len(content.tombstones))
        tally.valid = len(content.places)
        tally.refuse([event for _, event in content.invalid])
        return Applied(content.invalid, tally)

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these logs: the others wait for them no longer."""
        ending = [lane for lane in self._lanes if lane.partition in partitions and not lane.ended]
        for lane in ending:
            lane.ended = True
        if ending:
            self._advances += 1
            self._count()

    def propose(self, partitions: Collection[Partition]) -> None:
        """Pass by these idle logs, once that is saved: `accept` does it."""
        wanted = {lane.number for lane in self._lanes if lane.partition in partitions}
        if wanted - self._proposed:
            self._proposed |= wanted
            self._advances += 1
            self._version = next_version()
            self.proposed_at = self.position

    def accept(self) -> None:
        """What was proposed is saved: from now on nobody waits for those logs."""
        for number in self._proposed:
            self._lanes[number].idle = True
        if self._proposed:
            self.passed_by += len(self._proposed)
            self._proposed, self.proposed_at = frozenset(), None
            self._advances += 1
            self._count()

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at these offsets, where the log has lost what lies before them."""
        for lane in self._lanes:
            lane.skip(offsets.get(lane.partition, 0))

    def carry(self, other: JoinedState[A]) -> None:
        """Go on with the records that wait for their turn in another one of the same logs."""
        for lane, before in zip(self._lanes, other._lanes, strict=True):
            lane.carry(before)
        self.passed_by += other.passed_by
        self._before = [msgspec.structs.replace(each) for each in other._before]

    def sections(self) -> list[Section]:
        """Its content in pieces, sorted by name; equal content gives equal pieces."""
        own = Section(PREFIX, self._version, self._meta)
        found = [own, *self._counted.sections(), *self.joiner.sections()]
        return sorted(found, key=lambda section: section.name)

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Take the place of the content by what `sections` gave.

        Raises:
            DamagedStateError: the parts are not what `sections` gave.
            UnlikeStateError: they were made of other logs, inputs or options.
        """
        own = {name: held for name, held in parts.items() if name.startswith(PREFIX)}
        self._counted.restore({name: parts[name] for name in parts.keys() - own.keys()})
        try:
            state: dict[str, Any] = msgspec.msgpack.decode(own[PREFIX])
            saved = {Partition(*log): rest for log, *rest in state["logs"]}
            self._restore_lanes(saved)
            self._advances = int(state["advances"])
            self._proposed = frozenset(state["proposed"])
            self.joiner.restore(state["joiner"], own)
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise DamagedStateError(PREFIX, f"{type(error).__name__}: {error}") from error
        self.proposed_at = self.position if self._proposed else None
        self._before = [msgspec.structs.replace(account) for account in self.accounts]

    def _restore_lanes(self, saved: Mapping[Partition, list[Any]]) -> None:
        here = [lane.partition for lane in self._lanes]
        if list(saved) != here:
            raise UnlikeStateError("logs", list(map(str, here)), list(map(str, saved)))
        lanes = []
        for lane in self._lanes:
            position, clock, idle, ended, listed = saved[lane.partition]
            fresh = Lane(lane.number, lane.stream, lane.partition, position)
            fresh.resume(clock)
            fresh.idle, fresh.ended = idle, ended
            lanes.append(fresh)
            self._replays[lane.number] = Awaited.from_list(listed)
        self._lanes = lanes
        self._by_partition = {lane.partition: lane for lane in lanes}

    def _count(self) -> None:
        """Records whose turn has come, and the events that they complete."""
        pieces: dict[int, list[Piece]] = {}
        for piece in in_turn(self._lanes):
            stream = self._lanes[piece.lane].stream
            pieces.setdefault(stream, []).append(self._judged(piece, stream))
        for stream, found in sorted(pieces.items()):
            self.joiner.add(stream, found)
        watermark, newest = self._watermark()
        events = self.joiner.advance(watermark, newest)
        if events is not None:
            self._sink(events)
        self._version = next_version()

    def _judged(self, piece: Piece, stream: int) -> Piece:
        """Without records that stand for one that nobody awaits; counts what is not open."""
        tally = Tally(consumed=piece.records, tombstones=piece.tombstones)
        places = piece.content.places
        if piece.invalid or piece.replaced:
            refused = self._replays[piece.lane].refused(
                piece.offsets, piece.invalid, piece.replaced, places, tally
            )
            if not refused.isdisjoint(places):
                rows = np.array([place not in refused for place in places])
                tally.duplicates = int(np.count_nonzero(~rows))
                self.joiner.accounts[stream].duplicate += tally.duplicates
                piece = piece._replace(content=piece.content.keep(rows), before=piece.before[rows])
        tally.valid = len(piece.content.places)
        tally.refuse([event for _, event in piece.invalid])
        self._counted.tally.add(tally)
        return piece

    def _watermark(self) -> tuple[int, int]:
        """Before which moment nothing comes any more; and the newest event time."""
        rules = self.joiner.rules
        newest = max(lane.clock for lane in self._lanes)
        awaited = [lane.clock for lane in self._lanes if not lane.idle and not lane.ended]
        if not awaited:
            ended = all(lane.ended for lane in self._lanes)
            return (FOREVER if ended else newest + rules.window + 1), newest
        lowest = min(awaited)
        return (NEVER if lowest == NEVER else lowest - rules.lateness), newest

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        logs = [
            (
                lane.partition,
                lane.position,
                lane.clock,
                lane.idle,
                lane.ended,
                replays.as_list(),
            )
            for lane, replays in zip(self._lanes, self._replays, strict=True)
        ]
        state = {
            "advances": self._advances,
            "joiner": self.joiner.state_dict(),
            "logs": logs,
            "proposed": sorted(self._proposed),
        }
        return lambda: iter([msgspec.msgpack.encode(state)])
