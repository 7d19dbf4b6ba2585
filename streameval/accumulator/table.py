"""The statistics of many cells, counted, merged and saved together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from streameval.accumulator.codec import Content, Made, dumped, one_kind, restored
from streameval.accumulator.formulas import (
    Formula,
    bounded,
    counting,
    formula,
    needed_inputs,
    of_event,
    summed,
    values_of,
)
from streameval.accumulator.plan import Plan, hits_options, name_of
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.errors import UnlikeStateError
from streameval.events import Batch, Id, Interactions
from streameval.events.ids import IdKind
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import IntArray, distinct
from streameval.statistics.distributions import Values, ValuesOptions
from streameval.statistics.exposures import ExposuresOptions, ItemsShown
from streameval.statistics.groups import Groups, GroupsOptions
from streameval.statistics.hits import Hits, Listener
from streameval.statistics.lists import GradedLists, Lists
from streameval.statistics.pairings import ItemPairings, PairingsOptions
from streameval.statistics.profiles import HitsOptions
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.scores import (
    RankSumsOfLists,
    RankSumsOptions,
    ScoredItems,
    ScoresOptions,
)
from streameval.statistics.statistic import Cells, Statistic
from streameval.statistics.terms import EventCollector, ListCollector
from streameval.statistics.users import Users, UsersOptions
from streameval.statistics.vocabulary import Items

_VERSIONS: Final = itertools.count(1)
_KINDS: Final[Mapping[type, type[Statistic]]] = {
    HitsOptions: Hits,
    ExposuresOptions: ItemsShown,
    PairingsOptions: ItemPairings,
    ScoresOptions: ScoredItems,
    RankSumsOptions: RankSumsOfLists,
}
_GROUPS: Final = "groups:"
_ALONE: Final = 256
"""With so many events of each cell in a batch, each cell is counted by itself: it is quicker."""

_MOST_WAITING: Final = 256
"""Batches whose cells wait to be counted."""

_Kept: TypeAlias = tuple[Metric, Values]

RowOf: TypeAlias = Callable[[Sequence[Id], Interactions], Any]


class _Ways(NamedTuple):
    """How a table counts.

    Attributes:
        told: statistics that take lists in their order, of any cells.
    """

    told: list[Statistic]
    counting: list[Statistic]
    formulas: list[tuple[Formula, Values, EventCollector | None]]


class Table:
    """One relation of integers per statistic: (cell, key columns...) -> counts.

    A cell is an integer from 0 up to 2^62 that its user chooses: a slice of a pane, for example.
    An Accumulator has the one cell 0. The content is a function of what was counted in each cell.

    `items`: a vocabulary that it shares with others, so that adding them needs no translation.
    `ids`: the kind of ids counted; None where none has decided yet.

    Attributes:
        users: the kind of the users' ids; None where none has decided yet.
        groups: sums by user group, where the plan has any; after `fold`.
        audience: the users of each cell, where the plan has them; after `fold`.
        events: (cell) -> events; to be read only, after `fold`.
        statistics: by name, in the order of the names; likewise.
        version: another number, which nothing in this process has had, after every change.
    """

    def __init__(
        self,
        plan: Plan,
        context: Context,
        items: Items | None = None,
        ids: IdKind | None = None,
    ) -> None:
        self.plan = plan
        self.context = context
        self.ids = ids
        self.users: IdKind | None = None
        self.items = Items() if items is None else items
        self.version = next(_VERSIONS)
        self.events = Relation(Shape(keys=1))
        self._counted: dict[int, int] = {}
        self._where: list[IntArray] = []
        made: dict[str, Statistic] = {
            name_of(options): _KINDS[type(options)](options, self.items) for options in plan.needs
        }
        made |= {name: Values(ValuesOptions(), self.items) for name in plan.valued}
        if plan.groups:
            texts = tuple(metric.per_list for metric in plan.grouped)
            options = GroupsOptions(groups=plan.groups, daily=plan.daily, metrics=texts)
            made[f"{_GROUPS}{plan.groups}"] = Groups(options, self.items)
        if plan.users:
            made["users"] = Users(UsersOptions(), self.items)
        self.become(dict(sorted(made.items())))

    def count(
        self, batch: Batch | CodedBatch, cells: Cells = 0, times: IntArray | None = None
    ) -> None:
        """Count events.

        `cells`: one for all of them, or the own of each; shape (events,). `times`: event time of
        each, microseconds since the epoch; by default as the batch says.
        """
        if not len(batch):
            return
        ways = self._ways
        if self.groups is not None:
            if self.groups.is_full:
                self.fold()
            # Lists must come in their order, across cells.
            self.groups.begin(batch, cells, times)
            _count(ways.told, batch, cells)
        self._count_lists(len(batch), cells)
        _count_by_cell(ways.counting, batch, cells)
        if ways.formulas:
            self._count_values(batch.batch if isinstance(batch, CodedBatch) else batch, cells)
        self.version = next(_VERSIONS)

    @property
    def row_of(self) -> RowOf | None:
        """What `count_rows` takes of recommendations and interactions.

        None where more of an event is read, or a formula that can fail must do so on its own event.
        """
        if self.plan.events or self.plan.groups or not all(map(_by_lists, self.plan.needs)):
            return None
        own = [each.row_of for each in self._counting_lists]
        return own[0] if len(own) == 1 else lambda *of_list: [row_of(*of_list) for row_of in own]

    def count_rows(self, rows: list[Any]) -> None:
        """Count lists in cell 0; `row_of` gave each."""
        counting = self._counting_lists
        columns = [rows] if len(counting) == 1 else zip(*rows, strict=True)
        for statistic, column in zip(counting, columns, strict=True):
            statistic.count_rows(column)
        self._count_lists(len(rows), 0)
        self.version = next(_VERSIONS)

    def fold(self) -> None:
        """Move what is pending into the relations; changes no content."""
        self._fold_counts()
        # Hits first: what is pending there is on its way to the values of lists, too.
        for statistic in sorted(self.statistics.values(), key=_follows):
            statistic.fold()

    @property
    def waiting(self) -> int:
        """Rows of many cells that the next `fold` moves."""
        return sum(statistic.waiting for statistic in self.statistics.values())

    @property
    def cells(self) -> IntArray:
        """The cells that counted any event, ascending."""
        self.fold()
        return self.events.cells

    def lists(self, cells: IntArray) -> IntArray:
        """How many events each cell counted."""
        self.fold()
        return self.events.value(cells)

    @property
    def reduced(self) -> bool:
        """Whether any cell was thinned or binned, so that it cannot be subtracted."""
        self.fold()
        return any(statistic.reduced for statistic in self.statistics.values())

    def empty(self, plan: Plan | None = None) -> Table:
        """One of the same kind, or plan, with the same vocabulary, that has counted nothing."""
        return Table(plan or self.plan, self.context, self.items, self.ids)

    def copy(self) -> Table:
        """An independent one with the same content; columns are shared, for they never change."""
        return self._made(lambda relation: relation.copy())

    def select(self, cells: IntArray) -> Table:
        """Only these cells, ascending."""
        return self._made(lambda relation: relation.selected(cells))

    def distribute(self, bits: int, goals: Mapping[int, Table]) -> None:
        """Add its cells, by their lower bits, to the tables that their upper bits say.

        Args:
            bits: of a cell that stay.
            goals: tables of one vocabulary, which may keep less by user; maybe one under several
                numbers.
        """
        self.fold()
        for upper, lists in self.events.split(bits):
            goals[upper].events.merge(lists)
        for name, statistic in self.statistics.items():
            own = {at: goal.counterpart(name) for at, goal in goals.items()}
            statistic.distribute(bits, {at: each for at, each in own.items() if each is not None})
        for goal in goals.values():
            goal.ids = one_kind("ids", self.ids, goal.ids)
            goal.users = one_kind("users", self.users, goal.users)
            goal.version = next(_VERSIONS)

    def counterpart(self, name: str) -> Statistic | None:
        """What a statistic of this name in another table is here; there may be fewer groups."""
        return self.groups if name.startswith(_GROUPS) else self.statistics.get(name)

    def add(self, *others: Table) -> None:
        """Add what others counted, which stay as they are; many at once are quicker.

        Args:
            others: of the same plan, or with more by user.

        Raises:
            UnlikeStateError: one keeps other statistics, or counted ids of the other kind.
        """
        ids, users = self.ids, self.users
        for other in others:
            if not self.plan.within(other.plan):
                raise UnlikeStateError("statistics", self.plan.names, other.plan.names)
            ids, users = one_kind("ids", ids, other.ids), one_kind("users", users, other.users)
            other.fold()
        self.ids, self.users = ids, users
        self.fold()
        self.events.merge(*(other.events for other in others))
        for name, statistic in self.statistics.items():
            beside: list[Any] = [other.counterpart(name) for other in others]
            statistic.merge(*beside)
        self.version = next(_VERSIONS)

    def subtract(self, other: Table) -> None:
        """Take away what was added, where neither is `reduced`: exact, for it is integers."""
        self.fold()
        other.fold()
        self.events.subtract(other.events)
        for name, statistic in self.statistics.items():
            beside: Any = other.counterpart(name)
            statistic.subtract(beside)
        self.version = next(_VERSIONS)

    def rename(self, names: Mapping[int, int]) -> None:
        """Cells get other numbers; those that meet are summed."""
        self.fold()
        self.events = self.events.renamed(names)
        for statistic in self.statistics.values():
            statistic.rename(names)
        self.version = next(_VERSIONS)

    def dump(self, order: Sequence[int]) -> Iterator[bytes]:
        """These cells as one msgpack value, in pieces; equal content gives equal bytes.

        Cells are written as 0, 1, 2, ... in this order, items by their names. Nothing may be
        counted until the last piece is there: a copy can be dumped beside other work.
        """
        self.fold()
        return dumped(self._content, order)

    def load(self, data: bytes, cells: Sequence[int]) -> frozenset[str]:
        """Fill an empty table with the parts of the output of `dump` that it needs.

        `cells`: the number here of each cell that was written.

        Returns:
            The names of the statistics that were not there.

        Raises:
            StateVersionError: this release does not know the version.
            UnlikeStateError: the values of a statistic were made with other inputs, or ids of the
                other kind were counted.
            DamagedStateError: it is not the output of `dump`.
        """
        self.ids, self.events, missing = restored(self._content, data, cells)
        self.users = self._kind_of_users()
        self.version = next(_VERSIONS)
        return missing

    def become(self, statistics: dict[str, Statistic]) -> None:
        """Take the place of the content by other statistics of the same plan."""
        self.statistics = statistics
        self.groups = next((each for each in statistics.values() if isinstance(each, Groups)), None)
        self.audience = cast("Users | None", statistics.get("users"))
        if self.groups is not None:
            self.groups.users = self.audience
        # A table of what was counted elsewhere counts nothing itself.
        self.__dict__.pop("_ways", None)

    @property
    def _counting_lists(self) -> list[Hits | ItemsShown]:
        return [each for each in self._ways.counting if isinstance(each, Hits | ItemsShown)]

    @cached_property
    def _ways(self) -> _Ways:
        ways = _Ways([], [], [])
        for metric in self.plan.events:
            values = self._values(f"events:{metric.per_list}")
            told = self._events_of_users(metric)
            ways.formulas.append((formula(metric, self.context), values, told))
        for statistic in self.statistics.values():
            if isinstance(statistic, Hits):
                statistic.listener = self._listener(statistic.options)
                statistic.collector = self._lists_of_users(statistic.options)
                (ways.counting if statistic.collector is None else ways.told).append(statistic)
            elif not isinstance(statistic, Values | Groups | Users):
                ways.counting.append(statistic)
        return ways

    def _values(self, name: str) -> Values:
        return cast("Values", self.statistics[name])

    def _listener(self, options: HitsOptions) -> Listener | None:
        def kept(kind: str, metrics: Sequence[Metric]) -> list[_Kept]:
            reading = [m for m in metrics if hits_options(m, self.plan.depth) == options]
            return [
                (m, self._values(f"{kind}:{m.text if kind == 'graded' else m.per_list}"))
                for m in reading
            ]

        graded, values = kept("graded", self.plan.graded), kept("values", self.plan.values)
        # It must not know this object, which knows it: a ring would wait for the garbage collector.
        return partial(_follow, graded, values) if graded or values else None

    def _lists_of_users(self, options: HitsOptions) -> ListCollector | None:
        if self.groups is None:
            return None
        reading = [
            summed(metric, column, self.context)
            for column, metric in enumerate(self.plan.grouped)
            if self.plan.need(metric) == options
        ]
        return self.groups.collect_lists(reading) if reading else None

    def _events_of_users(self, metric: Metric) -> EventCollector | None:
        texts = [each.per_list for each in self.plan.grouped]
        if self.groups is None or metric.per_list not in texts:
            return None
        return self.groups.collect_events(texts.index(metric.per_list), bounded=bounded(metric))

    def _count_lists(self, lists: int, cells: Cells) -> None:
        if isinstance(cells, int):
            self._counted[cells] = self._counted.get(cells, 0) + lists
        else:
            self._where.append(cells)
            if len(self._where) >= _MOST_WAITING:
                self._fold_counts()

    def _fold_counts(self) -> None:
        if self._counted:
            cells, counts = np.array([*self._counted.items()], np.int64).T
            self.events.add([cells], [counts])
            self._counted.clear()
        if self._where:
            cells = np.concatenate(self._where)
            self._where.clear()
            self.events.add([cells], [np.ones_like(cells)])

    def _count_values(self, batch: Batch, cells: Cells) -> None:
        where = np.full(len(batch), cells) if isinstance(cells, int) else cells
        for _, values, _ in self._ways.formulas:
            values.add_lists(where)
        for cell, event in zip(where.tolist(), batch.events(), strict=True):
            for value, values, told in self._ways.formulas:
                found = value(event)
                if told is not None:
                    told.take(*of_event(found))
                values.enqueue(cell, found)

    def _made(self, change: Callable[[Relation], Relation]) -> Table:
        self.fold()
        twin = object.__new__(Table)
        twin.plan, twin.context, twin.items = self.plan, self.context, self.items
        twin.ids, twin.users = self.ids, self.users
        twin._counted, twin._where, twin.version = {}, [], next(_VERSIONS)
        twin.events = change(self.events)
        twin.become({name: each.mapped(change) for name, each in self.statistics.items()})
        return twin

    @property
    def _content(self) -> Content:
        made_with = {name: self._made_with(name) for name in self.statistics}
        return Content(self.ids, self.items, self.events, self.statistics, made_with)

    def _made_with(self, name: str) -> Made:
        if self.groups is not None and self.statistics[name] is self.groups:
            return dict.fromkeys(self.groups.options.metrics)
        for metric in self.plan.events:
            if name == f"events:{metric.per_list}":
                identity = _identity(self.context)
                return {need: identity[need] for need in sorted(needed_inputs(metric))}
        return {}

    def _kind_of_users(self) -> IdKind | None:
        """What the users counted are, by the first of them."""
        for each in self.statistics.values():
            if isinstance(each, ItemsShown) and each.options.of != "items":
                (user,) = self.items.named(each.relations["shown"].columns[1][:1]) or (None,)
                if user is not None:
                    return "text" if isinstance(user, str) else "integer"
        return None


def _count_by_cell(counting: Sequence[Statistic], batch: Batch | CodedBatch, cells: Cells) -> None:
    if isinstance(cells, np.ndarray) and isinstance(batch, Batch) and len(batch) >= _ALONE:
        known = distinct(cells)
        if known.size * _ALONE <= len(batch):
            for cell in known.tolist():
                own = batch.take(np.flatnonzero(cells == cell).tolist())
                _count(counting, own, cell)
            return
    _count(counting, batch, cells)


def _count(counting: Sequence[Statistic], batch: Batch | CodedBatch, cells: Cells) -> None:
    for statistic in counting:
        if isinstance(batch, CodedBatch):
            statistic.count_coded(batch, cells)
        else:
            statistic.count(batch, cells)


def _by_lists(options: object) -> bool:
    if isinstance(options, HitsOptions):
        return not options.type
    return isinstance(options, ExposuresOptions) and options.of == "items"


def _follows(statistic: Statistic) -> bool:
    return not isinstance(statistic, Hits)


def _follow(graded: Sequence[_Kept], values: Sequence[_Kept], lists: Lists) -> None:
    if isinstance(lists, GradedLists):
        for metric, kept in graded:
            kept.add(lists.cell, values_of(metric, lists), counting(metric, lists))
    for metric, kept in values:
        kept.add(lists.cell, values_of(metric, lists), counting(metric, lists))


@lru_cache(maxsize=4)
def _identity(context: Context) -> Made:
    # A digest of a whole catalogue, asked for with every slice that is saved.
    return context.identity
