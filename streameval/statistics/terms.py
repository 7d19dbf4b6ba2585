"""The terms that lists add to sums by user or user group, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.msgpack import Ext

from streameval.statistics.arrays import FloatArray, IntArray, group_sum, place_values, sums
from streameval.statistics.exact import limbs
from streameval.statistics.intervals import UNIT
from streameval.statistics.lists import Lists
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
from streameval.statistics.users import ListUsers, user_groups

_DENSE: Final = 8

Values: TypeAlias = tuple[FloatArray, IntArray]
"""Numerators and denominators, shape (n,) each."""


class SummedMetric(NamedTuple):
    """A metric whose values of lists are summed.

    Attributes:
        column: index of the metric among those summed.
        largest: largest value that is rounded to UNIT; larger ones are summed exactly.
        values: numerators and denominators of lists.
        items: denominators of items at explicit positions, from their ranks.
    """

    column: int
    largest: float
    values: Callable[[Lists], Values]
    items: Callable[[IntArray], IntArray]


class Terms(NamedTuple):
    """The terms of lists for one metric, shape (n,) each."""

    column: int
    largest: float
    numerators: FloatArray
    denominators: IntArray


class ListTerms(NamedTuple):
    """The terms of some lists of a batch.

    Attributes:
        rows: their indices in the batch.
        codes: which of the terms each of these lists has.
        terms: for each metric, the terms of distinct lists.
    """

    rows: IntArray
    codes: IntArray
    terms: Sequence[Terms]


class MetricRows:
    """Rows with two counts for each metric: all numerators, then all denominators.

    `relation`: the rows. `metrics`: in the order of their counts.
    """

    def __init__(self, relation: Relation, metrics: Sequence[str]) -> None:
        self._relation, self._metrics = relation, metrics

    def add(self, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
        """Add the rows with a denominator above 0; a list may be left out of every mean."""
        below = counts[len(self._metrics) :]
        if below:
            some = np.logical_or.reduce([column > 0 for column in below])
            self._relation.add([key[some] for key in keys], [count[some] for count in counts])


class SavedSums(NamedTuple):
    """Saved relations of sums by metric, which may have other metrics than are kept now.

    Attributes:
        relations: as saved.
        metrics: their metrics, ascending.
        cells: the new number of each saved cell.
        without: metrics that start empty.
    """

    relations: Sequence[Sequence[Ext]]
    metrics: Sequence[str]
    cells: IntArray
    without: Collection[str] = ()

    def by_name(self, statistic: Statistic) -> dict[str, Relation]:
        """The relations of an empty statistic of these metrics, without items, by name.

        Raises:
            ValueError: they are not valid.
        """
        pairs = zip([*statistic.relations.items()], self.relations, strict=True)
        nothing = np.zeros(0, np.int64)
        return {
            name: empty.restore(columns, self.cells, nothing) for (name, empty), columns in pairs
        }

    def counts_for(self, metrics: Sequence[str], sums: Relation) -> list[IntArray]:
        """The counts of rows of sums for other metrics: 0 for those not here, or in `without`."""
        columns, keys = sums.columns, sums.shape.keys
        saved = enumerate(self.metrics)
        place = {metric: at for at, metric in saved if metric not in self.without}
        none = np.zeros_like(columns[0])
        return [
            columns[keys + half * len(self.metrics) + place[metric]] if metric in place else none
            for half in (0, 1)
            for metric in metrics
        ]


def terms_of_lists(metrics: Sequence[SummedMetric], rows: IntArray, lists: Lists) -> ListTerms:
    """The terms of lists of a batch; `rows` are their indices there."""
    distinct, codes = lists.distinct()
    distinct = distinct.sealed()
    terms = [Terms(m.column, m.largest, *m.values(distinct)) for m in metrics]
    return ListTerms(rows, codes, terms)


def terms_of_ranks(metrics: Sequence[SummedMetric], rows: IntArray, ranks: IntArray) -> ListTerms:
    """The terms of items at explicit positions: the index of each list, and the rank."""
    none = np.zeros(ranks.size)
    terms = [Terms(m.column, m.largest, none, m.items(ranks)) for m in metrics]
    return ListTerms(rows, np.arange(ranks.size), terms)


def group_owners(users: ListUsers, width: int) -> tuple[list[IntArray], IntArray]:
    """Keys (cell, day, group) of lists, and the index of each list's key.

    A list without a group has the number of keys as its index.
    """
    groups = user_groups(users.hashes, width)
    cells, days = users.cells, users.days
    known, place = place_values(cells)
    first = int(days.min())
    span = int(days.max()) - first + 1
    is_single = known.size * span == 1
    codes = groups if is_single else (place * span + (days - first)) * width + groups
    every = np.arange(min(known.size * span * width, _DENSE * codes.size + width))
    if every.size < known.size * span * width:
        every, codes = np.unique(codes, return_inverse=True)
    place, rest = np.divmod(every, span * width)
    keys = [known[place], rest // width + first, rest % width]
    return keys, codes if users.grouped.all() else np.where(users.grouped, codes, every.size)


class OwnerTotals:
    """Sums of lists by owner: a user, or a group of them.

    `owner`: of each list; lists with the number of owners as their owner are in no sum. `columns`:
    for each metric, its column in the terms. `limit`: of the values, which are rounded to UNIT;
    None sums those that are unbounded or large exactly instead.

    Attributes:
        exact: owners, metrics, exponents and parts of the values that are summed exactly.
    """

    def __init__(
        self, owner: IntArray, owners: int, columns: Sequence[int], limit: float | None = None
    ) -> None:
        self._owner, self._owners, self._limit = owner, owners, limit
        self._places = {column: place for place, column in enumerate(columns)}
        # Lists without an owner are summed in an extra last column, which `sums` leaves out.
        self._sums = np.zeros((2 * len(columns), owners + 1), np.int64)
        self.exact: list[tuple[list[IntArray], list[IntArray]]] = []

    @property
    def sums(self) -> list[IntArray]:
        """The numerators of each metric, then the denominators of each; one integer per owner."""
        return list(self._sums[:, :-1])

    def add(self, part: ListTerms) -> None:
        """Add the terms of some of the lists."""
        terms = [each for each in part.terms if each.column in self._places]
        owner = self._owner[part.rows]
        metrics, owners = len(self._places), self._owners + 1
        kinds = terms[0].numerators.size if terms else 0
        pairs = None
        if terms and owners * kinds <= owner.size:
            # Few distinct outcomes, as with clicks: count lists by owner and outcome once.
            pairs = np.bincount(owner * kinds + part.codes, minlength=owners * kinds)
            pairs = pairs.reshape(owners, kinds)
        denominators_seen: list[tuple[IntArray, IntArray]] = []
        for term in terms:
            place, denominators = self._places[term.column], term.denominators
            whole = self._whole(place, owner, part.codes, term)
            self._sums[place] += _sum_by_owner(whole, owner, part.codes, pairs, owners)
            alike = (
                share
                for earlier, share in denominators_seen
                if np.array_equal(earlier, denominators)
            )
            below = next(alike, None)
            if below is None:
                below = _sum_by_owner(denominators, owner, part.codes, pairs, owners)
                denominators_seen.append((denominators, below))
            self._sums[metrics + place] += below

    def _whole(self, place: int, owner: IntArray, codes: IntArray, term: Terms) -> IntArray:
        """The numerators in UNIT, 0 for those that are summed exactly."""
        values = term.numerators
        if self._limit is not None:
            return np.rint(np.clip(values, -self._limit, self._limit) / UNIT).astype(np.int64)
        loose = (values != 0) & (np.abs(values) > term.largest)
        if loose.any():
            self._add_exactly(place, owner, codes, np.where(loose, values, 0.0))
            values = np.where(loose, 0.0, values)
        return np.rint(values / UNIT).astype(np.int64)

    def _add_exactly(
        self, place: int, owner: IntArray, codes: IntArray, values: FloatArray
    ) -> None:
        here = (values[codes] != 0) & (owner < self._owners)
        owner, codes = owner[here], codes[here]
        (owner, codes), (counts,) = group_sum([owner, codes], [np.ones_like(owner)])
        exponents, parts = limbs(values[codes], counts)
        self.exact.append(([owner, np.full_like(owner, place), exponents], parts))


def _sum_by_owner(
    values: IntArray, owner: IntArray, codes: IntArray, pairs: IntArray | None, owners: int
) -> IntArray:
    """The sum of values by owner; `codes` selects the value of each list.

    `pairs`: the number of lists by owner and code, if known; shape (owners, codes).
    """
    return sums(owner, values[codes], owners) if pairs is None else pairs @ values
