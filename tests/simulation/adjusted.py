"""Worlds of users who were there before the experiment, which adjusts its values by what they did.

Each trial is judged as people read it: by the checks, and by the sentences of the verdicts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np

from streameval.accumulator.kinds.experiment import Activity, PrePeriod
from streameval.analyses.experiments.adjustment import CLICKS, LISTS, Before
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Report
from streameval.catalogue import parse
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.statistics.intervals import UNIT, GroupSums, Intervals, Method
from streameval.statistics.user_sums import UserTotals
from tests.crowds import audience_of
from tests.present import present
from tests.simulation.bars import GROUPS, Bar, at_least, at_most, between, claims

SINCE: Final = date(2026, 3, 1)
BEGIN: Final = SINCE.toordinal() - date(1970, 1, 1).toordinal()
DAYS: Final = 14
ITEMS: Final = 5
PERIOD: Final = PrePeriod(since=SINCE, days=28)
_ENOUGH: Final = 20.0
"""Evidence of an anytime claim at 95 %."""


class World(NamedTuple):
    """Users with a past.

    Attributes:
        width: the interval, by that without adjusting: from and to.
        users: in both variants together.
        rate: mean click-through rate.
        tail: Pareto shape of activity.
        redrawn: share of users with another taste than before.
        new: share of users who were not there before.
        share: of the users who get the treatment.
        ramp: whether a tenth of the users get it in the first week, and half of them later.
        lift: of every chance of a click in the treatment.
        often: how much more often users of the treatment come.
        eager: relative number of clicks before the experiment of those who get the treatment.
    """

    width: tuple[float, float]
    users: int = 4_000
    rate: float = 0.1
    tail: float = 3.0
    redrawn: float = 0.0
    new: float = 0.0
    share: float = 0.5
    ramp: bool = False
    lift: float = 0.0
    often: float = 0.0
    eager: float = 0.0

    def report(self, seed: int, method: Method) -> Report:
        """What is printed of one look."""
        random = np.random.default_rng([seed, 9])
        size = self.users
        activity = np.minimum(1.0 + random.pareto(self.tail, size), 50.0) / 6.0
        taste = random.beta(6.0 * self.rate, 6.0 * (1.0 - self.rate), size)
        before = random.poisson(PERIOD.days * activity) * (random.random(size) >= self.new)
        again = np.where(random.random(size) < self.redrawn, random.permutation(taste), taste)
        due = random.poisson(activity, (DAYS, size))
        first = np.where(due.any(axis=0), (due > 0).argmax(axis=0), DAYS)
        share = np.where(first < DAYS // 2, 0.1, 0.5) if self.ramp else self.share
        treated = random.random(size) < share
        more = random.poisson(activity * self.often * treated, due.shape) * (due > 0)
        chances = again * (1 + self.lift * treated), taste * (1 + self.eager * treated)
        clicks, past = (
            random.binomial(ITEMS * lists, np.minimum(chance, 1.0))
            for lists, chance in zip((due + more, before), chances, strict=True)
        )
        hashes = random.integers(0, 2**64, size, np.uint64)
        variants = {
            name: _variant(hashes[arm], due[:, arm] + more[:, arm], clicks[:, arm])
            for name, arm in (("control", ~treated), ("b", treated))
        }
        shares: Any = {"control": 1.0 - self.share, "b": self.share}
        if self.ramp:
            later = date.fromordinal(SINCE.toordinal() + DAYS // 2)
            shares = [
                {"since": SINCE, "control": 9, "b": 1},
                {"since": later, "control": 1, "b": 1},
            ]
        experiment = Experiment(since=SINCE, primary=["ctr"], shares=shares)
        known = _before(hashes, before, past, before > 0)
        metrics = [parse("ctr")]
        return compare_with_control(
            experiment, metrics, variants, Intervals(), method, before=known
        )


def _variant(hashes: np.ndarray[Any, Any], lists: IntArray, clicks: IntArray) -> Variant:
    """`lists`, `clicks`: by day and user."""
    day, user = np.nonzero(lists)
    code, size = day * GROUPS + (hashes[user] % GROUPS).astype(np.int64), DAYS * GROUPS
    above, below = (
        np.bincount(code, part[day, user], size).reshape(DAYS, GROUPS) for part in (clicks, lists)
    )
    days = BEGIN + np.arange(DAYS)
    listed = below.astype(np.int64)
    sums = GroupSums(days, above.astype(np.float64), ITEMS * listed)
    activity = Activity(sums._replace(denominators=listed), ITEMS * below.astype(np.float64))
    audience = audience_of(hashes[user], BEGIN + day)
    return Variant({"ctr": sums}, audience, activity)


def _before(
    hashes: np.ndarray[Any, Any], lists: IntArray, clicks: IntArray, known: BoolArray
) -> Before:
    codes = hashes[known].view(np.int64)
    order = np.argsort(codes)
    whole = np.rint(clicks[known][order] / UNIT).astype(np.int64)
    of_clicks = UserTotals(codes[order], whole, ITEMS * lists[known][order], 1.0)
    of_lists = of_clicks._replace(denominators=lists[known][order])
    return Before(PERIOD, {CLICKS: of_clicks, LISTS: of_lists}, 0.0)


WORLDS: Final = {
    "stable tastes": World((0.5, 0.75)),
    "half of the tastes redrawn": World((0.75, 1.0), redrawn=0.5),
    "half of the users new": World((0.7, 0.92), new=0.5),
    "a long tail of activity": World((0.3, 0.7), tail=1.5),
    "ctr 1 %": World((0.6, 1.0), rate=0.01),
    "150 an arm": World((0.5, 0.85), users=300),
    "a thin arm": World((0.5, 0.8), users=6_000, share=0.05),
    "a ramp on which the active come early": World((0.3, 0.85), ramp=True, tail=1.5),
    "treatment comes half as often again": World((0.5, 0.8), often=0.5),
}


def bars(
    seed: int, runs: int, chosen: Collection[str] = WORLDS.keys(), *, others: bool = True
) -> Iterator[Bar]:
    """The promises about adjusted values; `others`: about an effect, and users who differed."""
    for number, (name, world) in enumerate(WORLDS.items()):
        if name in chosen:
            seeds = [(seed * 100 + number) * 10_000 + run for run in range(runs)]
            yield from _without_effect(f"adjusted, {name}", world, seeds)
    if not others:
        return
    seeds = [seed * 10_000 + run for run in range(runs)]
    lifted = World((0, 1), lift=0.08)
    rows = [lifted.report(each, "fixed").rows[0] for each in seeds]
    covered = [present(row.lift_low) <= lifted.lift <= present(row.lift_high) for row in rows]
    yield at_least("adjusted, ctr +8 %: its lift covered", 0.95, covered)
    yield at_least("adjusted, ctr +8 %: found", 0.4, [claims(row) for row in rows])
    eager = World((0, 1), users=6_000, eager=0.25)
    troubles = [eager.report(each, "fixed").checks.trouble for each in seeds]
    found = [any(text.startswith("clicks per list of b's users") for text in of) for of in troubles]
    yield at_least("adjusted, b's users clicked 25 % more before: a check says so", 0.75, found)


def _without_effect(name: str, world: World, seeds: Sequence[int]) -> Iterator[Bar]:
    looks = [world.report(seed, "fixed") for seed in seeds]
    said = [claims(report.rows[0]) for report in looks]
    yield at_most(f"{name}: a sentence claims a difference in ctr", 0.05, said)
    alarms = [bool(report.checks.trouble) for report in looks]
    yield at_most(f"{name}: a check raises an alarm", 0.002, alarms)
    saved = [report.rows[0].narrower for report in looks]
    widths = [1.0 - share for share in saved if share is not None]
    yield between(f"{name}: width by that of plain values", *world.width, widths)
    rows = [world.report(seed, "anytime").rows[0] for seed in seeds]
    ever = [any(day.evidence > _ENOUGH for day in row.days) for row in rows]
    yield at_most(f"{name}: any alarm, looked at daily", 0.05, ever)
