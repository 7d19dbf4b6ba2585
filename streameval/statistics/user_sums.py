"""Sums of values by user, for means over users and ramps; above a cap, of a sample of the users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

import msgspec
import numpy as np

from streameval.events.saved_states import unlike
from streameval.statistics.arrays import FloatArray, IntArray, group_sum, place_values, sums
from streameval.statistics.intervals import LARGEST_OF_USER, UNIT, WEIGHTED, GroupSums
from streameval.statistics.limits import MOST_USERS
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.sampling import HALVINGS, HashSample
from streameval.statistics.statistic import Statistic
from streameval.statistics.terms import (
    Terms,
    add_sums,
    lists_with_users,
    restore_sums,
    slot_totals,
    sums_of,
)
from streameval.statistics.users import HashArray, ListUsers, hash_units
from streameval.statistics.vocabulary import Items


class UserTotals(NamedTuple):
    """The sums of one metric by user.

    Attributes:
        hashes: of the users with a row, as signed integers with their bits, ascending.
        numerators: in UNIT; shape (users,).
        denominators: shape (users,).
        share: sampled share of all users; 1 if all are sampled.
    """

    hashes: IntArray
    numerators: IntArray
    denominators: IntArray
    share: float

    @property
    def means(self) -> FloatArray:
        """The mean of each user, whose denominators must be above 0; shape (users,)."""
        return self.numerators * UNIT / self.denominators

    @property
    def users(self) -> int:
        """Number of users; an estimate above the cap."""
        return round(self.hashes.size / self.share)

    def by_group(self, groups: int, *, zeros: bool = False) -> GroupSums:
        """The users' means by user group: each mean is rounded once, so that sums are exact.

        `zeros`: instead of the mean, whether it is 0.
        """
        values = self.means == 0 if zeros else self.means
        group = self.hashes & (groups - 1)
        totals = sums(group, np.rint(values / UNIT).astype(np.int64), groups)
        counts = sums(group, np.ones_like(group), groups)
        return GroupSums(
            np.zeros(1, np.int64), np.array([totals.astype(np.float64) * UNIT]), counts[None, :]
        )


class UserSumsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of sums by user.

    Attributes:
        max_users: largest number of users kept per cell.
        metrics: `Metric.per_list` of each metric.
        days: the only event days that count, the second one excluded; None: all.
        first_days: whether the first of these days is kept of each user: for a ramp, whose variants
            divide the days, unlike those before an experiment.
    """

    max_users: int = MOST_USERS
    metrics: tuple[str, ...] = ()
    days: tuple[int, int] | None = None
    first_days: bool = False


class FirstDays(NamedTuple):
    """Users and their first days.

    Attributes:
        hashes: of the users, ascending; shape (users,).
        first: first day of each, since the epoch.
        threshold: all users with a smaller hash are among them; 2^64 if all are.
    """

    hashes: HashArray
    first: IntArray
    threshold: int


class UserSums(Statistic):
    """Numerators and denominators of bounded means by user.

    A user's lists all count or none: above the cap only users with small hashes stay, so a mean
    over users is exact over a uniform sample of them, whatever the order of their lists. Lists
    without a user are in no sum.

    Relations:
        sums: (cell, hash) -> the numerator of each metric in UNIT, then the denominator of each;
            the hash is a signed integer with the same bits.
        lists: (cell, 1 for lists without a user) -> lists.
        halvings: see `HashSample`.
        came: with `first_days`, (cell, hash) -> minus the first day, which combines by the maximum;
            of the users of `sums`.
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "sums": Shape(keys=2),
        "lists": Shape(keys=2),
        "halvings": HALVINGS,
    }
    options: UserSumsOptions
    cap: HashSample

    def __init__(self, options: UserSumsOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = HashSample(
            self.relations, "sums", options.max_users, hash_units, adds_only_sampled=True
        )
        self.relations["sums"] = sums_of(self.shapes["sums"], options.metrics)
        if options.first_days:
            self.relations["came"] = Relation(Shape(keys=2, combine=np.maximum))
        self._thinned: object = None

    @property
    def is_additive(self) -> bool:
        """Never: a thinned cell takes only some of the rows."""
        return False

    @property
    def is_pre_period(self) -> bool:
        """True if they are of the days before an experiment, which no variant divides.

        All slices of a family share one cell, and its cap.
        """
        return self.options.days is not None and not self.options.first_days

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; see `Statistic`. Sums of a pre-period are all in cell 0 from then on."""
        if self.is_pre_period:
            names = dict.fromkeys(filter(None, self.cells.tolist()), 0)
        super().rename(names)

    def take(self, users: ListUsers, terms: Sequence[Terms]) -> None:
        """Add lists, with the terms of each metric."""
        inside = np.ones(users.cells.size, np.bool_)
        if self.options.days is not None:
            first, end = self.options.days
            inside = (users.days >= first) & (users.days < end)
        nameless = (~users.named[inside]).astype(np.int64)
        self.relations["lists"].add([users.cells[inside], nameless], [np.ones_like(nameless)])
        counted = inside & users.named
        counted &= self.cap.keeps(users.cells, users.hashes.view(np.int64))
        if not counted.any():
            return
        cells, hashes = users.cells[counted], users.hashes[counted].view(np.int64)
        if self.options.first_days:
            self.relations["came"].add([cells, hashes], [-users.days[counted]])
        distinct_cells, index = place_values(cells)
        ids, which = np.unique(hashes, return_inverse=True)
        every, codes = np.unique(index * ids.size + which, return_inverse=True)
        slot = np.full(users.cells.size, every.size)
        slot[counted] = codes
        # Only in the past are there values without bounds: they explain, and are not estimated.
        limit = WEIGHTED if self.is_pre_period else LARGEST_OF_USER
        totals, _ = slot_totals(every.size, slot, terms, self.options.metrics, limit)
        at, user = np.divmod(every, ids.size)
        add_sums(self.relations["sums"], [distinct_cells[at], ids[user]], totals)

    restore = restore_sums

    def merge(self, *others: Self) -> None:
        """Add the sums of others, which may keep more users or fewer."""
        for other in others:
            if other.options.metrics != self.options.metrics:
                raise unlike("sums by user", self.options, other.options)
            other.reduce()
        self.reduce()
        self.cap.forget()  # Others may have users above the threshold.
        for name, relation in self.relations.items():
            relation.merge(*(other.relations[name] for other in others))
        self.reduce()

    def reduce(self) -> None:
        """Thin the cells that are too large, and the first days of users who are left out."""
        super().reduce()
        came, marks = self.relations.get("came"), self.cap.marks
        if came is None or not marks.size:
            return
        if self._thinned != (came, came.version, marks, marks.version):
            cells, codes = (column.astype(np.int64) for column in came.columns[:2])
            came.keep(self.cap.keeps(cells, codes))
            self._thinned = came, came.version, marks, marks.version

    def first_days(self, cells: Sequence[int]) -> FirstDays:
        """The users of these cells together, with their first day in any of them."""
        self.reduce()
        ascending = np.array(sorted(cells), np.int64)
        share = min(self.cap.shares(ascending), default=1.0)
        _, (codes, newest) = self.relations["came"].of(ascending)
        sampled = self.cap.unit_hashes(codes) < share
        (users,), (latest,) = group_sum([codes[sampled]], [newest[sampled]], np.maximum)
        hashes = users.view(np.uint64)
        order = np.argsort(hashes)
        return FirstDays(hashes[order], -latest[order], int(2**64 * share))

    def over(self, metric: str, cells: Sequence[int]) -> UserTotals:
        """The sums of the users who have a mean, over all of these cells together."""
        hashes, numerators, denominators, share = self.totals(metric, cells)
        some = denominators > 0
        return UserTotals(hashes[some], numerators[some], denominators[some], share)

    def totals(self, metric: str, cells: Sequence[int]) -> UserTotals:
        """The users' sums of one metric over all of these cells together."""
        self.reduce()
        ascending = np.array(sorted(cells), np.int64)
        share = min(self.cap.shares(ascending), default=1.0)
        column, width = self.options.metrics.index(metric), len(self.options.metrics)
        _, (hashes, *counts) = self.relations["sums"].of(ascending)
        # Cells may be thinned at unlike thresholds; all users below the smallest are in each.
        sampled = self.cap.unit_hashes(hashes) < share
        sums_of_metric = [counts[column][sampled], counts[width + column][sampled]]
        (users,), (numerators, denominators) = group_sum([hashes[sampled]], sums_of_metric)
        return UserTotals(users, numerators, denominators, share)

    def lists(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """The number of lists of each of these cells, and of those without a user."""
        self.reduce()
        return lists_with_users(self.relations["lists"], cells)
