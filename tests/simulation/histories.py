"""Users with a past, and an experiment on them: public events, with labels as a log has them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from streameval import ComparisonReport, compare

SINCE: Final = date(2026, 3, 1)
DAYS: Final = 14
BEFORE: Final = 28
_FIRST_SECOND: Final = (SINCE - date(1970, 1, 1)).days * 86_400
_ITEMS: Final = ["a", "b", "c", "d", "e"]

Label: TypeAlias = Literal["nobody", "control", "last week", "arms", "anew"]
"""Who has a label before the experiment: everyone control's, on all days or those of the last week;
both arms their own; or both one that was assigned apart from the arms."""


class World(NamedTuple):
    """Users with a past.

    Attributes:
        users: in both variants together.
        rate: mean click-through rate.
        tail: Pareto shape of activity.
        redrawn: share of users with another taste than before.
        new: share of users who were not there before.
        share: of the users who get the treatment.
        ramp: first day of each share of the treatment, and the share; empty for `share` always.
        newcomers: how much less often half of the users click, who first come in the experiment.
        lift: of every chance of a click in the treatment.
        often: how much more often users of the treatment come.
        eager: relative number of clicks before the experiment of those who get the treatment.
        label: of lists from before the experiment.
        treated: days before the experiment on which the treatment had begun.
    """

    users: int = 3_000
    rate: float = 0.1
    tail: float = 3.0
    redrawn: float = 0.0
    new: float = 0.0
    share: float = 0.5
    ramp: tuple[tuple[int, float], ...] = ()
    newcomers: float = 0.0
    lift: float = 0.0
    often: float = 0.0
    eager: float = 0.0
    label: Label = "nobody"
    treated: int = 0

    def compared(self, seed: int, **how: Any) -> ComparisonReport:
        """What `compare` says of one experiment."""
        shares: Any = {"control": 1.0 - self.share, "b": self.share}
        if self.ramp:
            shares = [
                {"since": SINCE + timedelta(day), "control": 1.0 - share, "b": share}
                for day, share in self.ramp
            ]
        settings: dict[str, Any] = {"since": SINCE, "primary": "ctr", "shares": shares}
        report = compare(
            self.log(seed), "ctr", columns={"time": "time"}, time_unit="s", **(settings | how)
        )
        assert isinstance(report, ComparisonReport)
        return report

    def log(self, seed: int) -> pa.Table:
        """The lists, one a row."""
        random, size = np.random.default_rng([seed, 9]), self.users
        activity = np.minimum(1.0 + random.pareto(self.tail, size), 50.0) / 6.0
        taste = random.beta(6.0 * self.rate, 6.0 * (1.0 - self.rate), size)
        again = np.where(random.random(size) < self.redrawn, random.permutation(taste), taste)
        lists = random.poisson(activity, (BEFORE + DAYS, size))
        lists[:BEFORE, random.random(size) < self.new] = 0
        if self.newcomers:
            comes = np.where(random.random(size) < 0.5, random.integers(1, DAYS, size), 0) + BEFORE
            lists[comes, np.arange(size)] += 1
            late = comes > BEFORE
            lists[(np.arange(BEFORE + DAYS)[:, None] < comes) & late] = 0
            again = again * np.where(late, 1.0 - self.newcomers, 1.0)
        here = lists[BEFORE:] > 0
        first = np.where(here.any(axis=0), here.argmax(axis=0), DAYS)
        share = np.full(size, self.share)
        for start, of_day in self.ramp:
            share[first >= start] = of_day
        treated = random.random(size) < share
        more = random.poisson(activity * self.often * treated, (DAYS, size))
        lists[BEFORE:] += np.where(here, more, 0)
        row, user = (np.repeat(index.ravel(), lists.ravel()) for index in np.indices(lists.shape))
        day = row - BEFORE
        chance = np.where(day < 0, taste[user], again[user])
        chance *= 1.0 + self.eager * (treated[user] & (day < 0))
        chance *= 1.0 + self.lift * (treated[user] & (day >= -self.treated))
        clicks = random.binomial(len(_ITEMS), np.minimum(chance, 1.0))
        return pa.table(
            {
                "recommendations": pa.array([_ITEMS]).take(pa.array(np.zeros_like(user))),
                "interactions": pa.array([_ITEMS[:count] for count in range(6)]).take(
                    pa.array(clicks)
                ),
                "user": pa.array(user + 1_000_000 * (seed % 1_000_000)).cast(pa.string()),
                "variant": self._variants(random, day, user, treated),
                "time": pa.array(_FIRST_SECOND + 86_400 * day),
            }
        )

    def _variants(self, random: np.random.Generator, day: Any, user: Any, treated: Any) -> pa.Array:
        """The label of each list; None for those without."""
        earlier = random.random(self.users) < 0.5
        # Places in the names below.
        of_past = {
            "nobody": np.full(day.size, 2),
            "control": np.zeros_like(day),
            "last week": np.where(day >= -7, 0, 2),
            "arms": treated[user].astype(int),
            "anew": earlier[user].astype(int),
        }[self.label]
        of_past = np.where((day >= -self.treated) & (of_past < 2), treated[user], of_past)
        return pa.array(["control", "b", None]).take(
            pa.array(np.where(day >= 0, treated[user], of_past))
        )
