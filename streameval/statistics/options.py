"""Options of the statistics: what a plan consists of, and what states that merge must share.

Those of hits are in `lists`, those of values in `distributions`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from streameval.statistics.distributions import CAP

MAX_ITEMS: Final = 1_000_000
MAX_PAIRS: Final = 1_000_000

MOST_USERS: Final = 16_384
"""Users kept per cell, except of an experiment."""

EXPERIMENT_USERS: Final = 2 * 262_144
"""Users kept of each variant of an experiment; thinning halves them, so 262,144 stay."""

PANE_USERS: Final = 512
"""Users of a pane or window whose sums are kept."""

Exposed: TypeAlias = Literal["items", "users", "users_with_hits"]
"""What is counted: items shown, users who were shown an item, or users with a hit."""

Positive: TypeAlias = Literal["relevant", "one"]
"""Positive items: those with a gain above 0 (an id has gain 1), or with a gain of exactly 1."""


class ExposuresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of items shown; only equal options merge.

    Attributes:
        cutoff: cut-off k; None for the whole list.
        max_items: largest number of distinct items of a cell that are counted exactly.
        of: what is counted; a user has the rank of the list's first item or first hit.
    """

    cutoff: int | None = None
    max_items: int = MAX_ITEMS
    of: Exposed = "items"


class PairingsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of pairings; only equal options merge.

    Attributes:
        cutoff: cut-off k; None for the whole list.
        max_rows: largest number of pairs of item and length that a cell counts exactly.
    """

    cutoff: int | None = None
    max_rows: int = MAX_PAIRS


class PlacementsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of placements; only equal options merge.

    Attributes:
        by: name of the attribute that gives the kinds.
        type: the type of interactions that count; "" for all types.
    """

    by: str = ""
    type: str = ""


class RankSumsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of rank sums; only equal options merge.

    Attributes:
        positive: which items are positive; an item without an interaction is negative.
        single: whether scores are rounded to 32-bit floats, which creates more ties.
        type: the type of interactions that count; "" for all types.
    """

    positive: Positive = "relevant"
    single: bool = False
    type: str = ""


class ScoresOptions(RankSumsOptions, frozen=True, kw_only=True):
    """Options of a statistic of scores; only equal options merge.

    Attributes:
        cap: largest number of distinct scores of a cell; beyond it, all its scores are binned.
    """

    cap: int = CAP


class GroupsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of sums by user group.

    Attributes:
        groups: number of user groups, a power of 2.
        daily: whether sums are kept by event day.
        metrics: `Metric.per_list` of each metric.
    """

    groups: int = 256
    daily: bool = True
    metrics: tuple[str, ...] = ()

    def within(self, other: GroupsOptions) -> bool:
        """Whether the sums of `other` can be merged into sums with these options.

        Groups are the lower bits of a hash, so many groups can be merged into fewer.
        """
        finer = other.groups >= self.groups and other.daily >= self.daily
        return finer and self.metrics == other.metrics


class UsersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic of users; only equal options merge.

    Attributes:
        max_users: largest number of users kept per cell.
    """

    max_users: int = MOST_USERS


class UserSumsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of sums by user.

    Attributes:
        max_users: largest number of users kept per cell.
        metrics: `Metric.per_list` of each metric.
        days: the only event days that count, the second one excluded; None: all.
    """

    max_users: int = MOST_USERS
    metrics: tuple[str, ...] = ()
    days: tuple[int, int] | None = None
