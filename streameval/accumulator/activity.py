"""Metrics of an experiment per user: how often users come, and how much they click."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import Audience, GroupSums
from streameval.statistics.users import user_groups

NEVER: Final = 2**31
"""A day after all others."""

Counted: TypeAlias = Literal["lists", "clicks", "means"]
"""Of each user: the number of lists or clicks, or the mean over the user's lists."""


class Judged(NamedTuple):
    """A metric of an experiment.

    Attributes:
        counted: what is known of each user; None for a mean over lists or items.
    """

    text: str
    higher_is_better: bool | None
    counted: Counted | None = None


LISTS_PER_USER: Final = Judged("lists_per_user", higher_is_better=None, counted="lists")
USER_METRICS: Final = (
    LISTS_PER_USER,
    Judged("clicks_per_user", higher_is_better=True, counted="clicks"),
)


class Activity(NamedTuple):
    """Lists, their items and clicks of one variant by event day and user group.

    Attributes:
        sums: clicks as numerators, lists as denominators.
        items: items shown; shape as that of the sums.
    """

    sums: GroupSums
    items: FloatArray

    @property
    def lengths(self) -> GroupSums:
        """Items shown over lists."""
        return self.sums._replace(numerators=self.items)

    def until(self, day: int) -> Activity:
        """The activity up to a day."""
        here = self.sums.days <= day
        return Activity(self.sums.rows(here), self.items[here])

    def first_day(self, audience: Audience) -> int:
        """The first day with all lists of the users, days since the epoch; NEVER if there is none.

        If lists came before they were counted here, the first day is not whole.
        """
        begin = int(self.sums.days.min(initial=NEVER))
        if (audience.days < begin).any():
            return begin + 1
        return int(audience.days.min(initial=NEVER))

    def per_user(self, audience: Audience, counted: Counted, first: int) -> GroupSums:
        """Counts and users by user group, of all days from `first` on together.

        Above the cap of users, counts are scaled to the share of users that are kept: the mean is
        then an estimate, and its error is that of the user groups.
        """
        days, clicks, lists = self.sums
        counts = (clicks if counted == "clicks" else lists.astype(np.float64))[days >= first]
        share = audience.threshold / 2**64
        width = lists.shape[1]
        here = user_groups(audience.since(first).hashes, width)
        users = np.bincount(here, minlength=width)
        return GroupSums(np.zeros(1, np.int64), share * counts.sum(axis=0)[None], users[None])


def activity_of(clicks: GroupSums, lists: GroupSums) -> Activity:
    """The activity from the sums of clicks over items, and of a metric that has all lists."""
    # Either may be counted only since the experiment was configured.
    here = lists.days >= clicks.days.min(initial=NEVER)
    days, counts = lists.days[here], lists.denominators[here]
    numerators, items = np.zeros((2, *counts.shape))
    there, here = np.isin(days, clicks.days), np.isin(clicks.days, days)
    numerators[there], items[there] = clicks.numerators[here], clicks.denominators[here]
    return Activity(GroupSums(days, numerators, counts), items)
