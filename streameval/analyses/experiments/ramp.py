"""A ramp: users are compared with those who were assigned by the same shares.

Users who come late differ from earlier ones. A day of a ramp has newcomers, who were assigned by
new shares, and users who were assigned by old ones, so that after a change the treatment has more
newcomers than control. Among users whom the same shares assigned, the arms are alike at any age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from streameval.inference.interval_formulas import MOST_ANONYMOUS
from streameval.statistics.arrays import IntArray, distinct, sums
from streameval.statistics.intervals import UNIT, Audience, GroupSums
from streameval.statistics.user_sums import UserTotals
from streameval.statistics.users import HashArray, user_groups

_MOST_OF_ALL: Final = 1.0 - 2.0 * MOST_ANONYMOUS
_MOST_OF_A_SAMPLE: Final = 0.8
"""Share of the lists since the first day from which on all are counted: of all users, or of a
sample; lists without a user are in no sum of a user."""


def assignment_rows(came: IntArray, changes: Sequence[int]) -> IntArray:
    """The row of users by their first day: equal for those whom the same shares assigned.

    Users of the day of a change may have either shares, and have a row of their own.

    Example:
        >>> assignment_rows(np.array([19, 20, 21, 22]), [20, 22]).tolist()
        [0, 1, 2, 3]
    """
    days = np.array(changes, np.int64)
    return np.asarray(2 * np.searchsorted(days, came, side="right") - np.isin(came, days))


class Cohorts(NamedTuple):
    """The users of a variant from the first day of an experiment on, and what they did since.

    Attributes:
        days: the first and the last day; None: without an end.
        hashes: of the users, ascending; shape (users,).
        came: first day of each since then, since the epoch.
        threshold: all users with a smaller hash are included; 2^64 if all are.
        lists: number of their lists, and of those without a user.
        totals: text of a metric -> its sums by user.
    """

    days: tuple[date, date | None]
    hashes: HashArray
    came: IntArray
    threshold: int
    lists: int
    totals: Mapping[str, UserTotals]

    def covers(self, metric: str, sums_by_day: GroupSums | None, lists: int) -> bool:
        """True if all lists since the first day were counted, and a metric of them.

        `sums_by_day`: of the metric, over the same days. `lists`: number of lists of these days.
        """
        totals = self.totals.get(metric)
        if totals is None or sums_by_day is None or self.lists < _MOST_OF_ALL * lists:
            return False
        counted = float(totals.denominators.sum()) / totals.share
        # Users of a sample may have more or fewer lists than others.
        least = _MOST_OF_ALL if totals.share == 1.0 else _MOST_OF_A_SAMPLE
        return counted >= least * float(sums_by_day.denominators.sum())

    def by_row(self, metric: str, changes: Sequence[int], groups: int) -> GroupSums:
        """The sums of a metric by row instead of day, and by user group; see `assignment_rows`."""
        hashes, numerators, denominators, _ = self.totals[metric]
        users = hashes.view(np.uint64)
        rows = assignment_rows(self.came[np.searchsorted(self.hashes, users)], changes)
        named = distinct(rows)
        code = np.searchsorted(named, rows) * groups + user_groups(users, groups)
        shape = named.size, groups
        above, below = (
            sums(code, column, named.size * groups).reshape(shape)
            for column in (numerators, denominators)
        )
        return GroupSums(named, np.asarray(above * UNIT, np.float64), below)

    def join(self, other: Cohorts | None) -> Cohorts:
        """The users with the metrics of another family of the same lists added."""
        if other is None:
            return self
        return self._replace(totals={**self.totals, **other.totals})

    def among(self, audience: Audience) -> Audience:
        """An audience of these users, with their first day since `since`."""
        return audience._replace(
            hashes=self.hashes, first=self.came, last=self.came, threshold=self.threshold
        )
