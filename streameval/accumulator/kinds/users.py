"""The distinct users of each cell, whose number an experiment checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

import numpy as np

from streameval.accumulator.counting import CountedBatch
from streameval.accumulator.inputs import InputIdentities
from streameval.accumulator.kinds.groups import groups_of
from streameval.accumulator.kinds.spec import CountedTable, PlanLimits, Scope, StatisticSpec
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.events.extras import LazyModule
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Audience
from streameval.statistics.limits import MOST_USERS
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.statistics import users as statistics
    from streameval.statistics.users import Users
else:
    statistics = LazyModule("streameval.statistics.users")

_NAME: Final = "users"


class UsersSpec(StatisticSpec, frozen=True, kw_only=True):
    """Distinct users; `max_users`: largest number of them kept per cell."""

    scopes: ClassVar[frozenset[Scope]] = frozenset(("lifetime",))
    is_optional: ClassVar[bool] = True

    max_users: int

    @property
    def name(self) -> str:
        """See `StatisticSpec`."""
        return _NAME

    @property
    def order(self) -> tuple[int, str]:
        """See `StatisticSpec`."""
        return 5, ""

    @property
    def keeps_days(self) -> bool:
        """See `StatisticSpec`."""
        return True

    @property
    def descriptions(self) -> tuple[str, ...]:
        """See `StatisticSpec`."""
        return (f"at most {self.max_users} users",)

    @property
    def reads_users(self) -> bool:
        """See `StatisticSpec`."""
        return True

    def joined(self, other: UsersSpec) -> UsersSpec:
        """See `StatisticSpec`."""
        return UsersSpec(max_users=max(self.max_users, other.max_users))

    def within(self, other: UsersSpec) -> bool:
        """See `StatisticSpec`."""
        return self.max_users <= other.max_users

    def inputs(self, context: Context) -> InputIdentities:
        """See `StatisticSpec`."""
        return super().inputs(context) | context.of_users

    def make(self, items: Items, _context: Context) -> Users:
        """See `StatisticSpec`."""
        return statistics.Users(statistics.UsersOptions(max_users=self.max_users), items)

    def count(self, statistic: Users, counting: CountedBatch) -> None:
        """See `StatisticSpec`."""
        users = counting.users
        named = slice(None) if users.named.all() else users.named
        statistic.add(users.cells[named], users.hashes[named], users.days[named])


def interval_users(
    _metrics: Sequence[Metric], _limits: PlanLimits, groups: int
) -> Iterator[StatisticSpec]:
    """The users that are kept beside intervals."""
    if groups:
        yield UsersSpec(max_users=MOST_USERS)


def distinct_users(table: CountedTable) -> Users | None:
    """The distinct users of a table, if it has them."""
    return cast("Users | None", table.at_slot(_NAME))


def audiences(table: CountedTable, cells: IntArray) -> list[Audience]:
    """The users of each of these cells; empty if users are not kept."""
    groups, users = groups_of(table), distinct_users(table)
    if groups is None or users is None:
        return []
    table.flush()
    pairs = zip(cells.tolist(), users.view(cells), strict=True)
    return [Audience(*sample, *groups.lists_by_day(np.array([cell]))) for cell, sample in pairs]
