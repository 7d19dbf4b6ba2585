"""Users of a family over its lifetime: their hashes and sums, and sums by group and event day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from streameval.accumulator.plan import Plan
from streameval.accumulator.table import Table
from streameval.statistics.groups import MOST_DAYS, Groups
from streameval.statistics.relation import Relation, next_version
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
    days of a slice are kept apart; older days are added to the oldest of these.

    `like`: an empty table of the family.
    """

    def __init__(self, like: Table) -> None:
        self._like = like
        self.days: dict[int, Table] = {}
        self.by_user = by_user_of(like.empty(like.plan.of_users))
        self.version = next_version()
        self._copies: dict[int, tuple[int, Table]] = {}
        self._copied: tuple[int, Mapping[str, ByUser]] | None = None

    def add(self, table: Table, bits: int) -> None:
        """Add what a table counted by user."""
        for day, part in _by_day(table, bits).items():
            if day in self.days:
                self.days[day].add(part)
            else:
                self.days[day] = part
        self._sum_up_days()
        self.merge(table, bits)

    def merge(self, table: Table, bits: int) -> None:
        """Add the statistics by user of a table."""
        added = by_user_of(table)
        for name, statistic in self.by_user.items():
            version, part = statistic.version, cast("Any", _below(added[name], bits))
            statistic.merge(part)
            if statistic.version != version:
                self.version = next_version()

    def rename(self, moves: Mapping[int, int]) -> None:
        """Give slices other numbers; slices with the same new number are summed."""
        for table in self.days.values():
            if not moves.keys().isdisjoint(table.cells.tolist()):
                table.rename(moves)
        for statistic in self.by_user.values():
            if not moves.keys().isdisjoint(statistic.cells.tolist()):
                statistic.rename(moves)
                self.version = next_version()
        self._sum_up_days()

    def copy(self) -> FamilyUsers:
        """An independent copy."""
        twin = FamilyUsers(self._like)
        twin.days = {day: table.copy() for day, table in self.days.items()}
        twin.by_user = {name: statistic.copy() for name, statistic in self.by_user.items()}
        return twin

    def copied(self, *, frozen: bool = False) -> UsersCopy:
        """A copy for readers; `frozen`: whether what is here does not change any more."""
        if frozen:
            return UsersCopy(dict(self.days), self.by_user)
        self._copies = {at: table.copied(self._copies.get(at)) for at, table in self.days.items()}
        if self._copied is None or self._copied[0] != self.version:
            copies = {name: statistic.copy() for name, statistic in self.by_user.items()}
            self._copied = self.version, copies
        days = {day: table for day, (_, table) in self._copies.items()}
        return UsersCopy(days, self._copied[1])

    def _sum_up_days(self) -> None:
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
                self.days[firsts[cell]].add(
                    _move_to_day(table.select(np.array([cell])), firsts[cell])
                )
            if len(moved) == table.cells.size:
                del self.days[day]
            elif moved:
                self.days[day] = table.select(np.setdiff1d(table.cells, moved))


def by_user_of(table: Table) -> dict[str, ByUser]:
    """The statistics of a table with a row for each user, by name."""
    statistics = table.statistics.items()
    return {name: each for name, each in statistics if isinstance(each, Users | UserSums)}


def users_alone(by_user: Mapping[str, ByUser], like: Table) -> Table:
    """Statistics by user as a table that can be saved and loaded."""
    table = like.empty(like.plan.of_users)
    table.set_statistics({name: by_user[name] for name in table.statistics})
    return table


def with_users(events: Table, days: Table, by_user: Mapping[str, ByUser], plan: Plan) -> Table:
    """Events together with their users and the users' sums, for reading only."""
    table = days.empty(plan)
    statistics = {**events.copy().statistics, **days.copy().statistics, **by_user}
    chosen = {name: statistics[name] for name in table.statistics}
    table.set_statistics(chosen, events.events.copy())
    return table


def _below(statistic: ByUser, bits: int) -> ByUser:
    """A copy whose cells have only the lower bits."""
    copy, lower = statistic.copy(), (1 << bits) - 1
    copy.rename({cell: cell & lower for cell in statistic.cells.tolist() if cell > lower})
    return copy


def _by_day(table: Table, bits: int) -> dict[int, Table]:
    """The sums by user group of each event day; the lower bits of a cell are its number."""
    tables: dict[int, Table] = {}
    for day, groups in table.groups.by_day(bits).items() if table.groups else ():
        tables[day] = _of_groups(table, groups)
        cells, _, _, lists = groups.relations["lists"].columns
        tables[day].events.add([cells], [lists])
    return tables


def _move_to_day(table: Table, day: int) -> Table:
    """The table with all sums by user group moved to one day."""
    if table.groups is None:
        return table
    return _of_groups(table, table.groups.dated(day), table.events)


def _of_groups(like: Table, groups: Groups, events: Relation | None = None) -> Table:
    table = like.empty(like.plan.by_day)
    table.set_statistics(dict.fromkeys(table.statistics, groups), events)
    return table
