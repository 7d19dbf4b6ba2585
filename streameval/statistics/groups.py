"""Sums of values by event day and user group, for intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, Self

import msgspec
import numpy as np

from streameval.events.errors import UnlikeStateError
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, distinct, group_sum, sums
from streameval.statistics.exact import approximate
from streameval.statistics.intervals import UNIT, GroupSums
from streameval.statistics.options import GroupsOptions
from streameval.statistics.relation import Columns, Relation, Shape
from streameval.statistics.statistic import Statistic
from streameval.statistics.terms import ListTerms, MetricRows, OwnerTotals, SavedSums, group_owners
from streameval.statistics.users import ListUsers
from streameval.statistics.vocabulary import Items

MOST_DAYS: Final = 90
"""Event days kept per cell; older days are added to the oldest of them."""


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
        self.relations["sums"] = Relation(Shape(keys=3, counts=2 * len(options.metrics)))
        self._view: _View | None = None

    def reduce(self) -> None:
        """Merge the oldest days."""
        if self.relations["lists"].size <= MOST_DAYS:
            return
        goals = {cell: days[-MOST_DAYS] for cell, days in self._days() if days.size > MOST_DAYS}
        if goals:
            for name, relation in self.relations.items():
                self.relations[name] = _from_day(relation, goals)

    def take(self, users: ListUsers, parts: Sequence[ListTerms], columns: Sequence[int]) -> None:
        """Add lists.

        `columns`: for each metric, its column in the terms.
        """
        self.relations["lists"].add(*_lists(users))
        keys, owner = group_owners(users, self.options.groups)
        totals = OwnerTotals(owner, keys[0].size, columns)
        for part in parts:
            totals.add(part)
        self._by_metric.add(keys, totals.sums)
        for (owners, *others), counts in totals.exact:
            self.relations["exact"].add([*(key[owners] for key in keys), *others], counts)

    def merge(self, *others: Self) -> None:
        """Add the sums of others, which may have more groups or days."""
        for other in others:
            if not self.options.within(other.options):
                raise UnlikeStateError("groups", self.options, other.options)
            other.reduce()
        for name, relation in self.relations.items():
            relation.merge(*(self._of(other, name) for other in others))
        self.reduce()

    def dated(self, day: int) -> Self:
        """A copy with everything on one day."""

        def moved(relation: Relation) -> Relation:
            cells, days, *rest = relation.columns
            return relation.like([cells, np.full(days.size, day), *rest])

        return self.mapped(moved)

    @property
    def reduced(self) -> bool:
        """Whether any cell may have merged its oldest days, so that it cannot be subtracted."""
        return any(days.size >= MOST_DAYS for _, days in self._days())

    def of(self, metric: str, cells: IntArray) -> list[GroupSums]:
        """The sums of one metric for each of these cells."""
        return [self.summed(metric, [cell]) for cell in cells.tolist()]

    def summed(self, metric: str, cells: Sequence[int]) -> GroupSums:
        """The sums of one metric over all of these cells."""
        self.reduce()
        column = self.options.metrics.index(metric)
        return self._sums(column, cells, self._integers(column, cells))

    def summed_without(self, metric: str, cells: Sequence[int], some: Sequence[int]) -> GroupSums:
        """The sums of one metric over all of these cells but some of them.

        Quicker than `summed` if many slices are left out in turn, as the sums of all are kept.
        """
        self.reduce()
        column, view = self.options.metrics.index(metric), self._current()
        rest = sorted({*cells} - {*some})
        key = column, tuple(cells)
        if key not in view.integers:
            view.integers[key] = self._integers(column, cells)
        days, whole = view.integers[key]
        integers = days, whole - self._integers(column, some, days)[1]
        sums = self._sums(column, rest, integers)
        # Else the oldest of them may hold days that those of the rest have apart.
        if days.size < MOST_DAYS or sums.days.size == days.size:
            return sums
        return self.summed(metric, rest)

    def _integers(
        self, column: int, cells: Sequence[int], days: IntArray | None = None
    ) -> tuple[IntArray, IntArray]:
        """Days, and numerators in UNIT and denominators by day and group."""
        rows = [self._rows(cell) for cell in cells]
        if days is None:
            of_rows = (cell_rows.days for cell_rows in rows)
            days = distinct(np.concatenate([np.zeros(0, np.int64), *of_rows]))[-MOST_DAYS:]
        sums = np.zeros((2, days.size * self.options.groups), np.int64)
        for cell_rows in rows:
            cell_rows.add_to(sums, column, len(self.options.metrics), days)
        return days, sums

    def _sums(
        self, column: int, cells: Sequence[int], integers: tuple[IntArray, IntArray]
    ) -> GroupSums:
        """The sums with those that are kept exactly; days without a denominator are left out."""
        days, sums = integers
        shape = days.size, self.options.groups
        approximate_sums: FloatArray = (sums[0] * UNIT).reshape(shape)
        if self.relations["exact"].size:
            exact = self.relations["exact"].of(np.array(cells, np.int64))
            _, (day, group, kind, *limbed) = exact
            here = kind == column
            row = np.searchsorted(days, day[here])
            (row, group, exponent), parts = group_sum(
                [row, group[here], limbed[0][here]], [limb[here] for limb in limbed[1:]]
            )
            np.add.at(approximate_sums, (row, group), approximate(exponent, parts))
        counts: IntArray = sums[1].reshape(shape)
        some: BoolArray = np.asarray(counts.any(axis=1))
        every = GroupSums(days, approximate_sums, counts)
        return every if some.all() else every.rows(some)

    def lists(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """For each of these cells, the number of lists, and of lists without a user."""
        self.reduce()
        owner, (_, anonymous, lists) = self.relations["lists"].of(cells)
        return sums(owner, lists, cells.size), sums(owner, lists * anonymous, cells.size)

    def lists_by_day(self, cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Days, ascending; the lists of these cells on each, and those without a user."""
        self.reduce()
        _, (days, anonymous, lists) = self.relations["lists"].of(cells)
        distinct_days = distinct(days)
        place = np.searchsorted(distinct_days, days)
        listed, nameless = (
            sums(place, column, distinct_days.size) for column in (lists, lists * anonymous)
        )
        return distinct_days, listed, nameless

    def listed(self, until: int) -> int:
        """The lists of all cells up to a day, inclusive."""
        self.reduce()
        _, days, _, lists = self.relations["lists"].columns
        return int(lists[days <= until].sum())

    def restore(self, saved: SavedSums) -> None:
        """Replace the content by saved relations.

        Raises:
            ValueError: they are not valid.
        """
        twin = Groups(
            msgspec.structs.replace(self.options, metrics=tuple(saved.metrics)), self.items
        )
        loaded = saved.by_name(twin)
        self.relations["lists"] = loaded["lists"]
        exact = loaded["exact"].columns
        counts = saved.counts_for(self.options.metrics, loaded["sums"])
        self._by_metric.add(loaded["sums"].columns[:3], counts)
        new = enumerate(self.options.metrics)
        place = {metric: at for at, metric in new if metric not in saved.without}
        goals = np.array([*(place.get(metric, -1) for metric in saved.metrics), -1])
        kind = goals[exact[3]]
        kept = [column[kind >= 0] for column in (*exact[:3], kind, *exact[4:])]
        self.relations["exact"].add(kept[:5], kept[5:])

    @property
    def _by_metric(self) -> MetricRows:
        return MetricRows(self.relations["sums"], self.options.metrics)

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

    def _rows(self, cell: int) -> _Rows:
        rows_by_cell = self._current().rows
        if cell not in rows_by_cell:
            rows_by_cell[cell] = _Rows(self, cell)
        return rows_by_cell[cell]

    def _current(self) -> _View:
        versions = [(relation, relation.version) for relation in self.relations.values()]
        if self._view is None or self._view.versions != versions:
            self._view = _View(versions, {}, {})
        return self._view


class _View(NamedTuple):
    """What was read of these versions of the relations.

    Attributes:
        rows: of each cell.
        integers: sums of many cells, by column and cells.
    """

    versions: list[Any]
    rows: dict[int, _Rows]
    integers: dict[tuple[int, tuple[int, ...]], tuple[IntArray, IntArray]]


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

        `days`: days of the sums; older ones are added to the first.
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


def _lists(users: ListUsers) -> tuple[list[IntArray], list[IntArray]]:
    firsts = [users.cells[:1], users.days[:1], (~users.named[:1]).astype(np.int64)]
    if all((column == column[0]).all() for column in (users.cells, users.days, users.named)):
        # The usual case: one cell, one day, users known.
        return firsts, [np.array([users.cells.size])]
    return [users.cells, users.days, (~users.named).astype(np.int64)], [np.ones_like(users.cells)]


def _from_day(relation: Relation, firsts: Mapping[int, int]) -> Relation:
    """The relation with the days before a cell's first day moved to that day."""
    cells, days, *rest = (column.astype(np.int64) for column in relation.columns)
    for cell, first in firsts.items():
        days = np.where(cells == cell, np.maximum(days, first), days)
    return relation.like([cells, days, *rest])
