"""Sums of values by event day and user group, for intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import FloatArray, IntArray, distinct, grouped, sums
from streameval.statistics.exact import approximate
from streameval.statistics.intervals import UNIT, GroupSums
from streameval.statistics.relation import Columns, Relation, Shape
from streameval.statistics.statistic import Cells, Statistic
from streameval.statistics.terms import EventsOfUsers, ListsOfUsers, Owners, Summed
from streameval.statistics.users import Seen, Users, Viewers
from streameval.statistics.vocabulary import Items

MOST_DAYS: Final = 90
"""Days of a cell that are kept apart; what is older is summed with the oldest of them."""

_MOST_WAITING: Final = 65_536


class GroupsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of sums by user group; unlike ones do not merge."""

    groups: int = 256
    daily: bool = True
    metrics: tuple[str, ...] = ()

    def within(self, other: GroupsOptions) -> bool:
        """Whether sums that are kept so follow from those of another one: fewer groups nest."""
        finer = other.groups >= self.groups and other.daily >= self.daily
        return finer and self.metrics == other.metrics


class Groups(Statistic):
    """Numerators and denominators of means, by event day and group of users.

    Each list's value is rounded once, or summed exactly where it has no bounds, so that the content
    is a function of the multiset of lists alone. A list without a group is in no sum.

    Relations:
        sums: (cell, day, group) -> the numerator of each metric in UNIT, then the denominator of
            each: one row for all metrics, for the keys of a row each would weigh more.
        exact: (cell, day, group, metric, exponent) -> three integers, whose exact sum is added to
            the numerator.
        lists: (cell, day, 1 where the list names no user) -> lists.

    Attributes:
        users: takes who saw the lists that are summed.
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "sums": Shape(keys=3),
        "exact": Shape(5, counts=3),
        "lists": Shape(keys=3),
    }
    options: GroupsOptions

    def __init__(self, options: GroupsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.relations["sums"] = Relation(Shape(keys=3, counts=2 * len(options.metrics)))
        self._sources: list[ListsOfUsers | EventsOfUsers] = []
        self._viewers = Viewers()
        self.users: Users | None = None
        self._view: tuple[list[Any], dict[int, _Rows]] | None = None

    def of_lists(self, metrics: Sequence[Summed]) -> ListsOfUsers:
        """The receiver of the outcome of each list, for the metrics that are functions of it."""
        self._sources.append(source := ListsOfUsers(metrics))
        return source

    def of_events(self, column: int, *, bounded: bool) -> EventsOfUsers:
        """What takes the value of each event, for one metric."""
        self._sources.append(source := EventsOfUsers(column, bounded=bounded))
        return source

    @property
    def is_full(self) -> bool:
        """Whether so many lists wait that they should be folded before others come."""
        return self._viewers.waiting >= _MOST_WAITING

    def begin(self, batch: Batch | CodedBatch, cells: Cells, times: IntArray | None) -> None:
        """These lists come next; every source takes all of them in order.

        `times`: event time of each, microseconds; by default as the batch says.
        """
        for source in self._sources:
            source.first = self._viewers.waiting
        self._viewers.take(batch, cells, times)

    def fold(self) -> None:
        """Move what is pending into the relations, and sum up the oldest days."""
        seen = self._viewers.seen()
        if seen is not None:
            if self.users is not None:
                who = slice(None) if seen.named.all() else seen.named
                self.users.add(seen.cells[who], seen.hashes[who])
            self.relations["lists"].add(*_lists(seen))
            owners = Owners(seen, self.options.groups, len(self.options.metrics))
            for source in self._sources:
                for part in source.taken():
                    owners.add(part)
            self._add(owners.keys, owners.sums)
            for keys, counts in owners.exact:
                self.relations["exact"].add(keys, counts)
        self._sum_up_days()

    def merge(self, *others: Self) -> None:
        """Add what others summed, which may have more groups, or days."""
        for other in others:
            if not self.options.within(other.options):
                raise UnlikeStateError("groups", self.options, other.options)
            other.fold()
        for name, relation in self.relations.items():
            relation.merge(*(self._of(other, name) for other in others))
        self.fold()

    def by_day(self, bits: int) -> dict[int, Self]:
        """By event day; cells by their lower bits, those that meet are summed."""
        self.fold()
        found: dict[int, Self] = {}
        for name, relation in self.relations.items():
            cells, days, *columns = (each.astype(np.int64) for each in relation.columns)
            cells &= (1 << bits) - 1
            for day in distinct(days).tolist():
                own = found.setdefault(day, self.empty()).relations[name]
                here = days == day
                own.replace([each[here] for each in (cells, days, *columns)])
        return found

    def dated(self, day: int) -> Self:
        """All of it on one day."""

        def moved(relation: Relation) -> Relation:
            cells, days, *rest = relation.columns
            return relation.like([cells, np.full(days.size, day), *rest])

        return self.made(moved)

    @property
    def reduced(self) -> bool:
        """Whether the oldest days of any cell may be summed, so that they cannot be taken away."""
        self.fold()
        return any(days.size >= MOST_DAYS for _, days in self._days())

    def of(self, metric: str, cells: IntArray) -> list[GroupSums]:
        """The sums of one metric in each of these cells."""
        return [self.summed(metric, [cell]) for cell in cells.tolist()]

    def summed(self, metric: str, cells: Sequence[int]) -> GroupSums:
        """The sums of one metric over all of these cells."""
        self.fold()
        column = self.options.metrics.index(metric)
        rows = [self._rows(cell) for cell in cells]
        days = distinct(np.concatenate([np.zeros(0, np.int64), *(each.days for each in rows)]))
        days = days[-MOST_DAYS:]
        shape = days.size, self.options.groups
        sums = np.zeros((2, days.size * self.options.groups), np.int64)
        for each in rows:
            each.add_to(sums, column, len(self.options.metrics), days)
        found: FloatArray = (sums[0] * UNIT).reshape(shape)
        if self.relations["exact"].size:
            _, (day, group, kind, *limbed) = self.relations["exact"].of(np.array(cells))
            here = kind == column
            row = np.searchsorted(days, day[here])
            (row, group, exponent), parts = grouped(
                [row, group[here], limbed[0][here]], [each[here] for each in limbed[1:]]
            )
            np.add.at(found, (row, group), approximate(exponent, parts))
        counts: IntArray = sums[1].reshape(shape)
        some = counts.any(axis=1)
        if some.all():
            return GroupSums(days, found, counts)
        return GroupSums(days[some], found[some], counts[some])

    def lists(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """How many lists each of these cells counted, and how many of them name no user."""
        self.fold()
        owner, (_, anonymous, lists) = self.relations["lists"].of(cells)
        return sums(owner, lists, cells.size), sums(owner, lists * anonymous, cells.size)

    def restore(
        self, saved: Sequence[Sequence[Ext]], metrics: Sequence[str], cells: IntArray
    ) -> None:
        """Take the place of the content by saved relations, which may be of other metrics.

        `metrics`: that they were saved of, in ascending order. `cells`: the number here of each
        cell that was written.

        Raises:
            ValueError: they are not what was saved.
        """
        twin = Groups(msgspec.structs.replace(self.options, metrics=tuple(metrics)), self.items)
        pairs = zip([*twin.relations], saved, strict=True)
        found = {
            name: twin.relations[name].restored(columns, cells, np.zeros(0, np.int64))
            for name, columns in pairs
        }
        self.relations["lists"] = found["lists"]
        summed, exact = found["sums"].columns, found["exact"].columns
        place = {metric: at for at, metric in enumerate(metrics)}
        *keys, none = *summed[:3], np.zeros_like(summed[0])
        counts = [
            summed[3 + half * len(place) + place[metric]] if metric in place else none
            for half in (0, 1)
            for metric in self.options.metrics
        ]
        self._add(keys, counts)
        known = {metric: at for at, metric in enumerate(self.options.metrics)}
        goals = np.array([*(known.get(metric, -1) for metric in metrics), -1])
        kind = goals[exact[3]]
        kept = [each[kind >= 0] for each in (*exact[:3], kind, *exact[4:])]
        self.relations["exact"].add(kept[:5], kept[5:])

    def _add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add rows, but for those that say nothing: a list may be left out of every mean."""
        below = counts[len(self.options.metrics) :]
        if below:
            some = np.logical_or.reduce([each > 0 for each in below])
            self.relations["sums"].add(
                [each[some] for each in keys], [each[some] for each in counts]
            )

    def _of(self, other: Self, name: str) -> Relation:
        """A relation of another one, with the groups and days of this one."""
        relation = other.relations[name]
        if self.options == other.options:
            return relation
        cells, days, *columns = (each.astype(np.int64) for each in relation.columns)
        if not self.options.daily:
            days[:] = 0
        if relation.shape != self.shapes["lists"] and columns:
            columns[0] &= self.options.groups - 1
        return relation.like([cells, days, *columns])

    def _days(self) -> list[tuple[int, IntArray]]:
        cells, days, *_ = self.relations["lists"].columns
        new = np.ones(cells.size, np.bool_)
        new[1:] = (cells[1:] != cells[:-1]) | (days[1:] != days[:-1])
        cells, days = cells[new], days[new].astype(np.int64)
        edges = np.flatnonzero(np.diff(cells, prepend=-1, append=-1)).tolist()
        return [(int(cells[start]), days[start:stop]) for start, stop in pairwise(edges)]

    def _sum_up_days(self) -> None:
        if self.relations["lists"].size <= MOST_DAYS:
            return
        goals = {cell: each[-MOST_DAYS] for cell, each in self._days() if each.size > MOST_DAYS}
        if goals:
            for name, each in self.relations.items():
                self.relations[name] = _from_day(each, goals)

    def _rows(self, cell: int) -> _Rows:
        versions = [(each, each.version) for each in self.relations.values()]
        if self._view is None or self._view[0] != versions:
            self._view = versions, {}
        known = self._view[1]
        if cell not in known:
            known[cell] = _Rows(self, cell)
        return known[cell]


class _Rows:
    """The rows of one cell."""

    def __init__(self, groups: Groups, cell: int) -> None:
        self._width = groups.options.groups
        _, (days, *_) = groups.relations["lists"].of(np.array([cell]))
        self.days = distinct(days)
        self._parts: list[tuple[IntArray, Columns]] = []
        for day, group, *counts in groups.relations["sums"].parts_of(cell):
            # The days of a part ascend.
            inner = np.flatnonzero(day[1:] != day[:-1]) + 1
            edges = np.concatenate(([0], inner, [day.size]))
            rows = np.searchsorted(self.days, day[edges[:-1]])
            self._parts.append((np.repeat(rows * self._width, np.diff(edges)) + group, counts))

    def add_to(self, sums: IntArray, column: int, metrics: int, days: IntArray) -> None:
        """Add the numerators and denominators of a metric by day and group.

        `days`: of the sums; what is older is summed with the first.
        """
        same = np.array_equal(days, self.days)
        rows = np.searchsorted(days, self.days) * self._width
        for at, counts in self._parts:
            for half, counted in enumerate((counts[column], counts[metrics + column])):
                if same and at.size == sums[half].size:
                    sums[half] += counted
                elif same:
                    sums[half][at] += counted
                else:
                    row, group = np.divmod(at, self._width)
                    np.add.at(sums[half], rows[row] + group, counted.astype(np.int64))


def _lists(seen: Seen) -> tuple[list[IntArray], list[IntArray]]:
    firsts = [seen.cells[:1], seen.days[:1], (~seen.named[:1]).astype(np.int64)]
    if all((each == each[0]).all() for each in (seen.cells, seen.days, seen.named)):
        # As it mostly is.
        return firsts, [np.array([seen.cells.size])]
    return [seen.cells, seen.days, (~seen.named).astype(np.int64)], [np.ones_like(seen.cells)]


def _from_day(relation: Relation, firsts: Mapping[int, int]) -> Relation:
    """The same with no day of a cell before its first one."""
    cells, days, *rest = (each.astype(np.int64) for each in relation.columns)
    for cell, first in firsts.items():
        days = np.where(cells == cell, np.maximum(days, first), days)
    return relation.like([cells, days, *rest])
