"""Users of a family over its lifetime: their hashes and sums, and sums by group and event day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from streameval.accumulator.inputs import one_kind
from streameval.accumulator.kinds.groups import groups_of
from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.statistics.arrays import IntArray, distinct
from streameval.statistics.groups import MOST_DAYS, Groups
from streameval.statistics.relation import Relation, next_version
from streameval.statistics.statistic import Statistic
from streameval.statistics.user_sums import UserSums
from streameval.statistics.users import Users

ByUser: TypeAlias = Users | UserSums
"""A statistic with a row for each user."""


class UsersCopy(NamedTuple):
    """The users of a family at one moment, for reading on any thread.

    Attributes:
        days: sums by user group, by event day.
        by_user: statistics with a row for each user, by name.
    """

    days: Mapping[int, Table]
    by_user: Mapping[str, ByUser]


class FamilyUsers:
    """The users, and sums by user group and event day; a cell is the number of a slice.

    They outlast panes: a comparison spans days, and a returning user counts once. The newest 90
    days of a slice are stored separately; older days are added to the oldest of these.

    `like`: an empty table of the family.
    """

    def __init__(self, like: Table) -> None:
        self._like, self._empty = like, like.empty(like.plan.at("day"))
        self.days: dict[int, Table] = {}
        self.by_user = by_user_of(like.empty(like.plan.at("lifetime")))
        self.version = next_version()
        self._copies: dict[int, tuple[int, Table]] = {}
        self._copied: tuple[int, Mapping[str, ByUser]] | None = None
        self._changed: set[int] = set()

    def day(self, day: int) -> Table:
        """The table of an event day."""
        if day not in self.days:
            # The days before are mostly over: join the parts of those that changed.
            for before in self._changed & self.days.keys():
                self.days[before].join()
            self._changed.clear()
            self.days[day] = self._empty.empty()
        self._changed.add(day)
        return self.days[day]

    def rename(self, renames: Mapping[int, int]) -> None:
        """Give slices other numbers; slices with the same new number are summed."""
        for table in self.days.values():
            if not renames.keys().isdisjoint(table.cells.tolist()):
                table.rename(renames)
        for statistic in self.by_user.values():
            if not renames.keys().isdisjoint(statistic.cells.tolist()):
                statistic.rename(renames)
                self.version = next_version()
        self.sum_up_days()

    def copy(self) -> FamilyUsers:
        """An independent copy."""
        copy = FamilyUsers(self._like)
        copy.days = {day: table.copy() for day, table in self.days.items()}
        copy.by_user = {name: statistic.copy() for name, statistic in self.by_user.items()}
        return copy

    def copied(self, *, frozen: bool = False) -> UsersCopy:
        """A copy for readers; `frozen`: True if these users do not change any more."""
        if frozen:
            return UsersCopy(dict(self.days), self.by_user)
        self._copies = {at: table.copied(self._copies.get(at)) for at, table in self.days.items()}
        if self._copied is None or self._copied[0] != self.version:
            copies = {name: statistic.copy() for name, statistic in self.by_user.items()}
            self._copied = self.version, copies
        days = {day: table for day, (_, table) in self._copies.items()}
        return UsersCopy(days, self._copied[1])

    def sum_up_days(self) -> None:
        """Add the excess days of slices with more than 90 to the oldest day that remains."""
        if len(self.days) <= MOST_DAYS:
            return
        days_of_cell: defaultdict[int, list[int]] = defaultdict(list)
        for day in sorted(self.days, reverse=True):
            for cell in self.days[day].cells.tolist():
                days_of_cell[cell].append(day)
        full = {cell: days for cell, days in days_of_cell.items() if len(days) > MOST_DAYS}
        firsts = {cell: days[MOST_DAYS - 1] for cell, days in full.items()}
        for day in sorted(self.days) if firsts else ():
            table = self.days[day]
            moved = [cell for cell in table.cells.tolist() if firsts.get(cell, day) > day]
            for cell in moved:
                first, alone = firsts[cell], table.select(np.array([cell]))
                if (groups := groups_of(alone)) is not None:
                    dated, events = groups.dated(first), alone.events
                    alone = alone.empty(alone.plan.at("day"))
                    alone.set_statistics(dict.fromkeys(alone.statistics, dated), events)
                self.days[first].add(alone)
            if len(moved) == table.cells.size:
                del self.days[day]
            elif moved:
                self.days[day] = table.select(np.setdiff1d(table.cells, moved))


def by_user_of(table: Table) -> dict[str, ByUser]:
    """The statistics of a table with a row for each user, by name."""
    statistics = table.statistics.items()
    return {
        name: statistic for name, statistic in statistics if isinstance(statistic, Users | UserSums)
    }


def users_alone(by_user: Mapping[str, ByUser], like: Table) -> Table:
    """Statistics by user as a table that can be saved and loaded."""
    table = like.empty(like.plan.at("lifetime"))
    table.set_statistics({name: by_user[name] for name in table.statistics})
    return table


def with_users(events: Table, days: Table, by_user: Mapping[str, ByUser], plan: Plan) -> Table:
    """Events together with their users and the users' sums, for reading only."""
    table = days.empty(plan)
    statistics = {**events.copy().statistics, **days.copy().statistics, **by_user}
    selected = {name: statistics[name] for name in table.statistics}
    table.set_statistics(selected, events.events.copy())
    return table


def add_users(table: Table, bits: int, users_at: Mapping[int, FamilyUsers]) -> None:
    """Add the statistics by user of a table to the users of families.

    `bits`: number of lower bits of a cell, its slice. `users_at`: upper bits -> users of a family.
    """
    indexes = {users: index for index, users in enumerate(dict.fromkeys(users_at.values()))}
    index_of = np.zeros(max(users_at, default=0) + 1, np.int64)
    index_of[[*users_at]] = [indexes[users] for users in users_at.values()]
    _add_by_day(table, bits, index_of, [*indexes])
    for name, statistic in by_user_of(table).items():
        before = [(users, users.by_user[name].version) for users in indexes]
        cells = statistic.cells
        new_cells = index_of[cells >> bits] << bits
        if not (isinstance(statistic, UserSums) and statistic.is_pre_period):
            new_cells |= cells & ((1 << bits) - 1)
        renamed: Any = statistic.copy()
        names = zip(cells.tolist(), new_cells.tolist(), strict=True)
        # Not `UserSums.rename`: in this table, sums of a pre-period have a cell for each family.
        Statistic.rename(renamed, {cell: name for cell, name in names if cell != name})
        renamed.distribute(bits, {at: users.by_user[name] for users, at in indexes.items()})
        for users, version in before:
            if users.by_user[name].version != version:
                users.version = next_version()


def _add_by_day(
    table: Table, bits: int, index_of: IntArray, families: Sequence[FamilyUsers]
) -> None:
    """Add the sums by user group to the days of their families."""
    groups = groups_of(table)
    if groups is None:
        return
    groups.reduce()
    cells, days, _, lists = (
        column.astype(np.int64) for column in groups.relations["lists"].columns
    )
    distinct_days = distinct(days)

    def day_of_family(cells: IntArray, days: IntArray) -> IntArray:
        day = np.searchsorted(distinct_days, days)
        return np.asarray(index_of[cells >> bits] * distinct_days.size + day)

    used = distinct(day_of_family(cells, days))

    def cells_by_day(cells: IntArray, days: IntArray) -> IntArray:
        by_day = np.searchsorted(used, day_of_family(cells, days)) << bits
        return np.asarray(by_day | (cells & ((1 << bits) - 1)))

    by_day = groups.empty()
    for name, relation in groups.relations.items():
        columns = [column.astype(np.int64) for column in relation.columns]
        by_day.relations[name] = relation.like([cells_by_day(*columns[:2]), *columns[1:]])
    events = Relation(table.events.shape)
    events.add([cells_by_day(cells, days)], [lists])
    targets = [
        families[index].day(int(distinct_days[day]))
        for index, day in map(divmod, used.tolist(), repeat(distinct_days.size))
    ]
    by_day.distribute(bits, {at: cast("Groups", groups_of(day)) for at, day in enumerate(targets)})
    for at, part in events.split(bits):
        targets[at].events.merge(part)
    for day_table in targets:
        day_table.ids = one_kind("ids", table.ids, day_table.ids)
        day_table.version = next_version()
    for users in families:
        users.sum_up_days()
