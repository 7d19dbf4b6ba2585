"""Windows and lifetimes over all partitions: cached sums of tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.engine.windows.family import FamilyCopy, FamilySpec
from streameval.engine.windows.family_users import with_users
from streameval.engine.windows.labels import OTHER, LabelCaps, Labels, SliceActivity, Slices
from streameval.engine.windows.times import DAY, HOUR, PAST_PANE, Pane, alignment
from streameval.statistics.statistic import Statistic

_C = TypeVar("_C", Table, Statistic)
_K = TypeVar("_K", bound=Hashable)

_Parts: TypeAlias = Mapping[tuple[int, Pane], Table]
"""Tables by number of the partition and pane."""

_Renamed: TypeAlias = dict[tuple[int, Pane], tuple[Table, Table]]
"""Each table of a partition, and the same after folding by the caps of all partitions."""

_LIFETIME: Final = 0
_DAYS: Final = -1


class SliceTable(NamedTuple):
    """The counts of a family by slice, over some time: of a daemon, of states or of files.

    Attributes:
        names: of its labels, then of its segment.
        segment: the dimension that is not a label; None without one.
        metrics: in the order of the configuration.
        table: a cell is a slice.
        labels: the label values of each cell with events, in their order.
    """

    names: tuple[str, ...]
    segment: str | None
    metrics: Sequence[Metric]
    table: Table
    labels: Mapping[int, Labels]


class RunningSum:
    """The sum of a changing set of tables: adds new tables and subtracts those that are gone.

    Counts are integers, so subtraction is exact. Tables that changed since the last call are added
    to a copy of the running sum only.
    """

    __slots__ = ("_empty", "_last", "_sum", "_summed", "_total")

    def __init__(self, empty: Table) -> None:
        self._empty = empty
        self._sum = empty.empty()
        self._summed: _Parts = {}
        self._last: _Parts = {}
        self._total = self._sum

    def of(self, parts: _Parts) -> Table:
        """The sum of these tables, for reading only; the same object for the same tables."""
        before, self._last = self._last, parts
        steady = {key: part for key, part in parts.items() if before.get(key) is part}
        if len(steady) == len(parts) == len(before):
            return self._total
        self._update(steady)
        moving = [part for key, part in parts.items() if key not in steady]
        if len(parts) == 1:
            (self._total,) = parts.values()
            return self._total
        self._total = self._sum.copy()
        self._total.add(*moving)
        return self._total

    def _update(self, steady: _Parts) -> None:
        removed = [part for key, part in self._summed.items() if steady.get(key) is not part]
        added = [part for key, part in steady.items() if self._summed.get(key) is not part]
        if removed and (len(removed) > len(steady) or self._sum.reduced):
            self._sum, removed, added = self._empty.empty(), [], list(steady.values())
        for part in removed:
            self._sum.subtract(part)
        self._sum.add(*added)
        self._summed = steady


class FamilyView:
    """Reads one family over all partitions; caches sums of what has not changed.

    Label values are folded by the caps of all partitions together. Not safe on several threads.

    `pane`: size of a pane, microseconds.
    """

    def __init__(self, spec: FamilySpec, pane: int) -> None:
        self.spec = spec
        self._pane = pane
        self._slices = Slices()
        self._families: Sequence[FamilyCopy] = ()
        self._clocks: Sequence[float] = ()
        self._tables: _Renamed = {}
        self._days: _Renamed = {}
        self._by_user: dict[tuple[int, str], tuple[Statistic, Statistic]] = {}
        self._nobody = spec.table.empty(spec.table.plan.at("lifetime")).statistics
        self._everyone: dict[str, tuple[list[Statistic], Statistic]] = {}
        self._lifetime: tuple[tuple[object, ...], Table] | None = None
        self._label_caps = LabelCaps(spec.label_caps, len(spec.columns))
        self._renames: dict[int, int] = {}
        self._activity = SliceActivity()
        self._sums: dict[Hashable, RunningSum] = {}

    def refresh(self, families: Sequence[FamilyCopy]) -> None:
        """Read these copies from now on, one of each partition, in the order of partitions."""
        if [viewed.version for viewed in families] == [viewed.version for viewed in self._families]:
            return
        self._families = families
        self._clocks = [math.inf if viewed.clock is None else viewed.clock for viewed in families]
        if families:
            self._slices = families[0].slices
            first, *others = [viewed.label_caps for viewed in families]
            self._label_caps = first.union(others)
        self._rename_all()
        self._activity = SliceActivity()
        for family in families:
            self._activity.add(family.activity, self._renames)

    @property
    def retention(self) -> int:
        """The time back from the clock for which panes are retained, microseconds."""
        return max((family.retention for family in self._families), default=0)

    @property
    def label_caps(self) -> LabelCaps:
        """The label caps of all partitions together; for reading only."""
        return self._label_caps

    def lifetime(self) -> Table:
        """All events together with their users; a cell is a slice."""
        table, plan = self.values(), self.spec.table.plan
        if not self._nobody:
            return table
        days = self._sum(_DAYS, plan.at("day")).of({at: day for at, (_, day) in self._days.items()})
        by_user, cached = self._together(), self._lifetime
        parts = (table, days, *by_user.values())
        if cached is None or not all(map(is_, cached[0], parts)):
            lifetime = with_users(table, days, by_user, plan)
            cached = self._lifetime = parts, lifetime
        return cached[1]

    def values(self) -> Table:
        """All events without their users; a cell is a slice."""
        plan = self.spec.table.plan.at("past")
        tables = {at: table for at, (_, table) in self._tables.items()}
        return self._sum(_LIFETIME, plan).of(tables)

    def window(self, span: int, clock: int) -> Table:
        """Events of the last `span` before the clock; a cell is a slice.

        The window begins with a pane, above two hours with an hour, so it covers the span or
        more. It leaves out panes after the clock or after the clock of their partition.

        `span`: microseconds; at most the longest of the spec.
        """
        size = alignment(span, self._pane)
        start = (clock - span) // size * size
        return self._sum(span).of(
            {
                at: table
                for at, (_, table) in self._tables.items()
                if start <= at[1].start <= min(clock, self._clocks[at[0]]) and at[1] != PAST_PANE
            }
        )

    def panes(self) -> list[Pane]:
        """The retained panes that have begun, the newest first."""
        begun = {pane for at, pane in self._tables if pane.start <= self._clocks[at]}
        retained = begun - {PAST_PANE}
        return sorted(retained, key=lambda pane: (pane.size < HOUR, pane.start), reverse=True)

    def pane(self, pane: Pane) -> Table:
        """Events of one pane; the same object until they change."""
        parts = {at: table for at, (_, table) in self._tables.items() if at[1] == pane}
        return self._sum(pane).of(parts)

    def forget_panes(self, but: Collection[Pane]) -> None:
        """Drop the sums of all other panes."""
        dropped = [key for key in self._sums if isinstance(key, Pane) and key not in but]
        for key in dropped:
            del self._sums[key]

    def slices(self, table: Table) -> NDArray[np.int64]:
        """The slices with events in a table, sorted by label values."""
        return np.array(self.in_order(table.cells.tolist()), np.int64)

    def by_slice(self, table: Table, segment: str | None = None) -> SliceTable:
        """A table of this view with the label values of its slices; `segment`: of the family."""
        labels = {number: self.labels(number) for number in self.slices(table).tolist()}
        return SliceTable(self.spec.dimensions, segment, self.spec.metrics, table, labels)

    def in_order(self, slices: Iterable[int]) -> list[int]:
        """These slices, sorted by label values."""
        return self._slices.sorted(slices)

    def labels(self, number: int) -> Labels:
        """The label values of a slice."""
        return self._slices.labels[number]

    def latest(self) -> Mapping[int, int | None]:
        """Latest event time of each slice, microseconds; None without event time."""
        return self._activity.latest

    def folded_events(self) -> Mapping[str, int]:
        """Dimension -> events under `__other__` over the lifetime."""
        counts = [(self.labels(number), events) for number, events in self._activity.events.items()]
        return {
            name: sum(events for labels, events in counts if labels[column] == OTHER)
            for column, name in enumerate(self.spec.dimensions)
        }

    def _sum(self, key: Hashable, plan: Plan | None = None) -> RunningSum:
        if key not in self._sums:
            empty = self.spec.table.empty(plan or self.spec.table.plan.at("pane"))
            self._sums[key] = RunningSum(empty)
        return self._sums[key]

    def _together(self) -> dict[str, Statistic]:
        """The statistics by user of all partitions; the same objects until they change."""
        for name, nobody in self._nobody.items():
            parts = [
                of_partition for (_, of), (_, of_partition) in self._by_user.items() if of == name
            ]
            self._everyone[name] = _merge(parts or [nobody], self._everyone.get(name))
        return {name: total for name, (_, total) in self._everyone.items()}

    def _rename_all(self) -> None:
        """Fold the tables of the families by the caps of all partitions together."""
        if self._update_renames():
            self._tables, self._days, self._by_user = {}, {}, {}
        panes, days = dict[tuple[int, Pane], Table](), dict[tuple[int, Pane], Table]()
        by_user = dict[tuple[int, str], Statistic]()
        for index, family in enumerate(self._families):
            panes |= {(index, pane): table for pane, table in family.panes.items()}
            if (users := family.users) is not None:
                days |= {(index, Pane(DAY, day * DAY)): sums for day, sums in users.days.items()}
                by_user |= {(index, name): counted for name, counted in users.by_user.items()}
        self._tables = self._rename_parts(self._tables, panes)
        self._days = self._rename_parts(self._days, days)
        self._by_user = self._rename_parts(self._by_user, by_user)

    def _rename_parts(
        self, before: Mapping[_K, tuple[_C, _C]], parts: Mapping[_K, _C]
    ) -> dict[_K, tuple[_C, _C]]:
        renamed: dict[_K, tuple[_C, _C]] = {}
        for at, part in parts.items():
            cached = before.get(at)
            same = cached is not None and cached[0] is part
            renamed[at] = cached if cached and same else (part, self._rename(part))
        return renamed

    def _update_renames(self) -> bool:
        renames: dict[int, int] = {}
        if any(edge is not None for edge in self._label_caps.edges):
            # A copy: another thread may number more slices.
            labels = self._slices.labels[:]
            renames = self._slices.by_number(
                {label: self._label_caps.resolve(label) for label in labels}
            )
        moved, self._renames = renames != self._renames, renames
        return moved

    def _rename(self, counted: _C) -> _C:
        if not self._renames or self._renames.keys().isdisjoint(counted.cells.tolist()):
            return counted
        renamed = counted.copy()
        renamed.rename(self._renames)
        return renamed


def _merge(
    parts: list[Statistic], cached: tuple[list[Statistic], Statistic] | None
) -> tuple[list[Statistic], Statistic]:
    """The parts, and all of them together; the same object until they change."""
    if cached is not None and len(cached[0]) == len(parts) and all(map(is_, cached[0], parts)):
        return cached
    if len(parts) == 1:
        return parts, parts[0]
    total: Any = parts[0].empty()
    for part in parts:
        total.merge(part)
    return parts, total
