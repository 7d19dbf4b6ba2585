"""A family of series in one partition: one table for each pane, with a cell for each slice."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from operator import methodcaller
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streameval.accumulator.formulas import EventValues
from streameval.accumulator.plan import Plan
from streameval.accumulator.readings import statistic_names
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.engine.windows.family_users import FamilyUsers, UsersCopy, add_users, users_alone
from streameval.engine.windows.labels import (
    ActivityState,
    LabelCapOptions,
    LabelCaps,
    LabelCapsState,
    Labels,
    SliceActivity,
    SliceAssigner,
    Slices,
    labels_at,
)
from streameval.engine.windows.sections import Section, decode_table, encode_table
from streameval.engine.windows.times import (
    DAY,
    FINE,
    HOUR,
    PAST,
    PAST_PANE,
    Pane,
    Windowing,
    borders,
    pane_of,
    section_name,
    span_text,
)
from streameval.events import Batch
from streameval.events.errors import UsageError
from streameval.events.saved_states import damage_as_error, damaged, unlike
from streameval.statistics.arrays import IntArray, place_values
from streameval.statistics.matching import Search, widest
from streameval.statistics.relation import next_version

_META: Final = "meta"
_USERS: Final = "users"
_SLICE_BITS: Final = 20
_MANY: Final = 8
"""Parts of the relations of a closed pane from which on they are joined at once."""


class LoggedEvents(NamedTuple):
    """Events of several partitions: those of a partition together, in the order of its log.

    Attributes:
        dimensions: label and segment values of each; None if none are configured.
        starts: start of each event's pane, PAST if it is late; None without event time.
        times: event times, microseconds; None without event time.
        seen: event times, limited to the clock.
    """

    batch: Batch
    dimensions: Sequence[Labels] | None
    starts: IntArray | None
    times: IntArray | None
    seen: IntArray | None


class PendingCounts:
    """Counts of a family in all partitions of a process that are not in their panes yet.

    One table holds them in cells by partition, pane and slice, so that one update counts the
    records of many partitions.
    """

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._clear()

    def _clear(self) -> None:
        self._table: Table | None = None
        self._numbers: dict[tuple[Family, int], int] = {}
        self._families: dict[Family, int] = {}
        self._activity = SliceActivity()
        self._width = 0

    def count(
        self,
        families: Sequence[Family],
        edges: Sequence[int],
        events: LoggedEvents,
        values: EventValues | None = None,
    ) -> None:
        """Count events.

        Args:
            families: the family in each partition.
            edges: partition i has the events edges[i], ..., edges[i + 1] - 1.
            events: of all of these partitions.
            values: see `Table.count`.
        """
        if not len(events.batch):
            return
        spec = families[0].spec
        if not spec.columns or events.dimensions is None:
            slices = np.full(edges[-1], self._slices.number(()))
        else:
            raws = labels_at(events.dimensions, spec.columns)
            pairs = zip(families, pairwise(edges), strict=True)
            parts = [family.assign(raws[start:stop]) for family, (start, stop) in pairs]
            slices = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self._table is None:
            self._table = spec.table.empty()
        lengths = np.diff(edges)
        family_of = np.repeat(np.arange(len(families)), lengths)
        panes = self._pane_numbers(families, family_of, events.starts)
        cells = slices + (panes << _SLICE_BITS)
        self._table.count(events.batch, cells, events.times, values)
        labels_seen = len(self._slices.labels)
        if labels_seen > self._width:
            for family, at in self._families.items():
                family.activity.add_part(self._activity, at * self._width, (at + 1) * self._width)
            self._activity, self._width = SliceActivity(), 2 * labels_seen
        numbers = [self._families.setdefault(family, len(self._families)) for family in families]
        self._activity.count(np.array(numbers)[family_of] * self._width + slices, events.seen)
        for family, length in zip(families, lengths.tolist(), strict=True):
            if length:
                family.version = next_version()

    def flush(self) -> None:
        """Move all counts to the panes that they belong to now."""
        numbers, table = self._numbers, self._table
        families, activity, width = self._families, self._activity, self._width
        self._clear()
        for family, at in families.items():
            family.activity.add_part(activity, at * width, (at + 1) * width)
        if table is None:
            return
        # Sum the minutes of a closed hour first; otherwise each would become a part of the hour.
        goals = {at: (family, family.target(start)) for (family, start), at in numbers.items()}
        first: dict[tuple[Family, Pane], int] = {}
        for at, goal in goals.items():
            first.setdefault(goal, at)
        table.regroup(_SLICE_BITS, {at: first[goal] for at, goal in goals.items()})
        targets = {at: family.table_at(pane) for (family, pane), at in first.items()}
        table.distribute(_SLICE_BITS, targets)
        users = {family: family.mutable_users() for family in families}
        users_at = {at: users[family] for (family, _), at in first.items()}
        named = {
            at: family_users for at, family_users in users_at.items() if family_users is not None
        }
        if named:
            add_users(table, _SLICE_BITS, named)
        for family in families:
            family.join_closed()

    def _pane_numbers(
        self, families: Sequence[Family], family_of: IntArray, starts: IntArray | None
    ) -> IntArray:
        """The number of each event's pane, until the next `flush`."""
        distinct, of_event = np.array([PAST]), np.zeros(family_of.size, np.int64)
        if starts is not None and families[0].spec.spans:
            distinct, of_event = place_values(starts)
        panes, of_event = place_values(family_of * distinct.size + of_event)
        of_families, of_panes = np.divmod(panes, distinct.size)
        keys = zip(
            [families[index] for index in of_families.tolist()],
            distinct[of_panes].tolist(),
            strict=True,
        )
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return np.array(numbers)[of_event]


class Counting:
    """State shared by all partitions: slice ids, and counts not yet assigned to a pane.

    Attributes:
        frozen: whether loaded tables never change, so that readers and the next state of their
            partition have the same objects. What must change is copied first.
    """

    def __init__(self, *, frozen: bool = False) -> None:
        self.frozen = frozen
        self._slices: defaultdict[str, Slices] = defaultdict(Slices)
        self._pending: dict[str, PendingCounts] = {}
        self._empty: dict[tuple[str, bool], Table] = {}

    def slices(self, family: str) -> Slices:
        """The numbers of the slices of a family."""
        return self._slices[family]

    def table(self, spec: FamilySpec, pane: Pane) -> Table:
        """An empty table for a pane; its plan is made once."""
        key = spec.name, pane == PAST_PANE
        if key not in self._empty:
            self._empty[key] = spec.table.empty(_plan_of(pane, spec.table.plan))
        return self._empty[key].empty()

    def pending(self, family: str) -> PendingCounts:
        """The pending counts of a family in all partitions."""
        if family not in self._pending:
            self._pending[family] = PendingCounts(self.slices(family))
        return self._pending[family]


class FamilySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a family of series.

    Attributes:
        columns: index of each of its dimensions among those of an event.
        spans: lengths of its windows, microseconds, ascending; empty if only its lifetime is read.
    """

    name: str
    metrics: tuple[Metric, ...]
    table: Table
    dimensions: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    spans: tuple[int, ...] = ()
    label_caps: LabelCapOptions = LabelCapOptions()


class FamilyCopy(NamedTuple):
    """A family at one moment, for reading on any thread.

    Attributes:
        panes: tables by pane; the same objects until they change.
        retention: time back from the clock for which panes are retained, microseconds.
        clock: of the partition, microseconds; None before the first.
        slices: numbers of the slices.
        users: the users over the lifetime; None if users are not counted.
    """

    version: int
    panes: Mapping[Pane, Table]
    label_caps: LabelCaps
    activity: SliceActivity
    retention: int
    clock: int | None
    slices: Slices
    users: UsersCopy | None = None


class LoadedTable(NamedTuple):
    """The table of a section, and the names of statistics that the section lacks."""

    table: Table
    missing: frozenset[str]


class Family:
    """Tables by pane; a cell is the number of a slice.

    Each event counts in one cell of one pane, and once for its user over the lifetime. After
    `advance`, the content depends on the events and the clock only.

    Attributes:
        retention: time back from the clock for which panes are retained, µs; 0 without windows.
        version: changes whenever the content does.
        activity: of slices, without what is pending.
    """

    def __init__(self, spec: FamilySpec, windowing: Windowing, counting: Counting) -> None:
        self.spec = spec
        self._counting = counting
        self._slices = counting.slices(spec.name)
        self.windowing = msgspec.structs.replace(windowing, spans=spec.spans)
        self.retention = self.windowing.retention if spec.spans else 0
        self.version = next_version()
        self.label_caps = LabelCaps(spec.label_caps, len(spec.columns))
        self._copied_caps = self.label_caps.copy()
        self.activity = SliceActivity()
        self._assigner = SliceAssigner(self.label_caps, self._slices)
        self._panes: dict[Pane, Table] = {}
        self._pane(PAST_PANE)
        plan = spec.table.plan
        self._users = FamilyUsers(spec.table) if plan.at("lifetime").specs else None
        self._pending = counting.pending(spec.name)
        self._fine = self._retained_from = PAST
        self._changed: set[Pane] = set()
        self.clock: int | None = None
        self._copies: dict[Pane, tuple[int, Table]] = {}
        self._empty_unlike = False
        self._frozen: dict[str, LoadedTable] = {}

    def assign(self, raws: Sequence[Labels]) -> IntArray:
        """The slices of events with these label values, in the order of the log."""
        numbers, renames = self._assigner.assign(raws)
        self._rename(renames)
        return numbers

    def advance(self, clock: int) -> None:
        """Add old panes to hours, and panes that are no longer retained to `PAST_PANE`.

        `clock`: of the partition, microseconds. Panes that begin after it are in no window.
        """
        size = self.windowing.pane
        if self.clock is None or self.clock // size != clock // size:
            self.version = next_version()
        if clock == self.clock:
            return
        self.clock = clock
        limits = borders(self.windowing, clock)
        if limits == (self._retained_from, self._fine):
            return
        last = self._retained_from if limits.fine == PAST else self._fine
        newest = limits.retained_from if limits.fine == PAST else limits.fine
        hour = last // HOUR != newest // HOUR
        self._retained_from, self._fine = limits
        self.version = next_version()
        moving: defaultdict[Pane, list[Table]] = defaultdict(list)
        for pane in sorted(self._panes.keys() - {PAST_PANE}):
            target = self._target(pane)
            if target != pane:
                moving[target].append(self._panes.pop(pane))
        for target, tables in moving.items():
            self._pane(target).add(*tables)
        self.join_closed(hour=hour)

    def join_closed(self, *, hour: bool = False) -> None:
        """Join the parts of closed panes that have many; with `hour`, of all closed panes.

        A minute closes when the clock leaves it, an hour when all of its minutes were added.
        """
        size, fine = self.windowing.pane, self._fine
        begun = PAST if self.clock is None else self.clock // size * size
        for pane in [*self._changed]:
            table = self._panes.get(pane)
            if table is None:
                self._changed.discard(pane)
            elif pane.start + pane.size <= (begun if pane.size == size else fine) and (
                hour or len(table.events.parts) > _MANY
            ):
                self._pane(pane).join()
                self._changed.discard(pane)

    def add_to_past(self, starts: Sequence[int]) -> None:
        """Add these panes to `PAST_PANE`: their events come from the future."""
        if not starts:
            return
        self._pending.flush()
        panes = {Pane(self.windowing.pane, start) for start in starts} & self._panes.keys()
        if panes:
            self._pane(PAST_PANE).add(*(self._panes.pop(pane) for pane in sorted(panes)))
            self.version = next_version()

    @property
    def loaded(self) -> Collection[str]:
        """The sections whose tables were loaded and did not change."""
        return self._frozen.keys()

    def merge(
        self, labels: Sequence[str], content: bytes, lists: int, span: tuple[int, int] | None
    ) -> None:
        """Add the counts of a backfill.

        `span`: start and length of their event time, microseconds; None without event time.

        Raises:
            UsageError: the span lies in several panes.
            UnlikeStateError: a statistic is missing from it, or has other options.
            DamagedStateError: it is not a table.
        """
        target = self._target_of(span)
        number = self._slices.number(())
        if self.spec.columns:
            number = int(self.assign(labels_at([tuple(labels)], self.spec.columns))[0])
        table = self.spec.table.empty()
        loaded = table.load(content, [number])
        # Only rows of the days before an experiment have statistics of its pre-period.
        missing = loaded - _shared(table.plan)
        if missing:
            expected = tuple(table.statistics)
            present_names = tuple(name for name in expected if name not in missing)
            what, sides = f"statistics of {self.spec.name}", ("the state", "the backfill")
            raise unlike(what, expected, present_names, sides=sides)
        self._pending.flush()
        table.distribute(_SLICE_BITS, {0: self._pane(target)})
        if (users := self.mutable_users()) is not None:
            add_users(table, _SLICE_BITS, {0: users})
        activity = SliceActivity()
        # The time of the last event is unknown, but not before the start of the span.
        latest = None if span is None else span[0]
        activity.load([(self._slices.labels[number], latest, lists)], self._slices)
        self.activity.add(activity, {})
        self.version = next_version()

    def copied(self) -> FamilyCopy:
        """A copy for readers; unchanged panes are the same objects as before."""
        self._pending.flush()
        panes = dict(self._panes)
        if not self._counting.frozen:
            self._copies = {at: table.copied(self._copies.get(at)) for at, table in panes.items()}
            panes = {pane: table for pane, (_, table) in self._copies.items()}
        if self._copied_caps.version != self.label_caps.version:
            self._copied_caps = self.label_caps.copy()
        activity, label_caps = self.activity.copy(), self._copied_caps
        users = None if self._users is None else self._users.copied(frozen=self._counting.frozen)
        return FamilyCopy(
            self.version,
            panes,
            label_caps,
            activity,
            self.retention,
            self.clock,
            self._slices,
            users,
        )

    def sections(self) -> list[Section]:
        """The content as sections, sorted by name; equal content gives equal bytes."""
        self._pending.flush()
        name = self.spec.name
        sections = [Section(f"{name}/{_META}", self.version, self._meta)]
        tables = dict(self._panes)
        if self._users is not None:
            tables |= {
                Pane(DAY, day * DAY): day_table for day, day_table in self._users.days.items()
            }
            content = partial(self._copy_users, self._users)
            sections.append(Section(f"{name}/{_USERS}", self._users.version, content))
        for pane, table in tables.items():
            content = partial(self._copy_table, table)
            sections.append(Section(section_name(name, pane), table.version, content))
        return sorted(sections, key=lambda section: section.name)

    def restore(
        self,
        sections: Mapping[str, bytes],
        *,
        unchanged: Collection[str] = (),
        most_panes: float = math.inf,
        empty_unlike: bool = False,
    ) -> tuple[Family, frozenset[str]]:
        """A family of this name with the content of its sections.

        Args:
            sections: the output of `sections`.
            unchanged: names of other sections, which this family has loaded; its tables must be
                `frozen`.
            most_panes: largest number of panes that this family can have.
            empty_unlike: whether statistics of other inputs start empty, instead of raising.

        Returns:
            The family, and names of statistics that some sections lack, which are counted from
            now on.

        Raises:
            DamagedStateError: they are not the output of `sections`.
            UnlikeInputsError: a statistic had other inputs.
            UnlikeStateError: their panes have another size.
        """
        self._pending.flush()
        family = Family(self.spec, self.windowing, self._counting)
        family._empty_unlike = empty_unlike
        loaded = {name: self._frozen[name] for name in unchanged}
        return family, family._load(sections, loaded, most_panes)

    def _load(
        self, sections: Mapping[str, bytes], loaded: Mapping[str, LoadedTable], most_panes: float
    ) -> frozenset[str]:
        prefix, new = f"{self.spec.name}/", set[str]()
        family_sections: dict[str, Any] = {
            name: data for name, data in sections.items() if name.startswith(prefix)
        }
        with damage_as_error(prefix + _META):
            state = msgspec.msgpack.decode(
                family_sections.pop(prefix + _META, b""), type=tuple[LabelCapsState, ActivityState]
            )
            self.label_caps.load(state[0])
            self.activity.load(state[1], self._slices)
        family_sections |= loaded
        if section_name(self.spec.name, PAST_PANE) not in family_sections:
            raise damaged(section_name(self.spec.name, PAST_PANE), "it is missing")
        plan = self.spec.table.plan
        users = family_sections.pop(prefix + _USERS, None)
        if self._users is not None and users is None:
            absent = (spec.missing(None, frozenset()) for spec in plan.at("lifetime").specs)
            new |= self._read_by_metrics(chain.from_iterable(absent))
        elif self._users is not None:
            table, missing = self._restore_table(prefix + _USERS, users, plan.at("lifetime"))
            add_users(table, _SLICE_BITS, {0: self._users})
            new |= self._read_by_metrics(missing)
        panes = {name: pane_of(name, self.windowing.pane) for name in sorted(family_sections)}
        if sum(pane.size != DAY for pane in panes.values()) > most_panes:
            raise damaged(prefix, f"it has {len(panes):,} panes")
        for name, pane in panes.items():
            data = family_sections[name]
            if pane.size != DAY:
                self._panes[pane], missing = self._restore_table(name, data, _plan_of(pane, plan))
                new |= missing
            elif self._users is not None:
                table, missing = self._restore_table(name, data, plan.at("day"))
                # Days of another time zone lack statistics; they are dropped.
                if not missing:
                    self._users.days[pane.start // DAY] = table
        self._admit_loaded()
        return frozenset(new)

    def _read_by_metrics(self, names: Iterable[str]) -> frozenset[str]:
        """The names among these of statistics that the metrics read."""
        table = self.spec.table
        return frozenset(names).intersection(
            chain.from_iterable(statistic_names(metric, table) for metric in self.spec.metrics)
        )

    def _restore_table(self, name: str, data: bytes | LoadedTable, plan: Plan) -> LoadedTable:
        """The table of a section; loads it unless it is loaded already."""
        if not isinstance(data, LoadedTable):
            labels, content = decode_table(name, data, len(self.spec.columns))
            table = self.spec.table.empty(plan)
            numbers = list(map(self._slices.number, labels))
            missing = table.load(content, numbers, empty_unlike=self._empty_unlike)
            data = LoadedTable(table, missing)
        if self._counting.frozen:
            self._frozen[name] = data
        return data

    def _admit_loaded(self) -> None:
        """Fold label values above the caps, which may have been larger when the state was saved."""
        numbers = set(self.activity.numbers.tolist())
        numbers.update(*(table.cells.tolist() for table in self._panes.values()))
        loaded = [self._slices.labels[number] for number in self._slices.sorted(numbers)]
        for labels in () if self.label_caps.admit_apart(loaded) else loaded:
            admitted = self.label_caps.admit(labels)
            self._rename(self._slices.by_number({**admitted.renames, labels: admitted.key}))

    def _rename(self, renames: Mapping[int, int]) -> None:
        if not renames:
            return
        self._pending.flush()
        for pane, table in [*self._panes.items()]:
            if not renames.keys().isdisjoint(table.cells.tolist()):
                self._pane(pane).rename(renames)
        if (users := self.mutable_users()) is not None:
            users.rename(renames)
        self.activity.rename(renames)
        self.version = next_version()

    def mutable_users(self) -> FamilyUsers | None:
        """The users, for writing; None if users are not counted."""
        if self._users is not None and self._counting.frozen:
            self._users = self._users.copy()
        return self._users

    def target(self, start: int) -> Pane:
        """The pane that takes the events of a pane with this start, at the current clock."""
        return self._target(Pane(self.windowing.pane, start))

    def table_at(self, pane: Pane) -> Table:
        """The table of a pane, for writing."""
        return self._pane(pane)

    def _target_of(self, span: tuple[int, int] | None) -> Pane:
        if span is None or not self.spec.spans:
            return PAST_PANE
        (start, length), size = span, self.windowing.pane
        first, last = (
            self._target(Pane(size, at // size * size)) for at in (start, start + length - 1)
        )
        if first != last:
            problem = f"a span of {span_text(length)} lies in several panes of windows"
            fitting = f'"{span_text(size)}"'
            if self._fine != PAST:
                fitting += f', or "1h" for what is {span_text(FINE + self.windowing.lateness)} old'
            raise unfit(problem, f"count it again with every={fitting}")
        return first

    def _target(self, pane: Pane) -> Pane:
        if pane.start < self._retained_from or pane.start == PAST:
            return PAST_PANE
        if pane.start < self._fine and pane.size < HOUR:
            return Pane(HOUR, pane.start // HOUR * HOUR)
        return pane

    def _pane(self, pane: Pane) -> Table:
        """The table of a pane, for writing."""
        if pane not in self._panes:
            self._panes[pane] = self._counting.table(self.spec, pane)
        elif self._counting.frozen:
            self._panes[pane] = self._panes[pane].copy()
        if pane != PAST_PANE:
            self._changed.add(pane)
        return self._panes[pane]

    def _copy_table(self, table: Table) -> Callable[[], Iterator[bytes]]:
        copy = table.copy()
        return self._dump(copy, copy.cells.tolist())

    def _copy_users(self, users: FamilyUsers) -> Callable[[], Iterator[bytes]]:
        by_user = dict(users.copied().by_user)
        shared = _shared(self.spec.table.plan)
        of_slices = (
            statistic.cells.tolist() for name, statistic in by_user.items() if name not in shared
        )
        cells = self._slices.sorted({*chain.from_iterable(of_slices)})
        for name in shared if cells else ():
            # Sums of no slice are saved with the first slice.
            by_user[name] = by_user[name].mapped(methodcaller("renamed", {0: cells[0]}))
        return self._dump(users_alone(by_user, self.spec.table), cells)

    def _dump(self, table: Table, cells: Sequence[int]) -> Callable[[], Iterator[bytes]]:
        order = self._slices.sorted(cells)
        labels = [self._slices.labels[cell] for cell in order]
        return lambda: encode_table(labels, table.dump(order))

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state = msgspec.msgpack.encode([self.label_caps.state(), self.activity.state(self._slices)])
        return lambda: iter([state])


def widest_search(families: Sequence[FamilySpec]) -> Search:
    """The search whose hits all these families can read."""
    return widest([spec.table.search for spec in families])


def _shared(plan: Plan) -> frozenset[str]:
    """Names of the statistics that have one cell for all slices."""
    return frozenset(name for name, spec in plan.by_name.items() if spec.shares_cells)


def _plan_of(pane: Pane, plan: Plan) -> Plan:
    """The plan of a pane's table; users are counted over the lifetime, outside the panes."""
    return plan.at("past" if pane == PAST_PANE else "pane")


def unfit(problem: str, remedy: str) -> UsageError:
    """The error for a backfill that a state cannot accept."""
    return UsageError(f"this backfill cannot be merged: {problem}; {remedy}.")
