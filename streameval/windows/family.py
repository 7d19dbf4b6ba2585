"""A family of series of one partition: tables by pane, with a cell for each slice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.errors import BackfillError, DamagedStateError, UnlikeStateError
from streameval.events import Batch
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import IntArray, placed
from streameval.statistics.statistic import Cells
from streameval.statistics.users import Users
from streameval.windows.labels import (
    Assigner,
    Folding,
    FoldingOptions,
    FoldingState,
    Seen,
    SeenState,
    Slices,
)
from streameval.windows.sections import Section, next_version
from streameval.windows.times import (
    BEYOND,
    DAY,
    FINE,
    HOUR,
    PAST,
    Pane,
    Times,
    borders,
    pane_of,
    section_name,
    span_text,
)
from streameval.windows.users import FamilyUsers, UsersCopy, copies_of, users_alone

_META: Final = "meta"
_USERS: Final = "users"
_SLICE_BITS: Final = 20
_LENGTH: Final = 4
_MOST_OPEN: Final = 65_536
"""Rows that wait, such as items shown: to settle so many takes some milliseconds."""


class Open:
    """What families counted that is not yet in their panes.

    Its cells are numbered by family, pane and slice: the records of many partitions in one poll are
    folded at once. A family that keeps users has one of its own.
    """

    __slots__ = ("_numbers", "_table")

    def __init__(self) -> None:
        self._table: Table | None = None
        self._numbers: dict[tuple[Family, int], int] = {}

    def number(self, family: Family, start: int) -> int:
        """A number for a pane of a family, until what is open is settled."""
        return self._numbers.setdefault((family, start), len(self._numbers))

    def count(
        self, spec: FamilySpec, batch: Batch | CodedBatch, cells: Cells, times: IntArray | None
    ) -> None:
        """Count events, in cells that begin with a number of their pane."""
        if self._table is None:
            self._table = spec.table.empty()
        self._table.count(batch, cells, times)
        if self._table.waiting >= _MOST_OPEN:
            self.settle()

    def settle(self) -> None:
        """Move everything into the panes that it belongs to by now."""
        numbers, table = self._numbers, self._table
        self.clear()
        if table is not None:
            goals = {at: family.goal(start) for (family, start), at in numbers.items()}
            table.hand_out(_SLICE_BITS, goals)
            for family in {family for family, _ in numbers}:
                family.add_users(table)

    def clear(self) -> None:
        """Forget everything."""
        self._numbers, self._table = {}, None


class FamilySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one family of series is.

    Attributes:
        slices: numbers the slices, for all partitions of the process.
        open: what was counted last, of all partitions of the process.
        columns: the place of each of those among the dimensions of an event.
        spans: of its windows, microseconds, ascending; empty where only its lifetime is read.
    """

    name: str
    metrics: tuple[Metric, ...]
    table: Table
    slices: Slices = msgspec.field(default_factory=Slices)
    open: Open = msgspec.field(default_factory=Open)
    dimensions: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    spans: tuple[int, ...] = ()
    folding: FoldingOptions = FoldingOptions()


class FamilyCopy(NamedTuple):
    """A family at one moment, for reading on any thread.

    Attributes:
        panes: tables by pane; the very same objects while nothing changed in them.
        kept: how far back from the clock panes are kept, microseconds.
        clock: of the partition, microseconds; None where it has none yet.
        users: what is kept by user over the lifetime; None without.
    """

    version: int
    panes: Mapping[Pane, Table]
    folding: Folding
    seen: Seen
    kept: int
    clock: int | None
    users: UsersCopy | None = None


class Family:
    """Tables by pane; the cell of a table is the number of a slice.

    Each event is counted in exactly one cell of one pane, and by its user once for the lifetime.
    After an `advance` the content is a function of the events and of the clock.

    Attributes:
        kept: how far back from the clock panes are kept, microseconds; 0 without windows.
        version: while it stays the same, so does the content.
    """

    def __init__(self, spec: FamilySpec, times: Times) -> None:
        self.spec = spec
        self.times = msgspec.structs.replace(times, spans=spec.spans)
        self.kept = self.times.kept if spec.spans else 0
        self.version = next_version()
        self.folding = Folding(spec.folding, len(spec.columns))
        self._folded = self.folding.copy()
        self._seen = Seen()
        self._assigner = Assigner(self.folding, spec.slices, spec.columns)
        self._panes: dict[Pane, Table] = {}
        self._pane(BEYOND)
        self._users = FamilyUsers() if spec.table.plan.users else None
        self._open = spec.open if self._users is None else Open()
        self._fine = self._kept = PAST
        self.clock: int | None = None
        self._copies: dict[Pane, tuple[int, Table]] = {}

    def update(
        self,
        batch: Batch | CodedBatch,
        dimensions: Sequence[tuple[str, ...]] | None,
        starts: NDArray[np.int64] | None,
        times: NDArray[np.int64] | None,
        seen: NDArray[np.int64] | None = None,
    ) -> None:
        """Count events, in the order of the log.

        `starts`: start of the pane of each, PAST where it is late; None without event time. `seen`:
        the same where the log confirms it, else the clock; by default `times`.
        """
        if not len(batch):
            return
        assigned = self._assigner.assign(dimensions, len(batch))
        if assigned.moves:
            self._move(assigned.moves)
        cells = assigned.numbers + (self._numbers_of(starts) << _SLICE_BITS)
        one = bool((cells == cells[0]).all())
        self._open.count(self.spec, batch, int(cells[0]) if one else cells, times)
        self._seen.count(assigned.numbers, times if seen is None else seen)
        self.version = next_version()

    def advance(self, clock: int) -> None:
        """Fold panes that have grown old into hours, and those no longer kept into the past.

        `clock`: of the partition, microseconds. Panes that begin after it are in no window.
        """
        size = self.times.pane
        if self.clock is None or self.clock // size != clock // size:
            self.version = next_version()
        self.clock = clock
        limits = borders(self.times, clock)
        if limits == (self._kept, self._fine):
            return
        self._kept, self._fine = limits
        self.version = next_version()
        moving: defaultdict[Pane, list[Table]] = defaultdict(list)
        for pane in sorted(self._panes.keys() - {BEYOND}):
            goal = self._goal(pane)
            if goal != pane:
                moving[goal].append(self._panes.pop(pane))
        for goal, tables in moving.items():
            self._pane(goal).add(*tables)

    def give_up(self, starts: Sequence[int]) -> None:
        """Events of these panes belong to no span of time: fold them into the past."""
        if not starts:
            return
        self._open.settle()
        given_up = {Pane(self.times.pane, start) for start in starts} & self._panes.keys()
        if given_up:
            self._panes[BEYOND].add(*(self._panes.pop(pane) for pane in sorted(given_up)))
            self.version = next_version()

    def take_over(
        self, labels: Sequence[str], content: bytes, lists: int, span: tuple[int, int] | None
    ) -> None:
        """Add what was counted elsewhere.

        `span`: of event time in which they all are: start and length, microseconds; None without.

        Raises:
            BackfillError: the span lies in several panes.
            UnlikeStateError: a statistic that is kept here is not in it, or was made otherwise.
            DamagedStateError: it is not a table.
        """
        goal = self._goal_of(span)
        assigned = self._assigner.assign([tuple(labels)], 1)
        self._move(assigned.moves)
        number = int(assigned.numbers[0])
        table = self.spec.table.empty()
        missing = table.load(content, [number])
        if missing:
            kept = tuple(table.statistics)
            there = tuple(name for name in kept if name not in missing)
            raise UnlikeStateError(f"statistics of {self.spec.name}", kept, there)
        self._open.settle()
        table.hand_out(_SLICE_BITS, {0: self._pane(goal)})
        self.add_users(table)
        seen = Seen()
        # When the last of them was is not known; not before the start of their span.
        latest = None if span is None else span[0]
        seen.load([(self.spec.slices.labels[number], latest, lists)], self.spec.slices)
        self._seen.add(seen, {})
        self.version = next_version()

    def copied(self) -> FamilyCopy:
        """Its content for readers; a pane that has not changed is the same object as before."""
        self._open.settle()
        self._copies = copies_of(self._panes, self._copies)
        panes = {pane: table for pane, (_, table) in self._copies.items()}
        if self._folded.version != self.folding.version:
            self._folded = self.folding.copy()
        seen, folding = self._seen.copy(), self._folded
        users = None if self._users is None else self._users.copied()
        return FamilyCopy(self.version, panes, folding, seen, self.kept, self.clock, users)

    def sections(self) -> list[Section]:
        """Its content in pieces, sorted by name; equal content gives equal bytes."""
        self._open.settle()
        name = self.spec.name
        found = [Section(f"{name}/{_META}", self.version, self._meta)]
        tables = dict(self._panes)
        if self._users is not None:
            tables |= {Pane(DAY, day * DAY): each for day, each in self._users.days.items()}
            content = partial(self._copied_users, self._users.users)
            found.append(Section(f"{name}/{_USERS}", self._users.version, content))
        for pane, table in tables.items():
            found.append(
                Section(
                    section_name(name, pane),
                    table.version,
                    partial(self._copied_table, table),
                    closed=self._closed(pane),
                )
            )
        return sorted(found, key=lambda section: section.name)

    def restore(self, sections: Mapping[str, bytes]) -> frozenset[str]:
        """Replace the content by what the sections of a family of this name hold.

        Returns:
            Names of statistics that some of them did not hold: they are kept from now on.

        Raises:
            DamagedStateError: they are not the output of `sections`; the content stays as it was.
            UnlikeStateError: they were made with panes of another size.
        """
        self._open.settle()
        fresh = Family(self.spec, self.times)
        new = fresh._load(sections)
        self.__dict__.update(fresh.__dict__)
        return new

    def _load(self, sections: Mapping[str, bytes]) -> frozenset[str]:
        prefix, new = f"{self.spec.name}/", set[str]()
        own = {name: data for name, data in sections.items() if name.startswith(prefix)}
        self._load_meta(prefix + _META, own.pop(prefix + _META, b""))
        if section_name(self.spec.name, BEYOND) not in own:
            raise DamagedStateError(section_name(self.spec.name, BEYOND), "it is missing")
        users = own.pop(prefix + _USERS, None)
        if users is not None and self._users is not None:
            table, _ = self._loaded(prefix + _USERS, users, self.spec.table.plan.of_users)
            self._users.add_users(cast("Users", table.audience))
        for name in sorted(own):
            new |= self._load_pane(name, own[name])
        self._admit_loaded()
        return frozenset(new)

    def _load_meta(self, name: str, data: bytes) -> None:
        try:
            state = msgspec.msgpack.decode(data, type=tuple[FoldingState, SeenState])
            self.folding.load(state[0])
            self._seen.load(state[1], self.spec.slices)
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise DamagedStateError(name, f"{type(error).__name__}: {error}") from error

    def _load_pane(self, name: str, data: bytes) -> frozenset[str]:
        pane, plan = pane_of(name, self.times.pane), self.spec.table.plan
        if pane.size != DAY:
            self._panes[pane], new = self._loaded(name, data, _plan_of(pane, plan))
            return new
        if self._users is not None:
            self._users.days[pane.start // DAY], _ = self._loaded(name, data, plan.by_day)
        return frozenset()

    def _loaded(self, name: str, data: bytes, plan: Plan) -> tuple[Table, frozenset[str]]:
        """A table, and the names of statistics that were not there."""
        end = _LENGTH + int.from_bytes(data[:_LENGTH])
        try:
            labels = msgspec.msgpack.decode(data[_LENGTH:end], type=list[tuple[str, ...]])
        except msgspec.MsgspecError as error:
            raise DamagedStateError(name, f"its label values cannot be read: {error}") from error
        if any(len(each) != len(self.spec.columns) for each in labels):
            raise DamagedStateError(name, "it has another number of dimensions")
        if any(left >= right for left, right in pairwise(labels)):
            raise DamagedStateError(name, "its slices are not in order")
        table = self.spec.table.empty(plan)
        new = table.load(data[end:], list(map(self.spec.slices.number, labels)))
        return table, new

    def _admit_loaded(self) -> None:
        """Fold what exceeds the caps of this family, where it was saved with larger ones."""
        numbers = set(self._seen.numbers.tolist())
        numbers.update(*(table.cells.tolist() for table in self._panes.values()))
        for number in self.spec.slices.sorted(numbers):
            labels = self.spec.slices.labels[number]
            admitted = self.folding.admit(labels)
            self._move(self.spec.slices.moves({**admitted.moves, labels: admitted.key}))

    def _move(self, moves: Mapping[int, int]) -> None:
        if not moves:
            return
        self._open.settle()
        for table in self._panes.values():
            table.rename(moves)
        if self._users is not None:
            self._users.rename(moves)
        self._seen.move(moves)
        self.version = next_version()

    def _numbers_of(self, starts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """A small number for the pane of each event."""
        if starts is None or not self.spec.spans:
            return np.array(self._open.number(self, PAST))
        known, places = placed(starts)
        numbers = np.array([self._open.number(self, start) for start in known.tolist()])
        return numbers[places]

    def goal(self, start: int) -> Table:
        """The table of the pane or hour that events of a pane belong to by now."""
        return self._pane(self._goal(Pane(self.times.pane, start)))

    def add_users(self, table: Table) -> None:
        """Add what a table of this family alone counted by user."""
        if self._users is not None:
            self._users.add(table, _SLICE_BITS)

    def _goal_of(self, span: tuple[int, int] | None) -> Pane:
        if span is None or not self.spec.spans:
            return BEYOND
        (start, length), size = span, self.times.pane
        first, last = (
            self._goal(Pane(size, at // size * size)) for at in (start, start + length - 1)
        )
        if first != last:
            problem = f"a span of {span_text(length)} lies in several panes of windows"
            fitting = f'"{span_text(size)}"'
            if self._fine != PAST:
                fitting += f', or "1h" for what is {span_text(FINE + self.times.lateness)} old'
            raise BackfillError(problem, f"count it again with every={fitting}")
        return first

    def _goal(self, pane: Pane) -> Pane:
        if pane.start < self._kept or pane.start == PAST:
            return BEYOND
        if pane.start < self._fine and pane.size < HOUR:
            return Pane(HOUR, pane.start // HOUR * HOUR)
        return pane

    def _pane(self, pane: Pane) -> Table:
        table = self._panes.get(pane)
        if table is None:
            plan = _plan_of(pane, self.spec.table.plan)
            table = self._panes[pane] = self.spec.table.empty(plan)
        return table

    def _closed(self, pane: Pane) -> bool:
        """Whether all has come that may still come in time, or be folded into an hour."""
        if self.clock is None or pane.size in {BEYOND.size, DAY}:
            return False
        until = self._fine if pane.size == HOUR else self.clock - self.times.lateness
        return pane.start + pane.size <= until

    def _copied_table(self, table: Table) -> Callable[[], Iterator[bytes]]:
        copy = table.copy()
        return self._dumped(copy, copy.cells.tolist())

    def _copied_users(self, users: Users) -> Callable[[], Iterator[bytes]]:
        return self._dumped(users_alone(users.copy(), self.spec.table), users.cells.tolist())

    def _dumped(self, table: Table, cells: Sequence[int]) -> Callable[[], Iterator[bytes]]:
        order = self.spec.slices.sorted(cells)
        labels = msgspec.msgpack.encode([self.spec.slices.labels[cell] for cell in order])

        def dumped() -> Iterator[bytes]:
            yield len(labels).to_bytes(_LENGTH) + labels
            yield from table.dump(order)

        return dumped

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state = msgspec.msgpack.encode([self.folding.state(), self._seen.state(self.spec.slices)])
        return lambda: iter([state])


def _plan_of(pane: Pane, plan: Plan) -> Plan:
    """What is kept there: users belong to the lifetime, which is more than its panes."""
    return plan.without_users if pane == BEYOND else plan.of_pane
