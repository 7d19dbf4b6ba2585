"""The state of one joined partition, together with the position in each log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import gt
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import BEFORE_ALL, Clock, Int64
from streameval.engine.dead_letters import Identity
from streameval.engine.partition import Applied, EventCounter, PartitionState, Progress, Tally
from streameval.engine.windows.sections import Section
from streameval.events.ragged import IdColumn
from streameval.events.records import Partition, RecordBatch
from streameval.events.saved_states import damage_as_error, unknown_version
from streameval.join.attribution import LAYOUT, OutcomeCounts, Rules
from streameval.join.interactions import InteractionColumns
from streameval.join.joiner import STEP_LIMIT, Joiner
from streameval.join.logs import Log, Logs
from streameval.statistics.relation import next_version

JOIN_PREFIX: Final = "~join"

DecodedStream: TypeAlias = Decoded | InteractionColumns
"""Decoded impressions or interactions."""


class JoinedState(PartitionState):
    """The state of joined logs at their positions; depends on their records alone.

    `counter`: see `PartitionState`. `logs`: their order must be the same to restore a state.

    Attributes:
        joiner: the records that wait.
        logs: the logs, which put their records in order.
        idle_timeouts: number of times that an idle log was skipped since this object was made.
        proposed_at: position of a proposal to skip idle logs; None without one.
    """

    def __init__(
        self,
        counter: EventCounter,
        rules: Rules,
        logs: Sequence[Log],
    ) -> None:
        super().__init__(counter, {})
        clock = counter.layout.clock
        self.logs = Logs(logs, lambda: Clock(clock), rules.lateness)
        self.joiner = Joiner(rules, [log.stream for log in logs])
        self.idle_timeouts = 0
        self.proposed_at: int | None = None
        self._join_version = next_version()
        self._advances = 0
        self._goal = BEFORE_ALL, BEFORE_ALL
        self._proposed: dict[int, int] = {}
        self._before = [OutcomeCounts() for _ in self.joiner.outcomes]
        self._refused: list[tuple[Identity, InvalidEvent]] = []

    @property
    def position(self) -> int:
        """A number that grows with every joined record and every change of idle or ended logs."""
        return self.logs.position + self._advances

    def progress(self) -> Mapping[Partition, Progress]:
        """Position and event time of the counts, by log."""
        return {
            cursor.partition: Progress(cursor.position, self.clock) for cursor in self.logs.cursors
        }

    def has_counted(self, offsets: Mapping[Partition, int]) -> bool:
        """Return whether all lists below these offsets are counted; see `PartitionState`."""
        limits = [offsets.get(cursor.partition, 0) for cursor in self.logs.cursors]
        if any(map(gt, limits, [cursor.position for cursor in self.logs.cursors])):
            return False
        return self.joiner.has_closed(limits, self.logs.last_time(self.joiner.rules))

    @property
    def outcomes(self) -> Sequence[OutcomeCounts]:
        """Outcomes of the records of each stream."""
        return self.joiner.outcomes

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return self.logs.backpressured

    @property
    def blocked(self) -> bool:
        """True if records wait for other logs, or lists for the end of their window."""
        return bool(self.logs.waiting) or any(counts.open for counts in self.outcomes)

    def done(self) -> list[OutcomeCounts]:
        """Outcomes of the records of each stream since this object was made or restored."""
        pairs = zip(self.outcomes, self._before, strict=True)
        return [counts.plus(before, -1) for counts, before in pairs]

    def apply(self, batch: RecordBatch, content: DecodedStream) -> Applied:
        """Add a batch; `proceed` counts the lists that it completes."""
        columns = self._number_items(content) if isinstance(content, Decoded) else content
        self.logs.push(batch, columns)
        self.unfinished = True
        tally = Tally(consumed=len(batch.values), tombstones=len(content.tombstones))
        tally.valid = len(content.indices)
        tally.add_invalid([event for _, event in content.invalid])
        return Applied(content.invalid, tally)

    def _number_items(self, lists: Decoded) -> Decoded:
        """The lists with numbers of items, taken while the ids are in the processor's cache."""
        items = self.joiner.items
        ragged = items.numbers(lists.batch.recommendations)
        batch = msgspec.structs.replace(
            lists.batch, recommendations=IdColumn(ragged, items.codes.names), matches=None
        )
        indices = np.array(lists.indices, dtype=np.int64)
        return msgspec.structs.replace(lists, batch=batch, indices=indices)

    def end(self, partitions: Collection[Partition]) -> None:
        """Mark logs as ended; the others no longer wait for them."""
        if self.logs.end(partitions):
            self._advances += 1
            self.unfinished = True

    def confirm(self) -> None:
        """Count records that wait for others to confirm their time, as no others come."""
        for cursor in self.logs.cursors:
            cursor.confirm()
        self.unfinished = True
        self.finish()

    def proceed(self) -> None:
        """Join the next records, or count some of the events that they complete.

        Records stay in their logs until all events completed by earlier records are counted, so
        the finished state does not depend on the size of these steps.

        Raises:
            RefusedRecordsError: more records wait than the limits allow.
        """
        if self.joiner.watermark >= self._goal[0]:
            for stream, slices in self.logs.take(STEP_LIMIT).items():
                for part in slices:
                    future = 0 if part.future is None else len(part.future.indices)
                    tally = Tally(consumed=part.records, tombstones=part.tombstones, future=future)
                    tally.valid = len(part.content.indices) + future
                    tally.add_invalid([event for _, event in part.invalid])
                    self.add(tally)
                self.joiner.add(stream, slices)
            self._goal = self.logs.watermark(self.joiner.rules, self.joiner.latest)
        for log, offset, event in self.joiner.advance(*self._goal, self._count_closed):
            # A list that cannot be counted was valid when it was read.
            self._refused.append((Identity(self.logs.cursors[log].partition, offset), event))
            tally = Tally(valid=-1)
            tally.add_invalid([event])
            self.add(tally)
        self.unfinished = self.logs.has_more or self.joiner.watermark < self._goal[0]
        self._join_version = next_version()

    @property
    def proposed(self) -> Mapping[Partition, int]:
        """The logs of the proposal, and the next offset of each when it was made."""
        cursors = self.logs.cursors
        return {
            cursor.partition: self._proposed[cursor.number]
            for cursor in cursors
            if cursor.number in self._proposed
        }

    def propose(self, partitions: Collection[Partition]) -> None:
        """Propose to skip idle logs; call `accept` once a checkpoint has the proposal."""
        self._proposed = {
            cursor.number: cursor.expected
            for cursor in self.logs.cursors
            if cursor.partition in partitions
        }
        self._advances += 1
        self._join_version = next_version()
        self.proposed_at = self.position

    def accept(self, idle: Collection[Partition]) -> None:
        """End the proposal: the others no longer wait for those of its logs that are idle."""
        skipped = [cursor for cursor in self.logs.cursors if cursor.partition in idle]
        self._proposed, self.proposed_at = {}, None
        for cursor in skipped:
            cursor.idle = True
            cursor.confirm()
        self.idle_timeouts += len(skipped)
        self._advances += 1
        self._join_version = next_version()
        self.unfinished = True

    def take_refused(self) -> Sequence[tuple[Identity, InvalidEvent]]:
        """Records of lists that could not be counted when their window was over."""
        refused, self._refused = self._refused, []
        return refused

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Continue at these offsets, where logs have lost the records before them."""
        self.logs.skip(offsets)

    def sections(self) -> list[Section]:
        """The content as sections, sorted by name; finishes counting first."""
        self.finish()
        join_section = Section(JOIN_PREFIX, self._join_version, self._join_meta)
        sections = [join_section, *super().sections(), *self.joiner.sections()]
        return sorted(sections, key=lambda section: section.name)

    def restore(
        self,
        parts: Mapping[str, bytes],
        *,
        earlier: PartitionState | None = None,
        unchanged: Collection[str] = (),
        empty_unlike: bool = False,
    ) -> None:
        """Replace the content with the output of `sections`; see `PartitionState.restore`."""
        join_parts = {
            name: content for name, content in parts.items() if name.startswith(JOIN_PREFIX)
        }
        counts = {name: parts[name] for name in parts.keys() - join_parts.keys()}
        super().restore(counts, earlier=earlier, unchanged=unchanged, empty_unlike=empty_unlike)
        with damage_as_error(JOIN_PREFIX):
            state = msgspec.msgpack.decode(join_parts[JOIN_PREFIX], type=dict[str, Any])
            if state.get("version") != LAYOUT:
                raise unknown_version(JOIN_PREFIX, state.get("version"), LAYOUT)
            self.logs.restore(state["logs"])
            self._advances = msgspec.convert(state["advances"], Int64)
            self._proposed = dict(msgspec.convert(state["proposed"], list[tuple[Int64, Int64]]))
            self.joiner.restore(state["joiner"], join_parts)
        self.proposed_at = self.position if self._proposed else None
        self._before = [msgspec.structs.replace(counts) for counts in self.outcomes]

    def _count_closed(self, events: Decoded) -> Mapping[int, InvalidEvent]:
        """Count the events of closed lists; returns the rows of those that cannot be counted."""
        countable, lists = self._counter.countable([self], events)
        if len(countable.indices):
            self._counter.count(self, countable, lists)
        return dict(countable.invalid)

    def _join_meta(self) -> Callable[[], Iterator[bytes]]:
        state = {
            "advances": self._advances,
            "joiner": self.joiner.state_dict(),
            "logs": self.logs.state(),
            "proposed": sorted(self._proposed.items()),
            "version": LAYOUT,
        }
        return lambda: iter([msgspec.msgpack.encode(state)])
