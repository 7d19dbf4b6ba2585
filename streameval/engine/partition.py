"""The state of one partition, together with its position."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.event_checks import EventChecks
from streameval.accumulator.formulas import is_own
from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import REASONS, InvalidEvent
from streameval.engine.analysis import Configured
from streameval.engine.backfill import Backfill, Extent
from streameval.engine.clock import (
    BEFORE_ALL,
    Clock,
    ClockRule,
    Clocks,
    Int64,
    Ticks,
    UnconfirmedPanes,
)
from streameval.engine.dead_letters import Identity, count_valid
from streameval.engine.dedup import SEEN_PREFIX, SeenIds
from streameval.engine.rankers import CountedLists, lists_by_ranker
from streameval.engine.windows.family import (
    Counting,
    Family,
    FamilySpec,
    LoggedEvents,
    unfit,
    widest_search,
)
from streameval.engine.windows.sections import Section
from streameval.engine.windows.times import (
    DAY,
    PAST,
    Windowing,
    assign_panes,
    moment_text,
    retained_from,
)
from streameval.events.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.events.saved_states import damage_as_error
from streameval.statistics.arrays import BoolArray
from streameval.statistics.intervals import Intervals
from streameval.statistics.matching import matched
from streameval.statistics.relation import next_version

ALL: Final = "*"
"""Key of `since` for a family that is new."""

PANES: Final = "panes"
"""Key of `since` for panes that are retained longer than before."""

_SPARE_PANES: Final = 64
"""Room for panes and hours that are retained in part, and for the past."""

_MOST_AHEAD: Final = 30 * DAY
"""An event further ahead of the clock counts on the day of the clock in comparisons."""

META = "meta"
"""Name of the section with everything besides families and remembered ids."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics and settings of every partition's state.

    Attributes:
        dedup: time for which event ids are remembered, microseconds; None without deduplication.
        clock: the rule by which the clock of a log follows its events.
        rankers: names of the rankers that were not shown, whose lists count, too.
    """

    families: Sequence[FamilySpec]
    windowing: Windowing = Windowing()
    dedup: int | None = None
    clock: ClockRule = ClockRule()
    intervals: Intervals | None = None
    analyses: Sequence[Configured] = ()
    rankers: tuple[str, ...] = ()


FEWEST_JUDGED = 10
"""Number of records below which there is no warning."""

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
        if self.unusable < FEWEST_JUDGED or self.unusable <= self.engaged:
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
        # One by one: a loop over the names would take six times as long, for each log of a poll.
        self.consumed += other.consumed
        self.valid += other.valid
        self.late += other.late
        self.future += other.future
        self.tombstones += other.tombstones
        self.duplicates += other.duplicates
        self.engaged += other.engaged
        self.unusable += other.unusable
        if any(other.invalid.values()):
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
    """The progress of a log.

    Attributes:
        position: the next offset.
        clock: event time of the log, microseconds; None if unknown.
    """

    position: int
    clock: int | None


class LogRows:
    """Events of several logs, those of a log together and in its order, while they are counted.

    Attributes:
        edges: log i has the events edges[i], ..., edges[i + 1] - 1.
        counts: True for events that count; None if all do. The others are duplicates.
        starts, days, seen: `starts`, `times` and `seen` of `LoggedEvents`; None if no pane is
            needed.
        late: number of late events of each log; `future`: the same.
        refuted: for each log, starts of panes whose earlier events are from the future.
    """

    def __init__(
        self, edges: Sequence[int], decoded: Decoded, windowing: Windowing, *, paned: bool
    ) -> None:
        self.edges, self.decoded, self.windowing = edges, decoded, windowing
        logs = len(edges) - 1
        self.counts: BoolArray | None = None
        self.late, self.future = [0] * logs, [0] * logs
        self.refuted: list[Sequence[int]] = [()] * logs
        self.times = self.days = self.seen = times = decoded.times
        self.starts: Clocks | None = None
        if times is not None and paned:
            self.starts = times // windowing.pane * windowing.pane

    def sums(self, mask: BoolArray) -> list[int]:
        """The number of events of each log in a mask."""
        counted: list[int] = np.diff(np.concatenate(([0], np.cumsum(mask)))[self.edges]).tolist()
        return counted

    @cached_property
    def extents(self) -> list[tuple[int, int]]:
        """The smallest and largest event time of each log; 0 without any."""
        extents = [(0, 0)] * len(self.late)
        filled = [at for at in range(len(extents)) if self.edges[at] < self.edges[at + 1]]
        if filled and self.times is not None:
            firsts = [self.edges[at] for at in filled]
            bounds = (
                ends.reduceat(self.times, firsts).tolist() for ends in (np.minimum, np.maximum)
            )
            for at, *extent in zip(filled, *bounds, strict=True):
                extents[at] = extent[0], extent[1]
        return extents


class PartitionState:
    """The state of one partition at a position; depends on the records of its log alone.

    `counter`: counts its events, together with those of other partitions. `offsets`: the next one
    of its log; of several logs if a state of joined ones is only read.

    Attributes:
        tally: outcomes of its records.
        time: its clock.
        backfills: event time of each backfill merged into it.
        unfinished: whether work is left for `proceed`; only joins leave some.
        since: "family:statistic" -> clock when it was added to an existing state.
        cautious: True to count events into empty tables first. After a bug that only the tables
            meet has ended a process, the next one does so, and leaves out the records that fail.
    """

    def __init__(self, counter: EventCounter, offsets: Mapping[Partition, int]) -> None:
        layout = counter.layout
        self._counter = counter
        self._layout = layout
        self._version = next_version()
        rule, span = layout.clock, layout.dedup
        self._seen_ids = None if span is None else SeenIds(span, rule.patience, rule.user_key)
        self._unconfirmed = UnconfirmedPanes()
        self._offsets = dict(offsets)
        self.time = Clock(layout.clock)
        self.tally = Tally()
        self._families = {
            spec.name: Family(spec, layout.windowing, counter.counting) for spec in layout.families
        }
        self.since: dict[str, int] = {}
        self.backfills: list[Extent] = []
        self.unfinished = False
        self.cautious = False

    @property
    def position(self) -> int:
        """The next offset; for joined logs, a number that grows with every record."""
        return sum(self._offsets.values())

    @property
    def families(self) -> Mapping[str, Family]:
        """The families by name; finishes counting first."""
        self.finish()
        return self._families

    def check_follows(self, batch: RecordBatch) -> None:
        """Check that a batch does not begin before the position.

        Raises:
            SourceError: it does, so records would count twice.
        """
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < self.position:
            problem = f"record {first} was delivered again after record {self.position - 1}"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")

    def judge(self, events: LogRows, at: int, *, dedup: bool) -> None:
        """Advance the clock by the events of log `at`, and judge them in the order of the log.

        `dedup`: whether repeated ids are looked for.
        """
        begin, end = events.edges[at : at + 2]
        starts, decoded, windowing = events.starts, events.decoded, events.windowing
        if events.times is None or begin == end:
            return
        rows, ids, voters = slice(begin, end), decoded.event_ids, decoded.voters
        times, unseen = events.times[rows], None
        voters = None if voters is None else voters[rows]
        earliest, latest = events.extents[at]
        late = starts is not None and windowing.spans != ()
        # The clock never goes back, so its last time decides in most batches.
        late = late and earliest < retained_from(max(latest, self.time.now), windowing)
        is_regular = not late and not (dedup and self._seen_ids) and not self._unconfirmed.any_waits
        if is_regular and self.time.follow(times, voters, latest):
            return
        ticks = self.time.advance(times, voters)
        if dedup and self._seen_ids is not None and ids is not None:
            unseen = self._seen_ids.mark_seen(ids[rows], times, ticks.clocks)
            if not unseen.all():
                if events.counts is None:
                    events.counts = np.ones(len(events.times), np.bool_)
                events.counts[rows] = unseen
        if starts is None:
            return
        if late:
            starts[rows], are_late = assign_panes(times, ticks.clocks, windowing)
            counted = are_late if unseen is None else are_late & unseen
            events.late[at] = int(np.count_nonzero(counted))
        if not ticks.regular or self._unconfirmed.any_waits:
            judged = self._unconfirmed.judge(starts[rows], ticks, unseen)
            starts[rows][judged.rows] = PAST
            events.refuted[at], events.future[at] = judged.panes, judged.events
        if not ticks.regular:
            if events.days is events.times:
                events.days, events.seen = events.times.copy(), events.times.copy()
            if events.days is not None and events.seen is not None:
                events.days[rows], events.seen[rows] = limited_times(times, ticks)

    def family_at_clock(self, name: str, refuted: Sequence[int]) -> Family:
        """A family whose panes are those of the current clock.

        `refuted`: starts of panes whose events are from the future.
        """
        family = self._families[name]
        if self.time.is_final:
            family.advance(self.time.now)
        family.add_to_past(refuted)
        return family

    def note_applied(self, batch: RecordBatch, tally: Tally) -> None:
        """Set the position after a batch with these outcomes."""
        self.add(tally)
        self._offsets[batch.partition] = batch.next_offset

    def add(self, tally: Tally) -> None:
        """Add outcomes of records."""
        self.tally.add(tally)
        self._version = next_version()

    def merge(self, backfill: Backfill) -> None:
        """Add the counts of a backfill at the same position. After an error the state is unusable.

        Raises:
            UsageError: its event time does not fit.
            UnlikeStateError: it has other metrics, inputs or ids.
            DamagedStateError: a row is damaged.
        """
        every = backfill.every
        starts = [row.start for row in backfill.rows if row.start is not None and every is not None]
        if self.time.is_final and starts and max(starts) > self.time.now:
            raise unfit(
                f"it covers {backfill.extent}, and the newest event of the state is from "
                f"{moment_text(self.time.now)}",
                "leave out the time that the log covers",
            )
        for family in self._families.values():
            for row in backfill.rows:
                span = None
                if row.start is not None and every is not None:
                    span = row.start, every.end(row.start) - row.start
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
        """Continue at the offset of each log, which has lost the records before it."""
        self._offsets = dict(offsets)

    def progress(self) -> Mapping[Partition, Progress]:
        """The progress of each of its logs."""
        return {log: Progress(offset, self.clock) for log, offset in self._offsets.items()}

    def has_counted(self, offsets: Mapping[Partition, int]) -> bool:
        """Return whether all events of the records below these offsets are counted."""
        return all(self._offsets.get(log, offset) >= offset for log, offset in offsets.items())

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
            parts: the output of `sections`, or the part of it that a state for reading needs.
            earlier: an earlier state of the partition, which does not change.
            unchanged: names of more parts, which `earlier` has loaded; see `Counting.frozen`.
            empty_unlike: whether statistics of other inputs start empty, instead of raising.

        Raises:
            DamagedStateError: the parts are not the output of `sections`.
            UnlikeStateError: they have other inputs or options.
        """
        with damage_as_error(META):
            state = msgspec.msgpack.decode(parts[META], type=dict[str, Any])
            self.time.restore(state["clock"])
            self._unconfirmed.restore(state["ahead"])
            self.since = msgspec.convert(state["since"], dict[str, Int64])
            self.backfills = backfills_in(parts[META])
            self.tally = Tally.from_state_dict(state["tally"])
            # The retention of the panes of each family, microseconds.
            saved_retention = msgspec.convert(state["kept"], dict[str, Int64])
        # Besides panes before the clock, each record that waits ahead may have a pane of its own.
        size = self._layout.windowing.pane
        most_panes = math.inf
        if self.time.is_final:
            most_panes = self._layout.clock.patience + _SPARE_PANES
        now = 0 if self.clock is None else self.clock
        for name, family in [*self._families.items()]:
            sections = {
                part: content for part, content in parts.items() if part.startswith(f"{name}/")
            }
            new = frozenset((ALL,))
            if sections:
                source = family if earlier is None else earlier.families[name]
                loaded, new = source.restore(
                    sections,
                    unchanged=[part for part in unchanged if part.startswith(f"{name}/")],
                    most_panes=most_panes
                    + max(family.retention, saved_retention.get(name, 0)) // size,
                    empty_unlike=empty_unlike,
                )
                self._families[name] = loaded
            if self.time.is_final:
                self._families[name].advance(self.time.now)
            self.since |= {f"{name}:{name_added}": now for name_added in new}
            if sections and family.retention > saved_retention.get(name, 0):
                self.since[f"{name}:{PANES}"] = now - saved_retention.get(name, 0)
        if self._seen_ids is not None:
            sections = {
                part: content for part, content in parts.items() if part.startswith(SEEN_PREFIX)
            }
            self._seen_ids.restore(sections, self.time.now)

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state: dict[str, Any] = {
            "ahead": self._unconfirmed.state(),
            "clock": self.time.state(),
            "kept": {name: self._families[name].retention for name in sorted(self._families)},
            "since": dict(sorted(self.since.items())),
            "tally": self.tally.state_dict(),
        }
        if self.backfills:
            state["backfills"] = self.backfills
        return lambda: iter([msgspec.msgpack.encode(state)])


class EventCounter:
    """Counts the events of all partitions of a process.

    Each log judges its own events; then the lists of all logs are counted together.

    `sink`: called with the events that count; None counts them in the families of the layout.
    `frozen`: see `Counting`.

    Attributes:
        counting: state that families of one name share.
        event_checks: about the events counted since the process started.
    """

    def __init__(self, layout: Layout, sink: Sink | None = None, *, frozen: bool = False) -> None:
        self.layout, self.counting = layout, Counting(frozen=frozen)
        self.sink = sink
        self._search = widest_search(layout.families)
        self.event_checks = EventChecks()
        for spec in layout.families[:1]:
            self.event_checks = EventChecks(
                spec.table.context.attributes, spec.table.context.popularity
            )
        self._observed = 0
        # Such metrics run when lists are flushed, which is too late to leave one out.
        self._has_own_list_metrics = any(
            is_own(metric) and metric.definition.reads in ("hits", "lists")
            for spec in layout.families
            for metric in spec.metrics
        )

    def apply(
        self,
        states: Sequence[PartitionState],
        batches: Sequence[RecordBatch],
        decoded: Decoded,
        lists: CountedLists,
    ) -> list[Applied]:
        """Count batches of different partitions, and set each position after its batch.

        `decoded`: the records of all batches, one batch after the other; with `lists`, the result
        of `countable`.

        Raises:
            SourceError: a batch begins before its position, so records would count twice.
        """
        for state, batch in zip(states, batches, strict=True):
            state.check_follows(batch)
        edges = records = [0, *accumulate(len(batch.values) for batch in batches)]
        if len(decoded.indices) < records[-1]:
            edges = np.searchsorted(np.asarray(decoded.indices, np.int64), records).tolist()
        events = LogRows(edges, decoded, self.layout.windowing, paned=self.sink is None)
        self._count(states, events, lists, dedup=True)
        applied = _outcomes(records, events)
        for state, batch, (_, tally) in zip(states, batches, applied, strict=True):
            state.note_applied(batch, tally)
        return applied

    def count(self, state: PartitionState, decoded: Decoded, lists: CountedLists) -> None:
        """Count events of a partition in the order of their time; `lists`: those of `countable`."""
        if self.sink is not None:
            self.sink(lists.lists)
            return
        events = LogRows([0, len(decoded.indices)], decoded, self.layout.windowing, paned=True)
        self._count([state], events, lists, dedup=False)
        state.add(Tally(late=events.late[0], future=events.future[0]))

    def countable(
        self, states: Sequence[PartitionState], decoded: Decoded
    ) -> tuple[Decoded, CountedLists]:
        """The events that can be counted, the others being invalid, and the lists of each.

        Changes nothing, so that a record that cannot be counted leaves no trace.
        """
        is_tried = self._has_own_list_metrics or any(state.cautious for state in states)
        return count_valid(decoded, self._try_lists if is_tried else self._lists)

    def _lists(self, decoded: Decoded) -> CountedLists:
        """The lists of events, with the values of metrics of events for each family."""
        rankers = self.layout.rankers
        lists = lists_by_ranker(decoded, rankers)
        values = [
            spec.table.event_values(lists.batch) if spec.table.plan.formulas else None
            for spec in self.layout.families
        ]
        return CountedLists(lists, 1 + len(rankers), values)

    def _try_lists(self, decoded: Decoded) -> CountedLists:
        """`_lists`, after counting them into empty tables."""
        tried = self._lists(decoded)
        for spec, of_family in zip(self.layout.families, tried.values, strict=True):
            table = spec.table.empty()
            table.count(tried.lists.batch, 0, tried.lists.times, of_family)
            table.flush()
        return tried

    def _count(
        self,
        states: Sequence[PartitionState],
        events: LogRows,
        lists: CountedLists,
        *,
        dedup: bool,
    ) -> None:
        self.event_checks.observe_batch(events.decoded.batch, self._observed)
        self._observed += len(events.decoded.batch)
        for at, state in enumerate(states):
            state.judge(events, at, dedup=dedup)
        counts = events.counts
        counted = lists.keep(counts)
        if self.sink is not None:
            self.sink(counted.lists)
            return
        # Once for all families, which read the same hits.
        batch = matched(counted.lists.batch, self._search)
        columns = (
            None if column is None else counted.spread(column, counts)
            for column in (events.starts, events.days, events.seen)
        )
        logged = LoggedEvents(batch, counted.lists.dimensions, *columns)
        ends = events.edges[1:] if counts is None else list(accumulate(events.sums(counts)))
        edges = [0, *(end * counted.per_event for end in ends)]
        for name, of_family in zip(
            (spec.name for spec in self.layout.families), counted.values, strict=True
        ):
            # Advance the panes first, so that old events go to the right ones.
            families = [
                state.family_at_clock(name, refuted)
                for state, refuted in zip(states, events.refuted, strict=True)
            ]
            self.counting.pending(name).count(families, edges, logged, of_family)


def _outcomes(records: Sequence[int], events: LogRows) -> list[Applied]:
    """The outcome of each batch; `records`: index of the first of each, and their number."""
    decoded, counts, every = events.decoded, events.counts, np.diff(events.edges).tolist()
    engaged = decoded.engaged if counts is None else decoded.engaged & counts
    valid = every if counts is None else events.sums(counts)
    invalid: list[list[tuple[int, InvalidEvent]]] = [[] for _ in every]
    for row, event in decoded.invalid:
        at = bisect_right(records, row) - 1
        invalid[at].append((row - records[at], event))
    tombstones = Counter(bisect_right(records, row) - 1 for row in decoded.tombstones)
    applied = []
    for at, (refused, acting) in enumerate(zip(invalid, events.sums(engaged), strict=True)):
        tally = Tally(
            consumed=records[at + 1] - records[at],
            valid=valid[at],
            late=events.late[at],
            future=events.future[at],
            tombstones=tombstones[at],
            duplicates=every[at] - valid[at],
            engaged=acting,
        )
        tally.add_invalid([event for _, event in refused])
        applied.append(Applied(refused, tally))
    return applied


def limited_times(times: Clocks, ticks: Ticks) -> tuple[Clocks, Clocks]:
    """Event times for the days of comparisons, and for the last events of label values."""
    if ticks.regular:
        return times, times
    # A wrong time far ahead must not keep an idle label value alive, and many of them must not
    # displace the days that are compared.
    clocks = ticks.clocks
    seen = np.where(clocks == BEFORE_ALL, times, np.minimum(times, clocks))
    return np.where(times > seen + _MOST_AHEAD, seen, times), seen


def tally_in(meta: bytes) -> Tally:
    """The counts of records of a state, from its `META` section.

    Raises:
        DamagedStateError: it is not that section.
    """
    with damage_as_error(META):
        return Tally.from_state_dict(msgspec.msgpack.decode(meta, type=dict[str, Any])["tally"])


def backfills_in(meta: bytes) -> list[Extent]:
    """The event time of each backfill of a state, from its `META` section.

    Raises:
        DamagedStateError: it is not that section.
    """
    with damage_as_error(META):
        state = msgspec.msgpack.decode(meta, type=dict[str, Any])
        return msgspec.convert(state.get("backfills", []), list[Extent])
