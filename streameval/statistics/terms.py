"""Collects the terms that lists add to sums by user group, and sums them in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, grouped, placed, sums
from streameval.statistics.exact import limbs
from streameval.statistics.intervals import UNIT
from streameval.statistics.lists import Lists
from streameval.statistics.users import ListUsers

BOUNDED: Final = 2.0
WEIGHTED: Final = 1024.0
"""Larger values are summed exactly. Smaller ones are rounded to UNIT, and 2^30 of bounded metrics
fit, or 2^21 lists of the largest weight."""

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
    """The terms of pending lists.

    Attributes:
        rows: indices of the lists among those pending.
        codes: which of the terms each of these lists has.
        terms: for each metric, the terms of distinct lists.
    """

    rows: IntArray
    codes: IntArray
    terms: Sequence[Terms]


class ListCollector:
    """Collects lists until their terms are summed.

    Attributes:
        first: index of the first list of the batch among those pending.
    """

    def __init__(self, metrics: Sequence[SummedMetric]) -> None:
        self.first = 0
        self._metrics = metrics
        self._lists: list[tuple[IntArray, Lists]] = []
        self._ranks: list[tuple[IntArray, IntArray]] = []

    def take(self, rows: IntArray, lists: Lists) -> None:
        """Take lists of a batch; `rows` are their indices there."""
        self._lists.append((rows + self.first, lists))

    def take_ranks(self, rows: IntArray, ranks: IntArray) -> None:
        """Take items at explicit positions: the index of each list in the batch, and the rank."""
        self._ranks.append((rows + self.first, ranks))

    def drain(self) -> Iterator[ListTerms]:
        """The terms of everything taken since the last call."""
        taken, self._lists = self._lists, []
        for graded in (False, True):
            parts = [pair for pair in taken if pair[1].is_graded == graded]
            if parts:
                rows, lists = zip(*parts, strict=True)
                distinct, codes = lists[0].joined(*lists[1:]).distinct()
                values = [metric.values(distinct) for metric in self._metrics]
                yield ListTerms(np.concatenate(rows), codes, self._terms(values))
        ranks, self._ranks = self._ranks, []
        if ranks:
            row, rank = map(np.concatenate, zip(*ranks, strict=True))
            none = np.zeros(rank.size)
            values = [(none, each.items(rank)) for each in self._metrics]
            yield ListTerms(row, np.arange(rank.size), self._terms(values))

    def _terms(self, values: Iterable[Values]) -> list[Terms]:
        pairs = zip(self._metrics, values, strict=True)
        return [Terms(metric.column, metric.largest, *each) for metric, each in pairs]


class EventCollector:
    """Collects the values of events for one metric until they are summed."""

    def __init__(self, column: int, largest: float) -> None:
        self.first = 0
        self._column, self._largest = column, largest
        self._values: list[tuple[int, float, int]] = []

    def take(self, numerator: float, denominator: int) -> None:
        """Take the terms of one event."""
        self._values.append((self.first, numerator, denominator))
        self.first += 1

    def drain(self) -> Iterator[ListTerms]:
        """The terms of everything taken since the last call."""
        values, self._values = self._values, []
        if values:
            rows, numerators, denominators = map(np.array, zip(*values, strict=True))
            terms = Terms(self._column, self._largest, numerators, denominators)
            yield ListTerms(rows, np.arange(rows.size), [terms])


class GroupTotals:
    """Sums of pending lists by (cell, day, group).

    Attributes:
        keys: columns of cells, days and groups.
        exact: keys and counts of the rows of the relation `exact`.
    """

    def __init__(self, users: ListUsers, width: int, metrics: int) -> None:
        groups = (users.hashes & np.uint64(width - 1)).astype(np.int64)
        cells, days = users.cells, users.days
        known, place = placed(cells)
        first = int(days.min())
        span = int(days.max()) - first + 1
        one = known.size * span == 1
        codes = groups if one else (place * span + (days - first)) * width + groups
        every = np.arange(min(known.size * span * width, _DENSE * codes.size + width))
        if every.size < known.size * span * width:
            every, codes = np.unique(codes, return_inverse=True)
        place, rest = np.divmod(every, span * width)
        self.keys = [known[place], rest // width + first, rest % width]
        # Lists without a group are summed in an extra last column, which `sums` leaves out.
        self._owner = codes if users.grouped.all() else np.where(users.grouped, codes, every.size)
        self._sums = np.zeros((2 * metrics, every.size + 1), np.int64)
        self.exact: list[tuple[list[IntArray], list[IntArray]]] = []

    @property
    def sums(self) -> list[IntArray]:
        """The numerators of each metric, then the denominators of each; one integer per key."""
        return list(self._sums[:, :-1])

    def add(self, part: ListTerms) -> None:
        """Add the terms of some of the lists."""
        owner = self._owner[part.rows]
        metrics, owners = self._sums.shape[0] // 2, self._sums.shape[1]
        kinds = part.terms[0].numerators.size if part.terms else 0
        pairs = None
        if owners * kinds <= owner.size:
            # Few distinct outcomes, as with clicks: count lists by owner and outcome once.
            pairs = np.bincount(owner * kinds + part.codes, minlength=owners * kinds)
            pairs = pairs.reshape(owners, kinds)
        known: list[tuple[IntArray, IntArray]] = []
        for column, largest, numerators, denominators in part.terms:
            loose = (numerators != 0) & (np.abs(numerators) > largest)
            whole = np.rint(np.where(loose, 0.0, numerators) / UNIT).astype(np.int64)
            self._sums[column] += _summed(whole, owner, part.codes, pairs, owners)
            if loose.any():
                self._add_exactly(column, owner, part.codes, np.where(loose, numerators, 0.0))
            alike = (each for one, each in known if np.array_equal(one, denominators))
            below = next(alike, None)
            if below is None:
                below = _summed(denominators, owner, part.codes, pairs, owners)
                known.append((denominators, below))
            self._sums[metrics + column] += below

    def _add_exactly(
        self, column: int, owner: IntArray, codes: IntArray, values: FloatArray
    ) -> None:
        here = (values[codes] != 0) & (owner < self.keys[0].size)
        owner, codes = owner[here], codes[here]
        (owner, codes), (counts,) = grouped([owner, codes], [np.ones_like(owner)])
        exponents, parts = limbs(values[codes], counts)
        keys = [*(each[owner] for each in self.keys), np.full_like(owner, column), exponents]
        self.exact.append((keys, parts))


def _summed(
    values: IntArray, owner: IntArray, codes: IntArray, pairs: IntArray | None, owners: int
) -> IntArray:
    """The sum of values by owner; `codes` selects the value of each list.

    `pairs`: the number of lists by owner and code, if known; shape (owners, codes).
    """
    return sums(owner, values[codes], owners) if pairs is None else pairs @ values
