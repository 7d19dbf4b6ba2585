"""Sums of values by event day and user group, for intervals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final, Self, TypeVar

import msgspec
import numpy as np

from streameval.events.saved_states import unlike
from streameval.statistics.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    distinct,
    group_sum,
    place_values,
    sums,
)
from streameval.statistics.exact import approximate
from streameval.statistics.intervals import UNIT, GroupSums
from streameval.statistics.relation import Relation, RelationColumns, Shape
from streameval.statistics.statistic import Statistic
from streameval.statistics.terms import (
    Terms,
    add_sums,
    lists_with_users,
    restore_sums,
    slot_totals,
    sums_of,
)
from streameval.statistics.users import ListUsers, user_groups
from streameval.statistics.vocabulary import Items

T = TypeVar("T")

_DENSE: Final = 8
"""Owners for each list up to which all possible ones are numbered, instead of sorted."""

MOST_DAYS: Final = 90
"""Event days kept per cell; older days are added to the oldest of them."""


class GroupsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of sums by user group.

    Attributes:
        groups: number of user groups, a power of 2.
        daily: whether sums are kept by event day.
        metrics: `Metric.per_list` of each metric.
    """

    groups: int = 256
    daily: bool = True
    metrics: tuple[str, ...] = ()

    def within(self, other: GroupsOptions) -> bool:
        """True if the sums of `other` can be merged into sums with these options.

        Groups are the lower bits of a hash, so many groups can be merged into fewer.
        """
        finer = other.groups >= self.groups and other.daily >= self.daily
        return finer and self.metrics == other.metrics


class Groups(Statistic):
    """Numerators and denominators of means, by event day and user group.

    The value of a list is rounded once to UNIT, or summed exactly if the metric is unbounded, so
    the content depends only on the multiset of lists. A list without a group is in no sum.

    Relations:
        sums: (cell, day, group) -> the numerator of each metric in UNIT, then the denominator of
            each. All metrics share a row, because keys per metric would take more space.
        exact: (cell, day, group, metric, exponent) -> three integers, the exact sum of which is
            added to the numerator.
        lists: (cell, day, 1 for lists without a user) -> lists.
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "sums": Shape(keys=3),
        "exact": Shape(5, counts=3),
        "lists": Shape(keys=3),
    }
    options: GroupsOptions

    def __init__(self, options: GroupsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.relations["sums"] = sums_of(self.shapes["sums"], options.metrics)
        self._read: tuple[list[object], dict[Hashable, Any]] = [], {}

    def reduce(self) -> None:
        """Merge the oldest days."""
        if self.relations["lists"].size <= MOST_DAYS:
            return
        goals = {cell: days[-MOST_DAYS] for cell, days in self._days() if days.size > MOST_DAYS}
        if goals:
            for name, relation in self.relations.items():
                self.relations[name] = _from_day(relation, goals)

    def take(self, users: ListUsers, terms: Sequence[Terms]) -> None:
        """Add lists, with the terms of each metric."""
        groups, width = user_groups(users.hashes, self.options.groups), self.options.groups
        nameless = (~users.named).astype(np.int64)
        keys = [users.cells, users.days, nameless]
        self.relations["lists"].add(keys, [np.ones_like(users.cells)])
        # The slot of a list is the index of its cell, day and group.
        distinct_cells, index = place_values(users.cells)
        first = int(users.days.min())
        span = int(users.days.max()) - first + 1
        slot = (index * span + (users.days - first)) * width + groups
        slots = np.arange(min(distinct_cells.size * span * width, _DENSE * slot.size + width))
        if slots.size < distinct_cells.size * span * width:
            slots, slot = np.unique(slot, return_inverse=True)
        index, rest = np.divmod(slots, span * width)
        keys = [distinct_cells[index], rest // width + first, rest % width]
        slot = np.where(users.grouped, slot, slots.size)
        totals, exact = slot_totals(slots.size, slot, terms, self.options.metrics)
        add_sums(self.relations["sums"], keys, totals)
        for (of_exact, *others), counts in exact:
            self.relations["exact"].add([*(key[of_exact] for key in keys), *others], counts)

    restore = restore_sums

    def merge(self, *others: Self) -> None:
        """Add the sums of others, which may have more groups or days."""
        for other in others:
            if not self.options.within(other.options):
                raise unlike("groups", self.options, other.options)
            other.reduce()
        for name, relation in self.relations.items():
            relation.merge(*(self._of(other, name) for other in others))
        self.reduce()

    def on_day(self, day: int) -> Self:
        """A copy with everything on one day."""

        def on_day(relation: Relation) -> Relation:
            cells, days, *rest = relation.columns
            return relation.like([cells, np.full(days.size, day), *rest])

        return self.mapped(on_day)

    def by_day(self) -> Iterator[tuple[int, Self, Relation]]:
        """Each event day, ascending, with its sums, and (cell) -> lists in them."""
        self.reduce()
        days = distinct(self.relations["lists"].columns[1])
        for day in days.tolist():
            part = self if days.size == 1 else self.mapped(partial(_of_day, day))
            cells, *_, counts = part.relations["lists"].columns
            lists = Relation(Shape(keys=1))
            lists.add([cells], [counts])
            yield day, part, lists

    @property
    def reduced(self) -> bool:
        """True if any cell may have merged its oldest days, so that it cannot be subtracted."""
        return any(days.size >= MOST_DAYS for _, days in self._days())

    def of(self, metric: str, cells: IntArray) -> list[GroupSums]:
        """The sums of one metric for each of these cells."""
        return [self.summed(metric, [cell]) for cell in cells.tolist()]

    def summed(self, metric: str, cells: Sequence[int], without: Sequence[int] = ()) -> GroupSums:
        """The sums of one metric over all of these cells, but those of `without`."""
        self.reduce()
        column = self.options.metrics.index(metric)
        if not without:
            return self._sums(column, cells, *self._integers(column, cells))
        # If slices are left out in turn, the sums of all are added once.
        key = column, tuple(cells)
        days, of_all = self._cached(key, partial(self._integers, column, cells))
        rest = sorted({*cells} - {*without})
        sums = self._sums(column, rest, days, of_all - self._integers(column, without, days)[1])
        # Else the oldest of them may hold days that those of the rest have apart.
        if days.size < MOST_DAYS or sums.days.size == days.size:
            return sums
        return self.summed(metric, rest)

    def _integers(
        self, column: int, cells: Sequence[int], days: IntArray | None = None
    ) -> tuple[IntArray, IntArray]:
        """Days, and numerators in UNIT and denominators by day and group."""
        rows = [self._cached(cell, partial(self._rows, cell)) for cell in cells]
        if days is None:
            of_rows = [np.zeros(0, np.int64), *(days_of_cell for days_of_cell, _ in rows)]
            days = distinct(np.concatenate(of_rows))[-MOST_DAYS:]
        width, metrics = self.options.groups, len(self.options.metrics)
        sums = np.zeros((2, days.size * width), np.int64)
        for days_of_cell, parts in rows:
            same = np.array_equal(days, days_of_cell)
            starts = np.searchsorted(days, days_of_cell) * width
            for at, counts in parts:
                for half, counted in zip(sums, counts[column::metrics], strict=True):
                    if same:
                        half[at] += counted
                    else:
                        # Days before the first are added to it.
                        row, group = np.divmod(at, width)
                        np.add.at(half, starts[row] + group, counted.astype(np.int64))
        return days, sums

    def _rows(self, cell: int) -> tuple[IntArray, list[tuple[IntArray, RelationColumns]]]:
        """The days of a cell; parts of its rows: day's index times groups + group, and counts."""
        _, (days, *_) = self.relations["lists"].of(np.array([cell]))
        days = distinct(days)
        parts = []
        for day, group, *counts in self.relations["sums"].parts_of(cell):
            # The days of a part ascend.
            inner = np.flatnonzero(day[1:] != day[:-1]) + 1
            edges = np.concatenate(([0], inner, [day.size]))
            rows = np.searchsorted(days, day[edges[:-1]]) * self.options.groups
            parts.append((np.repeat(rows, np.diff(edges)) + group, counts))
        return days, parts

    def _cached(self, key: Hashable, read: Callable[[], T]) -> T:
        """A value that depends on the relations alone, read once for each version of them."""
        if self._read[0] != (version := self.version):
            self._read = version, {}
        if key not in self._read[1]:
            self._read[1][key] = read()
        value: T = self._read[1][key]
        return value

    def _sums(self, column: int, cells: Sequence[int], days: IntArray, sums: IntArray) -> GroupSums:
        """The sums with those that are kept exactly; days without a denominator are left out."""
        shape = days.size, self.options.groups
        numerators: FloatArray = (sums[0] * UNIT).reshape(shape)
        if self.relations["exact"].size:
            _, (day, group, kind, *limbed) = self.relations["exact"].of(np.array(cells, np.int64))
            own = kind == column
            row = np.searchsorted(days, day[own])
            (row, group, exponent), parts = group_sum(
                [row, group[own], limbed[0][own]],
                [limb[own] for limb in limbed[1:]],
            )
            np.add.at(numerators, (row, group), approximate(exponent, parts))
        counts: IntArray = sums[1].reshape(shape)
        some: BoolArray = np.asarray(counts.any(axis=1))
        return GroupSums(days, numerators, counts).rows(some)

    def lists(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """The number of lists of each of these cells, and of those without a user."""
        self.reduce()
        return lists_with_users(self.relations["lists"], cells)

    def lists_by_day(self, cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Days, ascending; the lists of these cells on each, and those without a user."""
        self.reduce()
        _, (days, anonymous, lists) = self.relations["lists"].of(cells)
        distinct_days = distinct(days)
        index = np.searchsorted(distinct_days, days)
        counted, nameless = (
            sums(index, column, distinct_days.size) for column in (lists, lists * anonymous)
        )
        return distinct_days, counted, nameless

    def list_count(self, until: int) -> int:
        """The lists of all cells up to a day, inclusive."""
        self.reduce()
        _, days, _, lists = self.relations["lists"].columns
        return int(lists[days <= until].sum())

    def _of(self, other: Self, name: str) -> Relation:
        """A relation of `other`, with the groups and days of these options."""
        relation = other.relations[name]
        if self.options == other.options:
            return relation
        cells, days, *columns = (column.astype(np.int64) for column in relation.columns)
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


def _of_day(day: int, relation: Relation) -> Relation:
    """The rows of a day."""
    rows = relation.columns[1] == day
    return relation.like([column[rows] for column in relation.columns])


def _from_day(relation: Relation, firsts: Mapping[int, int]) -> Relation:
    """The relation with the days before a cell's first day moved to that day."""
    cells, days, *rest = (column.astype(np.int64) for column in relation.columns)
    for cell, first in firsts.items():
        days = np.where(cells == cell, np.maximum(days, first), days)
    return relation.like([cells, days, *rest])
