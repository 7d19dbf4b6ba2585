"""The state of one partition, together with its position."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.accumulator.doubts import Doubts
from streameval.accumulator.formulas import is_own
from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import REASONS, InvalidEvent
from streameval.engine.analysis import Configured
from streameval.engine.backfill import Backfill, Extent
from streameval.engine.clock import (
    NEVER,
    Clock,
    ClockRule,
    Clocks,
    Int64,
    Ticks,
    UnconfirmedPanes,
)
from streameval.engine.dead_letters import Identity, count_each
from streameval.engine.dedup import PREFIX, SeenIds
from streameval.engine.rankers import CountedLists, lists_by_ranker
from streameval.engine.windows.family import Counting, Family, FamilySpec, widest_search
from streameval.engine.windows.sections import Section
from streameval.engine.windows.times import DAY, PAST, Windowing, assign_panes, moment_text
from streameval.events.errors import BackfillError, SourceError, damage_as_error
from streameval.events.records import Partition, RecordBatch
from streameval.statistics.intervals import Intervals
from streameval.statistics.matching import matched
from streameval.statistics.relation import next_version

ALL: Final = "*"
"""Key of `since` for a whole family that is new."""

PANES: Final = "panes"
"""Key of `since` for panes that are kept longer than before."""

_SPARE_PANES: Final = 64
"""Hours and panes that are partly kept, and the past."""

_MOST_AHEAD: Final = 30 * DAY
"""An event further ahead of the clock is compared on the clock's day, not on its own."""

META = "meta"
"""Name of the section with everything besides families and remembered ids."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics and settings of every partition's state.

    Attributes:
        dedup: how long event ids are remembered, microseconds; None without deduplication.
        clock: when the clock of a log follows its events.
        rankers: names of the rankers that were not shown, whose lists count, too.
    """

    families: Sequence[FamilySpec]
    windowing: Windowing = Windowing()
    dedup: int | None = None
    clock: ClockRule = ClockRule()
    intervals: Intervals | None = None
    analyses: Sequence[Configured] = ()
    rankers: tuple[str, ...] = ()


_FEWEST = 10
"""Number of records below which there is no advice."""

_KEYS: Final[Mapping[str, str]] = {
    "missing_field": "time, recommendations, rankers, interactions and interaction_item",
    "invalid_time": "time and time_unit",
    "invalid_label": "labels",
    "invalid_score": "score and scores",
    "invalid_positions": "positions",
    "invalid_per_item": "per_item",
}
"""Reason of invalid records -> the keys of [event] to check."""


class Tally(msgspec.Struct, gc=False):
    """Counts of records; `consumed == valid + invalid + tombstones + duplicates`, always.

    Attributes:
        late: valid records in no window, because they are late.
        future: valid records in no window, because their time is ahead of the log.
        engaged: valid records with interactions.
        unusable: invalid records with interactions.
        invalid: invalid records by reason; every known reason is present.
    """

    consumed: Int64 = 0
    valid: Int64 = 0
    late: Int64 = 0
    future: Int64 = 0
    tombstones: Int64 = 0
    duplicates: Int64 = 0
    engaged: Int64 = 0
    unusable: Int64 = 0
    invalid: dict[str, Int64] = msgspec.field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def add_invalid(self, invalid: list[InvalidEvent]) -> None:
        """Count invalid records."""
        for event in invalid:
            self.invalid[event.reason] = self.invalid.get(event.reason, 0) + 1
            self.unusable += event.engaged

    def warning(self) -> str | None:
        """A warning if most records with interactions are invalid, or None."""
        if self.unusable < _FEWEST or self.unusable <= self.engaged:
            return None
        reason = max(self.invalid, key=lambda reason_name: self.invalid[reason_name])
        keys = _KEYS.get(reason, "interactions, interaction_item and gain")
        return (
            f"{self.unusable:,} of {self.unusable + self.engaged:,} records with interactions are "
            f"invalid, most often {reason}, so the values miss most interactions: do {keys} in "
            "[event] name the right fields?"
        )

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in self.__struct_fields__[:-1]:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if sum(other.invalid.values()):
            for reason, count in other.invalid.items():
                self.invalid[reason] = self.invalid.get(reason, 0) + count

    def state_dict(self) -> dict[str, Any]:
        """The counts as plain values, without reasons that never occurred."""
        state: dict[str, Any] = msgspec.to_builtins(self)
        return state | {"invalid": {name: n for name, n in sorted(self.invalid.items()) if n}}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Tally:
        """The tally of a `state_dict`; raises msgspec.ValidationError for other values."""
        counts = dict.fromkeys(REASONS, 0)
        return msgspec.convert({**state, "invalid": {**counts, **state["invalid"]}}, cls)


Sink: TypeAlias = Callable[[Decoded], object]
"""Takes the lists of events instead of the families of a state."""


class Applied(NamedTuple):
    """The outcome of a batch."""

    invalid: Sequence[tuple[int, InvalidEvent]]
    tally: Tally


class Progress(NamedTuple):
    """How far a log was counted.

    Attributes:
        position: the next offset.
        clock: event time of the log, microseconds; None if unknown.
    """

    position: int
    clock: int | None


class PartitionState:
    """The state of one partition at a position; depends on the records of its log alone.

    `sink`: called with the events that count; None counts them in the families of the layout.
    `counting`: what it shares with other partitions; nothing by default.

    Attributes:
        tally: outcomes of its records.
        doubts: about the events counted since the process started.
        time: its clock.
        backfills: event time of each backfill merged into it.
        unfinished: whether work is left for `proceed`; only joins leave some.
        since: "family:statistic" -> clock when it was added to an existing state.
        cautious: whether events are tried on empty tables first. A bug that only the tables meet
            ends the process; the next one tries the records after its checkpoint, and leaves out
            those that fail.
    """

    def __init__(
        self,
        layout: Layout,
        partition: Partition,
        position: int,
        sink: Sink | None = None,
        *,
        counting: Counting | None = None,
    ) -> None:
        self._sink = sink
        self._partition = partition
        self._layout = layout
        self._version = next_version()
        patience, span = layout.clock.patience, layout.dedup
        self._seen_ids = None if span is None else SeenIds(span, patience)
        self._unconfirmed = UnconfirmedPanes()
        self._position = position
        self.time = Clock(layout.clock)
        self.tally = Tally()
        contexts = (spec.table.context for spec in layout.families)
        self.doubts = Doubts(next((context.attributes for context in contexts), ()))
        self._shared = shared = counting or Counting()
        self._families = {
            spec.name: Family(spec, layout.windowing, shared) for spec in layout.families
        }
        self._search = widest_search(layout.families)
        # They are called when lists are flushed, which is too late to leave one out.
        self._flushes_own = any(
            is_own(metric) and metric.definition.reads in ("hits", "lists")
            for spec in layout.families
            for metric in spec.metrics
        )
        self.since: dict[str, int] = {}
        self.backfills: list[Extent] = []
        self.unfinished = False
        self.cautious = False

    @property
    def position(self) -> int:
        """The next offset; for joined logs, a number that grows with every record."""
        return self._position

    @property
    def families(self) -> Mapping[str, Family]:
        """The families by name; finishes counting first."""
        self.finish()
        return self._families

    def apply(self, batch: RecordBatch, decoded: Decoded) -> Applied:
        """Count a decoded batch and move the position behind it.

        Raises:
            SourceError: the batch begins before the position, so records would count twice.
        """
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < self._position:
            problem = f"record {first} was delivered again after record {self._position - 1}"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        decoded, lists = self.countable(decoded)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        ticks = self._advance(decoded)
        counts = self._unseen(decoded, ticks)
        self._count(decoded, lists, counts, ticks, tally)
        counted = decoded if counts is None else decoded.keep(counts)
        tally.valid, tally.engaged = len(counted.places), counted.engaged
        tally.duplicates = len(decoded.places) - tally.valid
        tally.add_invalid([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self._position = batch.next_offset
        self._version = next_version()
        return Applied(decoded.invalid, tally)

    def add(self, tally: Tally) -> None:
        """Add outcomes of records."""
        self.tally.add(tally)
        self._version = next_version()

    def count(self, decoded: Decoded, lists: CountedLists) -> None:
        """Count events in the order of their time; `lists`: those of `countable`."""
        self._count(decoded, lists, None, self._advance(decoded), self.tally)
        self._version = next_version()

    def countable(self, decoded: Decoded) -> tuple[Decoded, CountedLists]:
        """The events that can be counted, the others being invalid, and the lists of each.

        Changes nothing, so that a record that cannot be counted leaves no trace.
        """
        return count_each(
            decoded, self._tried if self.cautious or self._flushes_own else self._lists
        )

    def merge(self, backfill: Backfill) -> None:
        """Add the counts of a backfill; the position stays. After an error the state is unusable.

        Raises:
            BackfillError: its event time does not fit.
            UnlikeStateError: it has other metrics, inputs or ids.
            DamagedStateError: a row is damaged.
        """
        end = backfill.extent.end
        if self.time.is_final and end is not None and end - (backfill.every or 0) > self.time.now:
            raise BackfillError(
                f"it covers {backfill.extent}, and the newest event of the state is from "
                f"{moment_text(self.time.now)}",
                "leave out the time that the log covers",
            )
        for family in self._families.values():
            for row in backfill.rows:
                span = None
                if row.start is not None and backfill.every is not None:
                    span = row.start, backfill.every
                family.merge(row.labels, row.content, row.lists, span)
        self.backfills.append(backfill.extent)
        self._version = next_version()

    @property
    def clock(self) -> int | None:
        """Event time of its log, microseconds since the epoch; None if unknown."""
        return self.time.latest

    @property
    def backpressured(self) -> Sequence[Partition]:
        """Logs so far ahead of the others that reading them must pause."""
        return ()

    def end(self, partitions: Collection[Partition]) -> None:
        """Mark logs as ended: no more records come."""

    def proceed(self) -> None:
        """Do some milliseconds of the unfinished work."""

    def finish(self) -> None:
        """Do all unfinished work."""
        while self.unfinished:
            self.proceed()

    def sections(self) -> list[Section]:
        """The content as sections, sorted by name; equal content gives equal bytes."""
        sections = [Section(META, self._version, self._meta)]
        for family in self._families.values():
            sections.extend(family.sections())
        if self._seen_ids is not None:
            sections.extend(self._seen_ids.sections())
        return sorted(sections, key=lambda section: section.name)

    def take_refused(self) -> Sequence[tuple[Identity, InvalidEvent]]:
        """Records that were valid when they were read, and could not be counted since."""
        return ()

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Continue at the offset of its log, which has lost the records before it."""
        (self._position,) = offsets.values()

    def progress(self) -> Mapping[Partition, Progress]:
        """How far its log was counted."""
        return {self._partition: Progress(self._position, self.clock)}

    def restore(
        self,
        parts: Mapping[str, bytes],
        *,
        earlier: PartitionState | None = None,
        unchanged: Collection[str] = (),
        empty_unlike: bool = False,
    ) -> None:
        """Replace the content with the output of `sections`.

        Statistics of the layout that the parts lack are counted from now on; see `since`.

        Args:
            parts: the output of `sections`, or what a state for reading needs of it.
            earlier: an earlier state of the partition, which does not change.
            unchanged: names of more parts, which `earlier` has loaded; see `Counting.frozen`.
            empty_unlike: whether statistics of other inputs start empty, instead of raising.

        Raises:
            DamagedStateError: the parts are not the output of `sections`.
            UnlikeStateError: they have other inputs or options.
        """
        kept = self._restore_meta(parts)
        now = 0 if self.clock is None else self.clock
        for name, family in [*self._families.items()]:
            sections = {
                part: content for part, content in parts.items() if part.startswith(f"{name}/")
            }
            new = frozenset((ALL,))
            if sections:
                source = family if earlier is None else earlier.families[name]
                restored, new = source.restore(
                    sections,
                    unchanged=[part for part in unchanged if part.startswith(f"{name}/")],
                    most_panes=self._most_panes(max(family.kept, kept.get(name, 0))),
                    empty_unlike=empty_unlike,
                )
                self._families[name] = restored
            if self.time.is_final:
                self._families[name].advance(self.time.now)
            self.since |= {f"{name}:{name_added}": now for name_added in new}
            if sections and family.kept > kept.get(name, 0):
                self.since[f"{name}:{PANES}"] = now - kept.get(name, 0)
        if self._seen_ids is not None:
            sections = {part: content for part, content in parts.items() if part.startswith(PREFIX)}
            self._seen_ids.restore(sections, self.time.now)

    def _most_panes(self, kept: int) -> float:
        """How many panes a family that keeps them so long can have at this clock.

        Besides those before the clock, and the past, each record may wait ahead of it in its own.
        """
        if not self.time.is_final:
            return math.inf
        return kept // self._layout.windowing.pane + self._layout.clock.patience + _SPARE_PANES

    def _advance(self, decoded: Decoded) -> Ticks | None:
        """Advance the clock; None without event time."""
        if decoded.times is None:
            return None
        return self.time.advance(decoded.times, decoded.voters)

    def _unseen(self, decoded: Decoded, ticks: Ticks | None) -> NDArray[np.bool_] | None:
        """Mask of the events that are no duplicates; None if none is one."""
        ids, times = decoded.event_ids, decoded.times
        if self._seen_ids is None or ids is None or times is None or ticks is None:
            return None
        unseen = self._seen_ids.unseen(ids, times, ticks.clocks)
        return None if unseen.all() else unseen

    def _lists(self, decoded: Decoded) -> CountedLists:
        """The lists of events, with the values of metrics of events for each family."""
        rankers = self._layout.rankers
        lists = lists_by_ranker(decoded, rankers)
        values = [
            spec.table.event_values(lists.batch) if spec.table.plan.events else None
            for spec in self._layout.families
        ]
        return CountedLists(lists, 1 + len(rankers), values)

    def _tried(self, decoded: Decoded) -> CountedLists:
        """`_lists`, after counting them into empty tables."""
        tried = self._lists(decoded)
        for spec, of_family in zip(self._layout.families, tried.values, strict=True):
            table = spec.table.empty()
            table.count(tried.lists.batch, 0, tried.lists.times, of_family)
            table.flush()
        return tried

    def _count(
        self,
        decoded: Decoded,
        lists: CountedLists,
        counts: NDArray[np.bool_] | None,
        ticks: Ticks | None,
        tally: Tally,
    ) -> None:
        """Count the lists of the events of a mask, None being all.

        Adds late and future events to the tally.
        """
        self.doubts.observe_batch(decoded.batch, self._shared.observed)
        self._shared.observed += len(decoded.batch)
        kept = lists.keep(counts)
        if self._sink is not None:
            self._sink(kept.lists)
            return
        starts: NDArray[np.int64] | None = None
        refuted_panes: Sequence[int] = ()
        times = seen = decoded.times
        if times is not None and ticks is not None:
            panes = assign_panes(times, ticks.clocks, self._layout.windowing)
            starts = panes.starts
            refuted = self._unconfirmed.judge(starts, ticks, counts)
            starts[refuted.rows] = PAST
            refuted_panes = refuted.panes
            late = panes.late if counts is None else panes.late & counts
            tally.late += int(np.count_nonzero(late))
            tally.future += refuted.events
            times, seen = limited_times(times, ticks)
        starts, times, seen = (
            None if column is None else kept.spread(column, counts)
            for column in (starts, times, seen)
        )
        # Once for all families, which read the same hits.
        batch = matched(kept.lists.batch, self._search)
        for family, of_family in zip(self._families.values(), kept.values, strict=True):
            # Advance first, so that old events go to the panes where they belong now.
            if self.time.is_final:
                family.advance(self.time.now)
            family.add_to_past(refuted_panes)
            family.update(batch, kept.lists.dimensions, starts, times, seen, values=of_family)

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state: dict[str, Any] = {
            "ahead": self._unconfirmed.state(),
            "clock": self.time.state(),
            "kept": {name: self._families[name].kept for name in sorted(self._families)},
            "since": dict(sorted(self.since.items())),
            "tally": self.tally.state_dict(),
        }
        if self.backfills:
            state["backfills"] = self.backfills
        return lambda: iter([msgspec.msgpack.encode(state)])

    def _restore_meta(self, parts: Mapping[str, bytes]) -> dict[str, int]:
        """Restore the `META` section; returns how far back each family kept panes, microseconds."""
        with damage_as_error(META):
            state = msgspec.msgpack.decode(parts[META], type=dict[str, Any])
            self.time.restore(state["clock"])
            self._unconfirmed.restore(state["ahead"])
            self.since = msgspec.convert(state["since"], dict[str, Int64])
            self.backfills = backfills_in(parts[META])
            self.tally = Tally.from_state_dict(state["tally"])
            return msgspec.convert(state["kept"], dict[str, Int64])


def limited_times(times: Clocks, ticks: Ticks) -> tuple[Clocks, Clocks]:
    """Event times for days that are compared, and for label values: when they were last seen."""
    if ticks.regular:
        return times, times
    # A wrong time far ahead must not keep an idle label value alive,
    # nor may many of them take the places of the days that are compared.
    clocks = ticks.clocks
    seen = np.where(clocks == NEVER, times, np.minimum(times, clocks))
    return np.where(times > seen + _MOST_AHEAD, seen, times), seen


def backfills_in(meta: bytes) -> list[Extent]:
    """The event time of each backfill of a state, from its `META` section.

    Raises:
        DamagedStateError: it is not that section.
    """
    with damage_as_error(META):
        state = msgspec.msgpack.decode(meta, type=dict[str, Any])
        return msgspec.convert(state.get("backfills", []), list[Extent])
