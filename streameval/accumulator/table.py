"""The statistics of many cells, counted, merged and saved together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.counting import CountedBatch, CountedEvents
from streameval.accumulator.formulas import EventValues, Formula, formula
from streameval.accumulator.inputs import Digests, digests_of, merged_digests, one_kind
from streameval.accumulator.kinds.spec import PlanLimits, StatisticSpec, own_errors
from streameval.accumulator.plan import Plan
from streameval.catalogue.context import Context
from streameval.events import Batch, Event
from streameval.events.batch import ItemGroup
from streameval.events.extras import LazyModule
from streameval.events.ids import IdKind
from streameval.events.ragged import IdColumn, Ragged
from streameval.events.saved_states import unlike
from streameval.statistics.arrays import IntArray
from streameval.statistics.matching import Search, matched
from streameval.statistics.relation import Relation, Shape, next_version
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.accumulator import codec
    from streameval.statistics import users as _users
else:
    # A loop that only counts hits needs none of it.
    codec = LazyModule("streameval.accumulator.codec")
    _users = LazyModule("streameval.statistics.users")

_MOST_LISTS: Final = 16_384
_MOST_IDS: Final = 4_096
"""Lists that wait to be counted together: without their ids, and with them, which take memory."""

_MOST_ROWS: Final = 1_048_576
"""Rows that may be added before cells that are too large are reduced, even if nobody reads them."""

_READ_BY_FORMULAS: Final = dict.fromkeys(("baselines", "histories", "per_item", "shown_instead"))
"""Columns that only formulas of events read; statistics do not get them."""


def _form(events: CountedEvents) -> tuple[object, ...]:
    """Equal for events whose columns can be joined."""
    batch = events.batch
    matches, ranks = batch.matches, cast("object", batch.positions)
    search = None if matches is None else matches.search
    lists = type(batch.recommendations), type(batch.interactions)
    return search, *lists, isinstance(ranks, Ragged), batch.times is None


def _joined(several: Sequence[CountedEvents]) -> CountedEvents:
    """Events of one form together."""
    first, *others = several
    if not others:
        return first
    batch = first.batch.joined(*(events.batch for events in others))
    cells = np.concatenate([events.cells for events in several])
    values = [*chain.from_iterable(events.values for events in several)]
    return CountedEvents(batch, cells, values)


class Table:
    """One relation of integers per statistic: (cell, key columns...) -> counts.

    A cell is an integer from 0 up to 2^62 that the caller chooses, for example a slice of a pane.
    An Accumulator has only cell 0. The content is a function of the events counted in each cell.

    `items`: a vocabulary shared with other tables, so that adding them needs no translation.
    `ids`: the kind of ids counted; None before the first id.
    `statistics`: its content; new ones by default.

    Events wait, and are then counted together: a batch becomes lists with their hits, and these
    rows of relations. What is read here has counted them.

    Attributes:
        input_digests: input with a version -> digests of the contents it had.
        users: the kind of user ids; None before the first one.
        version: a number unique in this process; every change assigns a new one.
    """

    def __init__(
        self,
        plan: Plan,
        context: Context,
        items: Items | None = None,
        ids: IdKind | None = None,
        statistics: Mapping[str, Statistic] | None = None,
    ) -> None:
        self.plan = plan
        self.context = context
        self.ids: IdKind | None = ids
        self.users: IdKind | None = None
        self.input_digests: Digests = {}
        self.items = Items() if items is None else items
        self.version = next_version()
        self._events = Relation(Shape(keys=1))
        self._pending: list[CountedEvents] = []
        self._lists = self._flushed = self._rows = 0
        self.set_statistics(self._new_statistics() if statistics is None else dict(statistics))

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics by name, in the order of the names."""
        self._count_pending()
        return self._statistics

    @property
    def events(self) -> Relation:
        """(cell) -> events."""
        self._count_pending()
        return self._events

    @property
    def limits(self) -> PlanLimits:
        """Limits of the statistics."""
        return self.plan.limits

    def at_slot(self, slot: str) -> Any:
        """The statistic in a slot; None without one."""
        name = self.plan.name_at.get(slot)
        return None if name is None else self.statistics[name]

    def spec_at(self, slot: str) -> StatisticSpec | None:
        """The specification of a slot; None without one."""
        return self.plan.by_slot.get(slot)

    def count(
        self,
        batch: Batch,
        cells: Cells = 0,
        times: IntArray | None = None,
        values: EventValues | None = None,
        *,
        borrowed: bool = False,
    ) -> None:
        """Count events.

        Args:
            batch: the events.
            cells: the cell of each.
            times: event time of each, microseconds since the epoch; by default those of the batch.
            values: the `event_values` of the batch, if they are known.
            borrowed: whether the caller may change the lists afterwards.
        """
        if not len(batch):
            return
        # First, because a formula may raise, and then nothing may be counted.
        values = self.event_values(batch) if values is None else values
        batch = matched(batch, self.search)
        if times is None and (self.reads_lists or self.plan.reads_users):
            times = _users.times_of(batch)
        self.input_digests = merged_digests(self.input_digests, digests_of(self.context))
        where = cell_of_each(cells, len(batch))
        if self.reads_lists:
            stored = replace(batch, **_READ_BY_FORMULAS, times=times)
        else:
            # Items shown are counted at once, so that the next batch gets the memory of their ids.
            for name in self.plan.at_once:
                self._statistics[name].count(batch, where)
            none: list[Any] = [()] * len(batch)
            stored = Batch(
                recommendations=none,
                interactions=none,
                positions=batch.positions,
                users=batch.users,
                times=times,
                event_ids=batch.event_ids,
                matches=batch.matches,
            )
        self._pending.append(CountedEvents(stored, where, values))
        self._lists += len(batch)
        # Arrays of a caller may be reused, too.
        columns = (stored.recommendations, stored.interactions)
        borrowed = borrowed or any(isinstance(lists, IdColumn) for lists in columns)
        holds = self.reads_lists or self.plan.reads_users or batch.positions is not None
        if (borrowed and holds) or self._lists >= (_MOST_IDS if self.reads_lists else _MOST_LISTS):
            self._count_pending()
        self.version = next_version()

    def event_values(self, batch: Batch) -> EventValues:
        """The value of each metric of events for each event; raises what a formula raises."""
        return [self.values_of(event) for event in batch.events()] if self._formulas else []

    def values_of(self, event: Event) -> Sequence[float | Sequence[float] | None]:
        """The value of an event by each metric of events."""
        parts = {
            part: event if group is None else group.part(event, part[1])
            for part, group in self._parts_read.items()
        }
        return [value(parts[part]) for value, part in self._formulas]

    def flush(self) -> None:
        """Count the events that wait, and reduce cells that are too large."""
        if self._flushed != self.version:
            self._count_pending()
            self._reduce()
            self._flushed = self.version

    def join(self) -> None:
        """Join the parts of its relations: the short parts of a table that stays take memory."""
        self.flush()
        of_statistics = (each.relations.values() for each in self._statistics.values())
        parted = [
            relation
            for relation in (self._events, *chain.from_iterable(of_statistics))
            if len(relation.parts) > 1
        ]
        for relation in parted:
            _ = relation.columns
        if parted:
            # Copies of readers have the parts.
            self.version = next_version()

    @cached_property
    def reads_lists(self) -> bool:
        """True if a statistic reads lists, which wait with the events."""
        return self.plan.reads_lists

    @cached_property
    def search(self) -> Search:
        """The search of lists for the hits that the statistics read."""
        return self.plan.search

    @property
    def cells(self) -> IntArray:
        """The cells with events, ascending."""
        return self.events.cells

    def lists(self, cells: IntArray) -> IntArray:
        """Number of events of each cell."""
        return self.events.value(cells)

    @property
    def reduced(self) -> bool:
        """True if any cell was thinned or binned, so that it cannot be subtracted."""
        self.flush()
        return any(statistic.reduced for statistic in self.statistics.values())

    def empty(self, plan: Plan | None = None) -> Table:
        """A new table with the same vocabulary and inputs, and this plan or another."""
        statistics = None
        if plan is None:
            statistics = {name: statistic.empty() for name, statistic in self.statistics.items()}
        return Table(plan or self.plan, self.context, self.items, self.ids, statistics)

    def copy(self) -> Table:
        """An independent copy; it shares columns, which are immutable."""
        return self._mapped(lambda relation: relation.copy())

    def copied(self, earlier: tuple[int, Table] | None) -> tuple[int, Table]:
        """The version and a copy; the earlier copy if it has the same version."""
        return earlier if earlier and earlier[0] == self.version else (self.version, self.copy())

    def select(self, cells: IntArray) -> Table:
        """A table with only these cells, which ascend."""
        return self._mapped(lambda relation: relation.selected(cells))

    def regroup(self, bits: int, uppers: Mapping[int, int]) -> None:
        """Give cells other upper bits; cells that get one number are summed.

        `bits`: number of lower bits. `uppers`: upper bits -> the new ones.
        """
        moves = {old: new for old, new in uppers.items() if old != new}
        if not moves:
            return
        self.flush()
        lower = (1 << bits) - 1
        names = {
            cell: moves[cell >> bits] << bits | cell & lower
            for cell in self.cells.tolist()
            if cell >> bits in moves
        }
        self._events = self._events.renamed(names)
        for statistic in self._statistics.values():
            # Not that of `UserSums`, whose pre-period has one cell of all slices.
            Statistic.rename(statistic, names)
        self.version = next_version()

    def distribute(self, bits: int, targets: Mapping[int, Table]) -> None:
        """Add each cell to the table of its upper bits, with its lower bits as the cell.

        Args:
            bits: number of lower bits.
            targets: upper bits -> table. Tables share one vocabulary, may keep less by user, and
                one table may appear several times.
        """
        for upper, lists in self.events.split(bits):
            targets[upper].events.merge(lists)
        for name, statistic in self.statistics.items():
            slot = self.plan.by_name[name].slot
            counterparts = {at: target.at_slot(slot) for at, target in targets.items()}
            statistic.distribute(
                bits, {at: each for at, each in counterparts.items() if each is not None}
            )
        for target in targets.values():
            target.ids = one_kind("ids", self.ids, target.ids)
            target.users = one_kind("users", self.users, target.users)
            target.input_digests = merged_digests(target.input_digests, self.input_digests)
            target.version = next_version()

    def add(self, *others: Table) -> None:
        """Add the counts of other tables, which do not change; adding many at once is faster.

        `others`: tables with the same plan, or with one that keeps more by user.

        Raises:
            UnlikeStateError: one has other statistics, or ids of the other kind.
        """
        self.ids, self.users = self.kinds_with(*others)
        self.input_digests = merged_digests(
            self.input_digests, *(other.input_digests for other in others)
        )
        for table in (*others, self):
            table.flush()
        self._events.merge(*(other.events for other in others))
        for name, statistic in self._statistics.items():
            slot = self.plan.by_name[name].slot
            statistic.merge(*(other.at_slot(slot) for other in others))
        self.version = next_version()

    def kinds_with(self, *others: Table) -> tuple[IdKind | None, IdKind | None]:
        """The kinds of item and user ids after `add`, which raises the same errors."""
        ids, users = self.ids, self.users
        for other in others:
            if not self.plan.within(other.plan):
                raise unlike("statistics", self.plan.descriptions, other.plan.descriptions)
            ids, users = one_kind("ids", ids, other.ids), one_kind("users", users, other.users)
        return ids, users

    def subtract(self, other: Table) -> None:
        """Subtract counts that were added before; exact, if neither table is `reduced`."""
        self.flush()
        other.flush()
        self._events.subtract(other.events)
        for name, statistic in self._statistics.items():
            statistic.subtract(other.at_slot(self.plan.by_name[name].slot))
        self.version = next_version()

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; cells that get one number are summed."""
        self.flush()
        self._events = self._events.renamed(names)
        for statistic in self.statistics.values():
            statistic.rename(names)
        self.version = next_version()

    def dump(self, order: Sequence[int]) -> Iterator[bytes]:
        """Encode these cells as one msgpack value, in pieces; equal content gives equal bytes.

        Cells become 0, 1, 2, ... in this order, and items their names. Do not count before the last
        piece is read; dump a copy instead.
        """
        self.flush()
        return codec.dump_content(self._content, order)

    def load(
        self, data: bytes, cells: Sequence[int], *, empty_unlike: bool = False
    ) -> frozenset[str]:
        """Fill an empty table from the parts of the output of `dump` that its plan needs.

        Args:
            data: the bytes.
            cells: the new number of each saved cell.
            empty_unlike: whether a statistic of other inputs starts empty, instead of raising.

        Returns:
            The names of missing statistics.

        Raises:
            StateVersionError: this release cannot read the version.
            UnlikeInputsError: a statistic had other inputs.
            UnlikeStateError: the ids are of the other kind.
            DamagedStateError: it is not the output of `dump`.
        """
        restored = codec.restore_content(self._content, data, cells, empty_unlike=empty_unlike)
        self.ids, self._events, missing, self.input_digests = restored
        self.users = None
        for name, statistic in self.statistics.items():
            self.users = self.plan.by_name[name].user_ids(statistic) or self.users
        self.version = next_version()
        return missing

    def set_statistics(
        self, statistics: Mapping[str, Statistic], events: Relation | None = None
    ) -> None:
        """Replace the content by other statistics of the same plan, and the events if given."""
        self._statistics, self._flushed = dict(statistics), 0
        self._events = self._events if events is None else events

    def _count_pending(self) -> None:
        """Count the events that wait, those of a kind together."""
        if not self._pending:
            return
        pending, self._pending, self._lists = self._pending, [], 0
        by_form: defaultdict[tuple[object, ...], list[CountedEvents]] = defaultdict(list)
        for events in pending:
            by_form[_form(events)].append(events)
        for several in by_form.values():
            self._count_rows(_joined(several))
        if self._size > self._rows + _MOST_ROWS:
            self._reduce()

    @property
    def _size(self) -> int:
        """Number of rows of all statistics."""
        relations = (each.relations.values() for each in self._statistics.values())
        return sum(relation.size for relation in chain.from_iterable(relations))

    def _reduce(self) -> None:
        """Reduce the cells that are too large."""
        for statistic in self._statistics.values():
            statistic.reduce()
        self._rows = self._size

    def _count_rows(self, events: CountedEvents) -> None:
        """Add the rows of events to every statistic."""
        self._events.add([events.cells], [np.ones_like(events.cells)])
        plan = self.plan
        counting = CountedBatch(events, self.context, plan.formulas, plan.searches)
        for name, spec in plan.later:
            with own_errors(spec, "count"):
                spec.count(self._statistics[name], counting)

    @cached_property
    def _parts_read(self) -> Mapping[tuple[str, int | None], ItemGroup | None]:
        """Part of each list that a metric of events reads -> its items; None for the whole list."""
        parts = (metric.part_read for metric in self.plan.formulas)
        return {part: self.context.group(part[0]) if part[0] else None for part in parts}

    @cached_property
    def _formulas(self) -> Sequence[tuple[Formula, tuple[str, int | None]]]:
        """The formula of each metric of events, and the part of each list that it reads."""
        metrics = self.plan.formulas
        return [(formula(metric, self.context), metric.part_read) for metric in metrics]

    def _mapped(self, change: Callable[[Relation], Relation]) -> Table:
        self.flush()
        statistics = {name: statistic.mapped(change) for name, statistic in self.statistics.items()}
        duplicate = Table(self.plan, self.context, self.items, self.ids, statistics)
        duplicate.users, duplicate.input_digests, duplicate._events = (
            self.users,
            self.input_digests,
            change(self._events),
        )
        return duplicate

    def _new_statistics(self) -> dict[str, Statistic]:
        statistics = {}
        for name, spec in self.plan.by_name.items():
            with own_errors(spec, "make"):
                statistics[name] = spec.make(self.items, self.context)
        return statistics

    @property
    def _content(self) -> codec.TableContent:
        return codec.TableContent(
            self.ids,
            self.items,
            self.events,
            self.statistics,
            self.plan.by_name,
            self.context,
            self.input_digests,
        )
