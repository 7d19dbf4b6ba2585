"""Sums of lists' values by event day and group of users: what intervals are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import FloatArray, IntArray, distinct, grouped
from streameval.statistics.exact import approximate, limbs
from streameval.statistics.intervals import UNIT, GroupSums
from streameval.statistics.lists import Lists, Outcome, Outcomes
from streameval.statistics.relation import Columns, Relation, Shape
from streameval.statistics.statistic import Statistic
from streameval.statistics.users import Seen, Users
from streameval.statistics.vocabulary import Items

MOST_DAYS: Final = 90
"""Days of a cell that are kept apart; what is older is summed with the oldest of them."""

_MOST_WAITING: Final = 65_536
_LARGEST: Final = 2.0
"""Values up to this are rounded to UNIT, so that 2^30 of them have room in a sum."""

_DENSE: Final = 8

Values: TypeAlias = tuple[FloatArray, IntArray]
"""Numerators and denominators, shape (n,) each."""


class GroupsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of sums by user group; unlike ones do not merge.

    Attributes:
        groups: number of user groups, a power of two.
        metrics: what is summed, in ascending order.
    """

    groups: int = 256
    metrics: tuple[str, ...] = ()


class Summed(NamedTuple):
    """One metric whose lists are summed.

    Attributes:
        column: its place among the metrics of the statistic.
        bounded: whether values are rounded to UNIT; without bounds they are summed exactly.
        values: numerator and denominator of each list.
        items: how much each item that stands at a rank of its own adds to the denominator.
    """

    column: int
    bounded: bool
    values: Callable[[Lists], Values]
    items: Callable[[IntArray], IntArray]


class Groups(Statistic):
    """Numerators and denominators of means, by event day and group of users.

    Each list's value is rounded once, or summed exactly where it has no bounds, so that the content
    is a function of the multiset of lists alone. A list without a group is in no sum.

    Relations:
        sums: (cell, day, group) -> the numerator of each metric in UNIT, then the denominator of
            each: one row for all metrics, for the keys of a row each would weigh more.
        exact: (cell, day, group, metric, exponent) -> three integers, whose exact sum is added to
            the numerator.

    Args:
        options: its identity.
        items: not used.

    Attributes:
        users: says who saw the lists that are pending, in their order.
    """

    shapes: ClassVar[Mapping[str, Shape]] = {"sums": Shape(keys=3), "exact": Shape(5, counts=3)}
    options: GroupsOptions

    def __init__(self, options: GroupsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.relations["sums"] = Relation(Shape(keys=3, counts=2 * len(options.metrics)))
        self._sources: list[ListsOfUsers | EventsOfUsers] = []
        self.users: Users | None = None
        self._waiting = 0
        self._room = MOST_DAYS
        self._view: tuple[list[Any], IntArray, list[tuple[IntArray, Columns]]] | None = None

    def of_lists(self, metrics: Sequence[Summed]) -> ListsOfUsers:
        """What takes the outcome of each list, for the metrics that are functions of it."""
        self._sources.append(source := ListsOfUsers(metrics))
        return source

    def of_events(self, column: int, *, bounded: bool) -> EventsOfUsers:
        """What takes the value of each event, for one metric."""
        self._sources.append(source := EventsOfUsers(column, bounded=bounded))
        return source

    def begin(self, lists: int) -> None:
        """So many lists come next; `users` and every source take all of them in order."""
        if self._waiting >= _MOST_WAITING:
            self.fold()
        for source in self._sources:
            source.first = self._waiting
        self._waiting += lists

    def fold(self) -> None:
        """Move what is pending into the relations, and sum up the oldest days."""
        seen = () if self.users is None else self.users.seen()
        self._waiting = 0
        if seen and self._sources:
            owners = _Owners(seen, self.options)
            for source in self._sources:
                for part in source.taken():
                    owners.add(part)
            self._add(owners.keys, owners.sums)
            for keys, counts in owners.exact:
                self.relations["exact"].add(keys, counts)
        self._sum_up_days()

    def rename(self, names: Mapping[int, int]) -> None:
        """Cells get other numbers; those that meet are summed."""
        super().rename(names)
        self._room = 0

    @property
    def reduced(self) -> bool:
        """Whether the oldest days of any cell may be summed, so that they cannot be taken away."""
        self.fold()
        sums = self.relations["sums"]
        return sums.size >= MOST_DAYS and any(len(days) >= MOST_DAYS for _, days in _days(sums))

    def of(self, metric: str, cells: IntArray, groups: int | None = None) -> list[GroupSums]:
        """The sums of one metric in each of these cells.

        Args:
            metric: one of the options' metrics.
            cells: which.
            groups: fewer groups than are kept, in which those nest; None for all of them.
        """
        self.fold()
        width = groups or self.options.groups
        column = self.options.metrics.index(metric)
        (owner, (day, group, *counts)), exact = self._rows(cells)
        numerator, denominator = counts[column], counts[column + len(self.options.metrics)]
        some = denominator > 0
        rows = [each[some] for each in (owner, day, group & (width - 1), numerator, denominator)]
        owner, (day, group, kind, *limbed) = exact
        loose = [each[kind == column] for each in (owner, day, group & (width - 1), *limbed)]
        parts = zip(_apart(rows, cells.size), _apart(loose, cells.size), strict=True)
        return [_sums_of(*each, width) for each in parts]

    def restore(
        self, saved: Sequence[Sequence[Ext]], metrics: Sequence[str], cells: IntArray
    ) -> None:
        """Take the place of the content by saved relations, which may be of other metrics.

        Args:
            saved: `Relation.saved` of each relation, in their order.
            metrics: that they were saved of, in ascending order.
            cells: the number here of each cell that was written.

        Raises:
            ValueError: they are not what was saved.
        """
        twin = Groups(GroupsOptions(groups=self.options.groups, metrics=tuple(metrics)), self.items)
        pairs = zip([*twin.relations], saved, strict=True)
        found = [
            twin.relations[name].restored(columns, cells, np.zeros(0, np.int64)).columns
            for name, columns in pairs
        ]
        place = {metric: at for at, metric in enumerate(metrics)}
        *keys, none = *found[0][:3], np.zeros_like(found[0][0])
        counts = [
            found[0][3 + half * len(place) + place[metric]] if metric in place else none
            for half in (0, 1)
            for metric in self.options.metrics
        ]
        self._add(keys, counts)
        known = {metric: at for at, metric in enumerate(self.options.metrics)}
        goals = np.array([*(known.get(metric, -1) for metric in metrics), -1])
        kind = goals[found[1][3]]
        kept = [each[kind >= 0] for each in (*found[1][:3], kind, *found[1][4:])]
        self.relations["exact"].add(kept[:5], kept[5:])

    def _rows(self, cells: IntArray) -> Sequence[tuple[IntArray, Columns]]:
        """The rows of cells in both relations; looked up once for all metrics."""
        versions = [(each, each.version) for each in self.relations.values()]
        known = self._view
        if known is None or known[0] != versions or not np.array_equal(known[1], cells):
            found = [each.of(cells) for each in self.relations.values()]
            known = self._view = versions, cells, found
        return known[2]

    def _add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add rows, but for those that say nothing: a list may be left out of every mean."""
        some = np.logical_or.reduce([each > 0 for each in counts[len(self.options.metrics) :]])
        self.relations["sums"].add([each[some] for each in keys], [each[some] for each in counts])

    def _sum_up_days(self) -> None:
        relation = self.relations["sums"]
        if relation.size <= self._room:
            return
        days = _days(relation)
        many = [each.size for _, each in days]
        goals = {cell: each[-MOST_DAYS] for cell, each in days if each.size > MOST_DAYS}
        if goals:
            for name, each in self.relations.items():
                self.relations[name] = _from_day(each, goals)
        # Every further day of a cell is a further row.
        self._room = self.relations["sums"].size + MOST_DAYS - min(max(many), MOST_DAYS)


class Terms(NamedTuple):
    """What distinct outcomes add to the sums of one metric.

    Attributes:
        column: place of the metric among those of the statistic.
        bounded: whether numerators are rounded to UNIT.
        numerators: of each outcome, shape (n,).
        denominators: likewise.
    """

    column: int
    bounded: bool
    numerators: FloatArray
    denominators: IntArray


class Part(NamedTuple):
    """Outcomes of lists that wait.

    Attributes:
        rows: place of each list among all that wait.
        codes: its outcome, an index of the terms.
        terms: of each metric.
    """

    rows: IntArray
    codes: IntArray
    terms: Sequence[Terms]


class ListsOfUsers:
    """Takes the outcomes of lists until they are summed.

    Attributes:
        first: place of the next list among those that wait.
    """

    def __init__(self, metrics: Sequence[Summed]) -> None:
        self.first = 0
        self._metrics = metrics
        self._outcomes = Outcomes()
        self._coded: list[tuple[int, IntArray]] = []
        self._lists: list[tuple[int, Lists]] = []
        self._ranks: list[tuple[int, int]] = []

    def take(self, outcomes: Iterable[Outcome], count: int) -> tuple[IntArray, Sequence[Outcome]]:
        """Take the outcomes of so many lists; returns a code of each, and what codes stand for."""
        codes = np.fromiter(map(self._outcomes.__getitem__, outcomes), np.int64, count)
        self._coded.append((self.first, codes))
        self.first += count
        return codes, self._outcomes.names

    def take_lists(self, lists: Lists) -> None:
        """Take lists that occurred once each."""
        self._lists.append((self.first, lists))
        self.first += len(lists)

    def take_ranks(self, places: Iterable[tuple[int, int]]) -> None:
        """Take items at ranks of their own, as (number of the list from the last `take`, rank)."""
        self._ranks.extend((self.first + row, rank) for row, rank in places)

    def taken(self) -> Iterator[Part]:
        """What was taken, once."""
        coded, self._coded = self._coded, []
        if coded:
            rows = [np.arange(first, first + codes.size) for first, codes in coded]
            outcomes, self._outcomes = self._outcomes, Outcomes()
            codes = np.concatenate([codes for _, codes in coded])
            found = [(np.zeros(len(outcomes)), np.zeros(len(outcomes), int)) for _ in self._metrics]
            for those, lists in outcomes.lists():
                for metric, both in zip(self._metrics, found, strict=True):
                    both[0][those], both[1][those] = metric.values(lists)
            yield Part(np.concatenate(rows), codes, self._terms(found))
        listed, self._lists = self._lists, []
        for first, lists in listed:
            every = np.arange(len(lists))
            yield Part(
                every + first, every, self._terms(each.values(lists) for each in self._metrics)
            )
        ranks, self._ranks = self._ranks, []
        if ranks:
            row, rank = np.array(ranks, np.int64).T
            none = np.zeros(rank.size)
            found = [(none, each.items(rank)) for each in self._metrics]
            yield Part(row, np.arange(rank.size), self._terms(found))

    def _terms(self, values: Iterable[Values]) -> list[Terms]:
        pairs = zip(self._metrics, values, strict=True)
        return [Terms(metric.column, metric.bounded, *each) for metric, each in pairs]


class EventsOfUsers:
    """Takes the values of events until they are summed.

    Attributes:
        first: place of the next event among those that wait.
    """

    def __init__(self, column: int, *, bounded: bool) -> None:
        self.first = 0
        self._column, self._bounded = column, bounded
        self._values: list[tuple[int, float, int]] = []

    def take(self, numerator: float, denominator: int) -> None:
        """Take what one event adds."""
        self._values.append((self.first, numerator, denominator))
        self.first += 1

    def taken(self) -> Iterator[Part]:
        """What was taken, once."""
        values, self._values = self._values, []
        if values:
            rows, numerators, denominators = map(np.array, zip(*values, strict=True))
            terms = Terms(self._column, self._bounded, numerators, denominators)
            yield Part(rows, np.arange(rows.size), [terms])


class _Owners:
    """Sums by (cell, day, group) of lists that waited.

    Attributes:
        keys: cell, day and group of each sum.
        sums: of each metric its numerators, then of each its denominators.
        exact: what is summed exactly: keys and counts of rows.
    """

    def __init__(self, seen: Sequence[Seen], of: GroupsOptions) -> None:
        cells, days = (np.concatenate([each[at] for each in seen]) for at in (0, 4))
        hashes, grouped = (np.concatenate([each[at] for each in seen]) for at in (1, 3))
        groups = (hashes & np.uint64(of.groups - 1)).astype(np.int64)
        one = bool((cells == cells[0]).all())
        known, place = (cells[:1], 0) if one else np.unique(cells, return_inverse=True)
        first, width = int(days.min()), of.groups
        span = int(days.max()) - first + 1
        codes = (place * span + (days - first)) * width + groups
        every = np.arange(min(known.size * span * width, _DENSE * codes.size + width))
        if every.size < known.size * span * width:
            every, codes = np.unique(codes, return_inverse=True)
        place, rest = np.divmod(every, span * width)
        self.keys = [known[place], rest // width + first, rest % width]
        # Lists without a group are summed in a place of their own, which is left out at the end.
        self._owner = np.where(grouped, codes, every.size)
        self._sums = np.zeros((2 * len(of.metrics), every.size + 1), np.int64)
        self.exact: list[tuple[list[IntArray], list[IntArray]]] = []

    @property
    def sums(self) -> list[IntArray]:
        return list(self._sums[:, :-1])

    def add(self, part: Part) -> None:
        owner = self._owner[part.rows]
        metrics = len(self._sums) // 2
        known: list[tuple[IntArray, int]] = []
        for column, bounded, numerators, denominators in part.terms:
            loose = (numerators != 0) & ~(bounded & (np.abs(numerators) <= _LARGEST))
            whole = np.rint(np.where(loose, 0.0, numerators) / UNIT).astype(np.int64)
            np.add.at(self._sums[column], owner, whole[part.codes])
            if loose.any():
                self._add_exactly(column, owner, part.codes, np.where(loose, numerators, 0.0))
            goal = self._sums[metrics + column]
            for each, summed in known:
                if np.array_equal(each, denominators):
                    goal += summed
                    break
            else:
                summed = np.zeros_like(goal)
                np.add.at(summed, owner, denominators[part.codes])
                goal += summed
                known.append((denominators, summed))

    def _add_exactly(
        self, column: int, owner: IntArray, codes: IntArray, values: FloatArray
    ) -> None:
        here = (values[codes] != 0) & (owner < self.keys[0].size)
        owner, codes = owner[here], codes[here]
        (owner, codes), (counts,) = grouped([owner, codes], [np.ones_like(owner)])
        exponents, parts = limbs(values[codes], counts)
        keys = [*(each[owner] for each in self.keys), np.full_like(owner, column), exponents]
        self.exact.append((keys, parts))


def _days(relation: Relation) -> list[tuple[int, IntArray]]:
    """The distinct days of each cell, ascending."""
    cells, days = relation.columns[:2]
    new = np.ones(cells.size, np.bool_)
    new[1:] = (cells[1:] != cells[:-1]) | (days[1:] != days[:-1])
    cells, days = cells[new], days[new]
    edges = np.flatnonzero(np.diff(cells, prepend=-1, append=-1)).tolist()
    return [(int(cells[start]), days[start:stop]) for start, stop in pairwise(edges)]


def _from_day(relation: Relation, firsts: Mapping[int, int]) -> Relation:
    """The same with no day of a cell before its first one."""
    cells, days, *rest = (each.astype(np.int64) for each in relation.columns)
    for cell, first in firsts.items():
        days = np.where(cells == cell, np.maximum(days, first), days)
    twin = Relation(relation.shape)
    twin.replace([cells, days, *rest])
    return twin


def _apart(columns: Sequence[IntArray], owners: int) -> list[list[IntArray]]:
    """Columns, of which the first is the owner and ascends, by the owner."""
    edges = np.searchsorted(columns[0], np.arange(owners + 1)).tolist()
    return [[each[start:stop] for each in columns[1:]] for start, stop in pairwise(edges)]


def _sums_of(rows: Sequence[IntArray], loose: Sequence[IntArray], width: int) -> GroupSums:
    day, group, numerator, denominator = rows
    days = distinct(day)
    shape = days.size, width
    sums, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    at = np.searchsorted(days, day), group
    np.add.at(sums, at, numerator)
    np.add.at(counts, at, denominator)
    found: FloatArray = sums.astype(np.float64) * UNIT
    day, group, exponent, *parts = loose
    np.add.at(found, (np.searchsorted(days, day), group), approximate(exponent, parts))
    return GroupSums(days, found, counts)
