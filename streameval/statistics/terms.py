"""Collects the terms that lists add to sums by user group, and sums many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray, grouped, placed, sums
from streameval.statistics.exact import limbs
from streameval.statistics.intervals import UNIT
from streameval.statistics.lists import Lists, Outcome, Outcomes
from streameval.statistics.statistic import Cells
from streameval.statistics.users import Seen

_LARGEST: Final = 2.0
"""Values up to this are rounded to UNIT, so that 2^30 of them have room in a sum."""

_DENSE: Final = 8

Values: TypeAlias = tuple[FloatArray, IntArray]
"""Numerators and denominators, shape (n,) each."""


class Summed(NamedTuple):
    """One metric whose lists are summed.

    Attributes:
        bounded: whether values are rounded to UNIT; without bounds they are summed exactly.
        items: how much each item that stands at a rank of its own adds to the denominator.
    """

    column: int
    bounded: bool
    values: Callable[[Lists], Values]
    items: Callable[[IntArray], IntArray]


class Terms(NamedTuple):
    """What distinct outcomes add to the sums of one metric."""

    column: int
    bounded: bool
    numerators: FloatArray
    denominators: IntArray


class Part(NamedTuple):
    """Outcomes of waiting lists."""

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
        self._uncounted: list[tuple[Outcomes, Cells, IntArray]] = []
        self._lists: list[tuple[int, Lists]] = []
        self._ranks: list[tuple[int, int]] = []

    def take(self, outcomes: Iterable[Outcome], cells: Cells, count: int) -> None:
        """Take the outcomes of so many lists."""
        codes = np.fromiter(map(self._outcomes.__getitem__, outcomes), np.int64, count)
        self._coded.append((self.first, codes))
        self._uncounted.append((self._outcomes, cells, codes))
        self.first += count

    def counted(self) -> Iterator[Lists]:
        """The distinct lists of each cell whose outcomes were taken since the last time."""
        uncounted, self._uncounted = self._uncounted, []
        together: dict[int, tuple[Outcomes, list[IntArray], list[IntArray]]] = {}
        for outcomes, cells, codes in uncounted:
            _, where, coded = together.setdefault(id(outcomes), (outcomes, [], []))
            where.append(np.full(codes.size, cells))
            coded.append(codes)
        for outcomes, where, coded in together.values():
            yield from outcomes.counted(np.concatenate(where), np.concatenate(coded))

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
    """Takes the values of events until they are summed."""

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


class Owners:
    """Sums by (cell, day, group) of lists that waited.

    Attributes:
        keys: cell, day and group of each sum.
        sums: of each metric its numerators, then of each its denominators.
        exact: what is summed exactly: keys and counts of rows.
    """

    def __init__(self, seen: Seen, width: int, metrics: int) -> None:
        groups = (seen.hashes & np.uint64(width - 1)).astype(np.int64)
        cells, days = seen.cells, seen.days
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
        # Lists without a group are summed in a place of their own, which is left out at the end.
        self._owner = codes if seen.grouped.all() else np.where(seen.grouped, codes, every.size)
        self._sums = np.zeros((2 * metrics, every.size + 1), np.int64)
        self.exact: list[tuple[list[IntArray], list[IntArray]]] = []

    @property
    def sums(self) -> list[IntArray]:
        """Columns of sums, one integer for each of the keys."""
        return list(self._sums[:, :-1])

    def add(self, part: Part) -> None:
        """Add what some of the lists add."""
        owner = self._owner[part.rows]
        metrics, owners = self._sums.shape[0] // 2, self._sums.shape[1]
        kinds = part.terms[0].numerators.size if part.terms else 0
        pairs = None
        if owners * kinds <= owner.size:
            # Few outcomes, as of clicks: lists are counted once by owner and outcome.
            pairs = np.bincount(owner * kinds + part.codes, minlength=owners * kinds)
            pairs = pairs.reshape(owners, kinds)
        known: list[tuple[IntArray, IntArray]] = []
        for column, bounded, numerators, denominators in part.terms:
            loose = (numerators != 0) & ~(bounded & (np.abs(numerators) <= _LARGEST))
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
    """The sum of each owner's values, by the code of each list.

    `pairs`: how many lists each owner has of each code; None where these are not counted.
    """
    return sums(owner, values[codes], owners) if pairs is None else pairs @ values
