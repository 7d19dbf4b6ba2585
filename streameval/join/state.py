"""The state of one joined partition, and the position in each log.

SourceError is raised for records that were read already, DamagedStateError for parts that are not
the output of `sections`, and UnlikeStateError for those of other logs, inputs or options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from streameval.decoding.columns import Decoded
from streameval.engine.clock import NEVER, Clock
from streameval.engine.dead_letters import Identity
from streameval.engine.ingest import SKIPPABLE, described
from streameval.engine.partition import Applied, Layout, PartitionState, Progress, Tally
from streameval.errors import DamagedStateError, StreamevalError, UncountableRecordError
from streameval.events.records import Partition, RecordBatch
from streameval.join.interactions import InteractionColumns
from streameval.join.joiner import AT_ONCE, Joiner, Trace
from streameval.join.logs import Log, Logs, RecordSlice
from streameval.join.rules import Account, Rules
from streameval.windows.sections import Section, next_version

PREFIX: Final = "~join"

DecodedStream: TypeAlias = Decoded | InteractionColumns
"""Impressions or interactions, as they were decoded."""


class JoinedState(PartitionState):
    """The fold of some logs up to their positions: a function of their records alone.

    The events that come out of the join are counted as a `PartitionState` counts.

    `logs`: their order is part of the state's meaning. `sink`: handed the events that are complete;
    None counts them. `trace`: called with the outcome of each record.

    Attributes:
        joiner: the records that wait.
        logs: puts the records of all logs in order.
        passed_by: how often an idle log was passed by, since this object was made.
        proposed_at: position at which passing by idle logs was proposed, until it is accepted.
    """

    def __init__(
        self,
        layout: Layout,
        rules: Rules,
        logs: Sequence[Log],
        sink: Callable[[Decoded], object] | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(layout, logs[0].partition, 0)
        self.logs = Logs(logs, lambda: Clock(layout.max_ahead, layout.recent))
        self.joiner = Joiner(rules, [log.stream for log in logs], layout.recent, trace)
        self.passed_by = 0
        self.proposed_at: int | None = None
        self._sink = sink
        self._join_version = next_version()
        self._advances = 0
        self._goal = NEVER, NEVER
        self._proposed: dict[int, int] = {}
        self._before = [Account() for _ in self.joiner.accounts]

    @property
    def position(self) -> int:
        """A number that grows with every record that was joined, and every idle log passed by."""
        return self.logs.position + self._advances

    def progress(self) -> Mapping[Partition, Progress]:
        """How far each log was counted; and the time of the newest event that was."""
        return {
            cursor.partition: Progress(cursor.position, self.clock) for cursor in self.logs.cursors
        }

    @property
    def accounts(self) -> Sequence[Account]:
        """Outcomes of the records of each stream."""
        return self.joiner.accounts

    @property
    def backpressured(self) -> list[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return self.logs.backpressured

    @property
    def blocked(self) -> bool:
        """Whether a record waits for other logs, or a list for the end of its window."""
        return self.logs.waiting or any(account.open for account in self.accounts)

    def done(self) -> list[Account]:
        """Outcomes of the records of each stream since this object began, or was restored."""
        pairs = zip(self.accounts, self._before, strict=True)
        return [account.less(before) for account, before in pairs]

    def apply(self, batch: RecordBatch, content: DecodedStream) -> Applied:
        """Take a batch; `proceed` counts the lists that it completes."""
        shown = self.joiner.shown
        found = shown.impressions(content) if isinstance(content, Decoded) else content
        self.logs.push(batch, found)
        self.unfinished = True
        tally = Tally(consumed=len(batch.values), tombstones=len(content.tombstones))
        tally.valid = len(content.places)
        tally.add_invalid([event for _, event in content.invalid])
        return Applied(content.invalid, tally)

    def end(self, partitions: Collection[Partition]) -> None:
        """No more records come in these logs; the others wait for them no longer."""
        if self.logs.end(partitions):
            self._advances += 1
            self.unfinished = True

    def settle(self) -> None:
        """Count records that still wait for others to confirm their time, as if none came."""
        for cursor in self.logs.cursors:
            cursor.settle()
        self.unfinished = True
        self.finish()

    def proceed(self) -> None:
        """Join the records that are next, and count the events that they complete: a part of them.

        Records wait in their logs until all that is complete by those before them is counted. So
        where a part ends is nowhere in the state; nobody is shown it before it is finished.

        Raises:
            TooManyOpenError: more waits than the limits allow.
            UncountableRecordError: counting failed by a mistake.
        """
        if self.joiner.watermark >= self._goal[0]:
            for stream, found in self.logs.take(AT_ONCE).items():
                for part in found:
                    self._note(part)
                self.joiner.add(stream, found)
            self._goal = self.logs.watermark(self.joiner.rules)
        try:
            self.joiner.advance(*self._goal, self._sink or self.count)
        except (StreamevalError, MemoryError):
            raise
        except Exception as error:
            record = self._at_fault()
            if record is None:
                raise
            (topic, number), offset = record
            raise UncountableRecordError(
                topic, number, (offset, offset), described(error), SKIPPABLE, waiting=True
            ) from error
        self.unfinished = self.logs.has_more or self.joiner.watermark < self._goal[0]
        self._join_version = next_version()

    def propose(self, partitions: Collection[Partition]) -> None:
        """Pass by these idle logs, once that is saved: `accept` does it."""
        wanted = {
            cursor.number: cursor.expected
            for cursor in self.logs.cursors
            if cursor.partition in partitions
        }
        if wanted.keys() - self._proposed.keys():
            self._proposed |= wanted
            self._advances += 1
            self._join_version = next_version()
            self.proposed_at = self.position

    def accept(self) -> None:
        """What was proposed is saved: nobody waits for those logs, if nothing has come since."""
        still = [
            cursor
            for cursor in self.logs.cursors
            if self._proposed.get(cursor.number) == cursor.expected
        ]
        self._proposed, self.proposed_at = {}, None
        self._join_version = next_version()
        for cursor in still:
            cursor.idle = True
            cursor.settle()
        if still:
            self.passed_by += len(still)
            self._advances += 1
            self.unfinished = True

    def remove(self, record: Identity) -> bool:
        """Forget a list that waits, as if its record had never been there; whether one did."""
        self.finish()
        logs = {cursor.partition: cursor.number for cursor in self.logs.cursors}
        log = logs.get(record.partition)
        if log is None or not self.joiner.remove(log, record.offset):
            return False
        self.add(Tally(consumed=-1, valid=-1))
        self._before = [msgspec.structs.replace(account) for account in self.accounts]
        self._join_version = next_version()
        return True

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at these offsets, where the log has lost what lies before them."""
        self.logs.skip(offsets)

    def sections(self) -> list[Section]:
        """Its content, sorted by name; equal content gives equal bytes.

        Everything that is complete is counted first.
        """
        self.finish()
        own = Section(PREFIX, self._join_version, self._join_meta)
        found = [own, *super().sections(), *self.joiner.sections()]
        return sorted(found, key=lambda section: section.name)

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        own = {name: held for name, held in parts.items() if name.startswith(PREFIX)}
        super().restore({name: parts[name] for name in parts.keys() - own.keys()})
        try:
            state: dict[str, Any] = msgspec.msgpack.decode(own[PREFIX])
            self.logs.restore(state["logs"])
            self._advances = int(state["advances"])
            self.joiner.restore(state["joiner"], own)
        except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise DamagedStateError(PREFIX, f"{type(error).__name__}: {error}") from error
        self._before = [msgspec.structs.replace(account) for account in self.accounts]

    def _at_fault(self) -> Identity | None:
        """The record of the list that cannot be counted; None where each list alone can."""
        first = self.logs.cursors[0].partition

        def count_alone(events: Decoded) -> None:
            for spec in self._layout.families:
                spec.pending.clear()
            PartitionState(self._layout, first, 0).count(events)

        found = self.joiner.uncountable(count_alone)
        return None if found is None else Identity(self.logs.cursors[found[0]].partition, found[1])

    def _note(self, part: RecordSlice) -> None:
        """Add to the tally of the records."""
        tally = Tally(consumed=part.records, tombstones=part.tombstones)
        tally.future = 0 if part.future is None else len(part.future.places)
        tally.valid = len(part.content.places) + tally.future
        tally.add_invalid([event for _, event in part.invalid])
        self.add(tally)

    def _join_meta(self) -> Callable[[], Iterator[bytes]]:
        state = {
            "advances": self._advances,
            "joiner": self.joiner.state_dict(),
            "logs": self.logs.state(),
            "proposed": sorted(self._proposed.items()),
        }
        return lambda: iter([msgspec.msgpack.encode(state)])
