"""Sums by user since the first day of an experiment, with the day on which each user came first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streameval.statistics.arrays import IntArray, group_sum
from streameval.statistics.relation import Shape
from streameval.statistics.user_sums import UserSums
from streameval.statistics.users import HashArray, ListUsers


class FirstDays(NamedTuple):
    """Users and their first days.

    Attributes:
        hashes: of the users, ascending; shape (users,).
        first: first day of each since the experiment began, since the epoch.
        threshold: all users with a smaller hash are here; 2^64 if all are.
    """

    hashes: HashArray
    first: IntArray
    threshold: int


class CohortSums(UserSums):
    """Sums by user of the days since an experiment began, which a ramp compares users by.

    A variant has a cell of its own, unlike in the days before. Values of a list above 2^20 count as
    2^20; see `UserSums`.

    Relations:
        came: (cell, hash) -> minus the first day, which combines by the maximum; of the users that
            `sums` has. The others are those of `UserSums`.
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        **UserSums.shapes,
        "came": Shape(keys=2, combine=np.maximum),
    }
    _thinned: tuple[Any, ...] = ()

    @property
    def is_pre_period(self) -> bool:
        """Never: variants divide these days."""
        return False

    def take(self, users: ListUsers, terms: Sequence[Any]) -> None:
        """Add lists, with the terms of each metric."""
        first, end = self.options.days or (0, 0)
        codes = users.hashes.view(np.int64)
        here = (users.days >= first) & (users.days < end) & users.named
        here &= self.cap.keeps(users.cells, codes)
        self.relations["came"].add([users.cells[here], codes[here]], [-users.days[here]])
        super().take(users, terms)

    def reduce(self) -> None:
        """Thin the cells that are too large, and the days of users who are left out."""
        super().reduce()
        came, marks = self.relations["came"], self.cap.marks
        if not marks.size or self._thinned == (came, came.version, marks, marks.version):
            return
        cells, codes = (column.astype(np.int64) for column in came.columns[:2])
        came.keep(self.cap.keeps(cells, codes))
        self._thinned = came, came.version, marks, marks.version

    def first_days(self, cells: Sequence[int]) -> FirstDays:
        """The users of these cells together, with their first day in any of them."""
        self.reduce()
        here = np.array(sorted(cells), np.int64)
        share = min(self.cap.shares(here), default=1.0)
        _, (codes, newest) = self.relations["came"].of(here)
        sampled = self.cap.unit_hashes(codes) < share
        (users,), (latest,) = group_sum([codes[sampled]], [newest[sampled]], np.maximum)
        hashes = users.view(np.uint64)
        order = np.argsort(hashes)
        return FirstDays(hashes[order], -latest[order], int(2**64 * share))
