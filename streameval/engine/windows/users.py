"""Users of a family over its lifetime: their hashes, and sums by user group and event day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from streameval.accumulator.plan import USER_SUMS_PREFIX, Plan
from streameval.accumulator.table import Table
from streameval.statistics.groups import MOST_DAYS, Groups
from streameval.statistics.relation import Relation, next_version
from streameval.statistics.user_sums import UserSums, UserSumsOptions
from streameval.statistics.users import Users, UsersOptions
from streameval.statistics.vocabulary import Items

S = TypeVar("S", Users, UserSums)


class UsersCopy(NamedTuple):
    """The users of a family at one moment, for reading on any thread.

    Attributes:
        sums: sums by user; None if no mean is over users.
    """

    days: Mapping[int, Table]
    users: Users
    sums: UserSums | None = None


class FamilyUsers:
    """The users, and sums by user group and event day; a cell is the number of a slice.

    They outlast panes: a comparison spans days, and a returning user counts once. The newest 90
    days of a slice are kept apart; older days are added to the oldest of these.
    """

    def __init__(self, plan: Plan) -> None:
        self.days: dict[int, Table] = {}
        self.users = Users(UsersOptions(max_users=plan.users), Items())
        self.sums = user_sums_of(plan)
        self.version = next_version()
        self._copies: dict[int, tuple[int, Table]] = {}
        self._copied: tuple[int, Users, UserSums | None] | None = None

    def add(self, table: Table, bits: int) -> None:
        """Add what a table counted by user."""
        for day, part in _by_day(table, bits).items():
            if day in self.days:
                self.days[day].add(part)
            else:
                self.days[day] = part
        self._sum_up_days()
        if table.audience is not None:
            self.add_users(_below(table.audience, bits))
        if table.user_sums is not None:
            self.add_sums(_below(table.user_sums, bits))

    def add_users(self, users: Users) -> None:
        """Add users of slices."""
        before = self.users.version
        self.users.merge(users)
        if self.users.version != before:
            self.version = next_version()

    def add_sums(self, sums: UserSums) -> None:
        """Add sums by user of slices."""
        if self.sums is not None and sums.cells.size:
            self.sums.merge(sums)
            self.version = next_version()

    def rename(self, moves: Mapping[int, int]) -> None:
        """Give slices other numbers; slices with the same new number are summed."""
        for table in self.days.values():
            if not moves.keys().isdisjoint(table.cells.tolist()):
                table.rename(moves)
        if not moves.keys().isdisjoint(self.users.cells.tolist()):
            self.users.rename(moves)
            self.version = next_version()
        if self.sums is not None and not moves.keys().isdisjoint(self.sums.cells.tolist()):
            self.sums.rename(moves)
            self.version = next_version()
        self._sum_up_days()

    def copied(self) -> UsersCopy:
        """A copy for readers."""
        self._copies = {at: table.copied(self._copies.get(at)) for at, table in self.days.items()}
        if self._copied is None or self._copied[0] != self.version:
            sums = None if self.sums is None else self.sums.copy()
            self._copied = self.version, self.users.copy(), sums
        days = {day: table for day, (_, table) in self._copies.items()}
        return UsersCopy(days, *self._copied[1:])

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


def user_sums_of(plan: Plan) -> UserSums | None:
    """Empty sums by user over the lifetime; None if no mean is over users."""
    if not plan.user_sums:
        return None
    metrics = tuple(metric.per_list for metric in plan.per_user)
    return UserSums(UserSumsOptions(max_users=plan.user_sums, metrics=metrics), Items())


def users_alone(users: Users, sums: UserSums | None, like: Table) -> Table:
    """Users and their sums as a table that can be saved and loaded."""
    table = like.empty(like.plan.of_users)
    table.set_statistics({name: _chosen(name, users, sums) for name in table.statistics})
    return table


def with_users(
    events: Table, days: Table, users: tuple[Users, UserSums | None], plan: Plan
) -> Table:
    """Events together with their users and the users' sums, for reading only."""
    table = days.empty(plan)
    by_user = {name: _chosen(name, *users) for name in table.empty(plan.of_users).statistics}
    statistics = {**events.copy().statistics, **days.copy().statistics, **by_user}
    chosen = {name: statistics[name] for name in table.statistics}
    table.set_statistics(chosen, events.events.copy())
    return table


def _chosen(name: str, users: Users, sums: UserSums | None) -> Users | UserSums:
    return sums if sums is not None and name.startswith(USER_SUMS_PREFIX) else users


def _below(statistic: S, bits: int) -> S:
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
