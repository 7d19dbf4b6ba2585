"""Users of a family over its lifetime: their hashes and sums, and sums by group and event day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.statistics.arrays import distinct
from streameval.statistics.groups import MOST_DAYS
from streameval.statistics.relation import next_version
from streameval.statistics.statistic import Statistic


class UsersCopy(NamedTuple):
    """The users of a family at one moment, for reading on any thread.

    Attributes:
        days: sums by user group, by event day.
        by_user: statistics with a row for each user, by name.
    """

    days: Mapping[int, Table]
    by_user: Mapping[str, Statistic]


class FamilyUsers:
    """The users, and sums by user group and event day; a cell is the number of a slice.

    They outlast panes: a comparison spans days, and a returning user counts once. The newest 90
    days of a slice are stored separately; older days are added to the oldest of these.

    `like`: an empty table of the family.
    """

    def __init__(self, like: Table) -> None:
        self._like, self._empty = like, like.empty(like.plan.at("day"))
        self.days: dict[int, Table] = {}
        self.by_user = dict(like.empty(like.plan.at("lifetime")).statistics)
        self.version = next_version()
        self._copies: dict[int, tuple[int, Table]] = {}
        self._copied: tuple[int, Mapping[str, Statistic]] | None = None
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
                specs, sums = alone.plan.by_name, alone.statistics
                alone.set_statistics({name: specs[name].on_day(sums[name], first) for name in sums})
                self.days[first].add(alone)
            if len(moved) == table.cells.size:
                del self.days[day]
            elif moved:
                self.days[day] = table.select(np.setdiff1d(table.cells, moved))


def users_alone(by_user: Mapping[str, Statistic], like: Table) -> Table:
    """Statistics by user as a table that can be saved and loaded."""
    table = like.empty(like.plan.at("lifetime"))
    table.set_statistics({name: by_user[name] for name in table.statistics})
    return table


def with_users(events: Table, days: Table, by_user: Mapping[str, Statistic], plan: Plan) -> Table:
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
    families = [*dict.fromkeys(users_at.values())]
    index_of = np.zeros(max(users_at, default=0) + 1, np.int64)
    index_of[[*users_at]] = [families.index(users) for users in users_at.values()]
    like, days = table.empty(table.plan.at("day")), dict[int, Table]()
    for name, statistic in table.statistics.items():
        spec = table.plan.by_name[name]
        if spec.scopes.isdisjoint(("day", "lifetime")):
            continue
        cells = statistic.cells
        new_cells = index_of[cells >> bits] << bits
        if not spec.shares_cells:
            new_cells |= cells & ((1 << bits) - 1)
        by_family: Any = statistic.copy()
        names = zip(cells.tolist(), new_cells.tolist(), strict=True)
        # Not a `rename` of its own: cells that slices share have one for each family in this table.
        Statistic.rename(by_family, {cell: name for cell, name in names if cell != name})
        if "day" in spec.scopes:
            for day, part, lists in spec.by_day(by_family):
                if day not in days:
                    days[day] = like.empty()
                days[day].set_statistics({**days[day].statistics, name: part}, lists)
            continue
        before = [users.by_user[name].version for users in families]
        by_family.distribute(bits, {at: users.by_user[name] for at, users in enumerate(families)})
        for users, version in zip(families, before, strict=True):
            if users.by_user[name].version != version:
                users.version = next_version()
    for day, sums in days.items():
        indexes = distinct(sums.cells >> bits).tolist()
        sums.distribute(bits, {at: families[at].day(day) for at in indexes})
    for users in families if days else ():
        users.sum_up_days()
