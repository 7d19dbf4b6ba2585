"""Worlds drawn from a seed: who the users are, how they come back, and what they click."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.intervals import GroupSums

METRICS = ("ctr", "hit_rate", "mrr")
_LISTS_A_USER = 6.0
_MOST_OF_ONE = 0.05


class TrafficKind(NamedTuple):
    """One kind of traffic.

    Attributes:
        users: in all variants together.
        days: length of the experiment.
        tail: Pareto shape of activity; small is heavy, to one user with 5 % of a variant's lists.
        likeness: how alike a user's clicks are: the beta distribution's a + b.
        rate: mean click-through rate.
        share: of the users who get the treatment.
        items: length of a list.
    """

    users: int
    days: int
    tail: float
    likeness: float
    rate: float
    share: float
    items: int

    @classmethod
    def drawn(cls, seed: int) -> Self:
        """The world of a seed."""
        random = np.random.default_rng([seed, 1])
        rate = float(np.exp(random.uniform(np.log(0.01), np.log(0.2))))
        # Users who are less alike than this would be a few who click and many who never do.
        alike = max(float(np.exp(random.uniform(np.log(4), np.log(15)))), 0.5 / rate)
        return cls(
            users=int(random.integers(3_000, 7_000)),
            days=int(random.integers(8, 16)),
            tail=float(random.uniform(1.3, 3.0)),
            likeness=alike,
            rate=rate,
            share=float(random.choice([0.2, 0.35, 0.5])),
            items=int(random.integers(3, 11)),
        )


class Traffic(NamedTuple):
    """Lists of one variant.

    Attributes:
        day: of each list.
        user: who got it, a number from 0.
        clicks: on which of its items; shape (lists, items).
    """

    day: IntArray
    user: IntArray
    clicks: NDArray[np.bool_]

    def of(self, metric: str) -> tuple[FloatArray, IntArray]:
        """Numerator and denominator of each list, as the metric's definition says."""
        lists, items = self.clicks.shape
        if metric == "ctr":
            return self.clicks.sum(axis=1).astype(np.float64), np.full(lists, items)
        hit = self.clicks.any(axis=1)
        rank = self.clicks.argmax(axis=1) + 1
        value = np.divide(hit, rank if metric == "mrr" else 1, dtype=np.float64)
        return value, np.ones(lists, np.int64)

    def sums(self, metric: str, days: int, owner: IntArray, owners: int) -> GroupSums:
        """By day and owner, of which each list has one: its user group, or its user."""
        codes = self.day * owners + owner
        above, below = (
            np.bincount(codes, amounts, days * owners).reshape(days, owners).astype(np.float64)
            for amounts in self.of(metric)
        )
        return GroupSums(np.arange(days), above, below.astype(np.int64))


class Users(NamedTuple):
    """Users of one run.

    Attributes:
        activity: mean number of lists a day on days when they come.
        comes: whether they come, by day; shape (days, users).
        taste: chance of a click on an item.
    """

    activity: FloatArray
    comes: NDArray[np.bool_]
    taste: FloatArray

    @classmethod
    def drawn(cls, world: TrafficKind, random: np.random.Generator) -> Self:
        """New users: each begins on some day and comes back on a share of days of their own."""
        users = world.users
        activity = 1.0 + random.pareto(world.tail, users)
        begins = random.integers(0, world.days, users) * (random.random(users) < 0.5)
        loyal = random.beta(1.0, 2.0, users)
        day = np.arange(world.days)[:, None]
        comes = (day >= begins) & ((random.random((world.days, users)) < loyal) | (day == begins))
        weight = activity * comes.sum(axis=0)
        most = _MOST_OF_ONE * min(world.share, 1.0 - world.share) * weight.sum()
        activity *= np.minimum(1.0, most / weight)
        activity *= _LISTS_A_USER * users / (activity * comes.sum(axis=0)).sum()
        alike = world.likeness
        taste = random.beta(alike * world.rate, alike * (1 - world.rate), users)
        return cls(activity, comes, taste)

    def traffic(
        self,
        world: TrafficKind,
        random: np.random.Generator,
        here: NDArray[np.bool_],
        lift: float = 0.0,
        mood: FloatArray | float = 1.0,
    ) -> Traffic:
        """What they do.

        Args:
            world: of theirs.
            random: where chance is from.
            here: who is in this variant, by day and user.
            lift: of every user's chance of a click.
            mood: factor on the chance of a click, by day; shape (days, 1).
        """
        lists = random.poisson(self.activity * (self.comes & here))
        day, user = (
            np.repeat(indices.ravel(), lists.ravel()) for indices in np.indices(lists.shape)
        )
        taste = np.minimum(self.taste * (1.0 + lift) * mood * np.ones((world.days, 1)), 1.0)
        chance = taste[day, user][:, None]
        return Traffic(day, user, random.random((day.size, world.items)) < chance)
