"""Each promise as a bar: a rate measured over runs, or a number that must lie between two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streameval.accumulator.checks import ALARM, ratio_evidence
from streameval.accumulator.comparison import Comparison, Method
from streameval.statistics.intervals import FloatArray, GroupSums, IntArray
from tests.simulation.events import kept
from tests.simulation.systems import System
from tests.simulation.worlds import METRICS, Traffic, Users, World

GROUPS = 256
UNLIKELY = 0.001
TIGHTEST = 3.035
"""Standard errors of an anytime interval at its tightest, at 95 %."""


class Bar(NamedTuple):
    """One promise and what was measured.

    Attributes:
        name: what is promised.
        measured: as text.
        passed: whether it holds, or may hold but for chance below 0.001.
    """

    name: str
    measured: str
    passed: bool


def at_most(name: str, rate: float, found: Sequence[bool]) -> Bar:
    """A share of runs may not be above a rate; fails where that many are too unlikely."""
    count = sum(found)
    chance = sum(_binomial(k, len(found), rate) for k in range(count, len(found) + 1))
    text = f"{count} of {len(found)}, at most {rate:.1%}"
    return Bar(name, text, chance >= UNLIKELY)


def at_least(name: str, rate: float, found: Sequence[bool]) -> Bar:
    """A share of runs may not be below a rate; likewise."""
    missed = at_most(name, 1.0 - rate, [not each for each in found])
    return missed._replace(measured=f"{sum(found)} of {len(found)}, at least {rate:.1%}")


def between(name: str, low: float, high: float, found: Sequence[float]) -> Bar:
    """The mean must lie between two numbers."""
    mean = float(np.mean(found)) if found else math.nan
    return Bar(name, f"{mean:.2f}, from {low:g} to {high:g}", low <= mean <= high)


def steady(name: str, most: float, found: Sequence[float]) -> Bar:
    """The standard deviation by the mean may not be above a share; more only by chance."""
    share = float(np.std(found, ddof=1) / np.mean(found)) if len(found) > 1 else math.nan
    # A sample's deviation is above its own by 3.1 of its standard errors in one of 1,000 cases.
    room = 1.0 + 3.1 / math.sqrt(2.0 * max(len(found) - 1, 1))
    return Bar(name, f"{share:.1%}, at most {most:.0%}", share <= most * room)


def _binomial(k: int, n: int, rate: float) -> float:
    return math.comb(n, k) * rate**k * (1.0 - rate) ** (n - k)


class Run(NamedTuple):
    """One experiment of a world.

    Attributes:
        world: that it is of.
        control: what control's users did.
        treatment: what the treatment's did.
        groups: of each of their lists.
    """

    world: World
    control: Traffic
    treatment: Traffic
    groups: tuple[IntArray, IntArray]

    def sums(self, metric: str) -> tuple[GroupSums, GroupSums]:
        """By day and group."""
        days = self.world.days
        return (
            self.control.sums(metric, days, self.groups[0], GROUPS),
            self.treatment.sums(metric, days, self.groups[1], GROUPS),
        )

    def oracle(self, metric: str) -> Oracle:
        """What the raw lists of each user say of the difference, day by day."""
        days, users = self.world.days, self.world.users
        one, other = (
            each.sums(metric, days, each.user, users) for each in (self.control, self.treatment)
        )
        totals = [each.denominators.sum(axis=1) for each in (one, other)]
        both = (totals[0] > 0) & (totals[1] > 0)
        weight = np.where(both, totals[0] * totals[1] / np.maximum(totals[0] + totals[1], 1), 0.0)
        weight = weight / weight.sum()
        (value, first), (changed, second) = (_by_user(each, weight) for each in (one, other))
        return Oracle(value, _length(second - first), first / value, second / changed)


class Oracle(NamedTuple):
    """What is known by user.

    Attributes:
        value: of control.
        error: standard error of the difference.
        control: what each user adds to control's value, relative to it.
        treatment: likewise.
    """

    value: float
    error: float
    control: FloatArray
    treatment: FloatArray

    def effect(self, errors: float) -> float:
        """The lift whose difference is so many of its standard errors, which grow with it."""
        low, high = 0.0, 8.0
        for _ in range(50):
            lift = (low + high) / 2
            far = lift > errors * _length((1.0 + lift) * self.treatment - self.control)
            low, high = (low, lift) if far else (lift, high)
        return high


def _by_user(sums: GroupSums, weight: FloatArray) -> tuple[float, FloatArray]:
    """A mean over days, and what each user adds to it."""
    totals = np.maximum(sums.denominators.sum(axis=1), 1)[:, None]
    values = sums.numerators.sum(axis=1)[:, None] / totals
    parts = weight[:, None] * (sums.numerators - values * sums.denominators) / totals
    return float(weight @ values[:, 0]), parts.sum(axis=0)


def _length(parts: FloatArray) -> float:
    return math.sqrt(float(np.square(parts).sum()))


class Simulation:
    """Runs of one world.

    Args:
        seed: of the world and of all chance.
        runs: number of runs of each bar.
        system: that compares.
    """

    def __init__(self, seed: int, runs: int, system: System) -> None:
        self.world = World.drawn(seed)
        self.seed, self.runs, self.system = seed, runs, system

    def bars(self) -> Iterator[Bar]:
        """All promises."""
        for name, holds in kept(self.world, self.seed, self.system.counted):
            yield Bar(f"events: {name}", "yes" if holds else "no", holds)
        plain = list(self._each(1))
        yield from self._without_effect("A/A", plain)
        yield from self._widths("separate users", plain)
        paired = list(self._each(2, same_users=True))
        yield from self._without_effect("A/A, the same users", paired)
        yield from self._widths("the same users", paired)
        yield from self._with_effect("separate users", plain, same_users=False)
        yield from self._with_effect("the same users", paired, same_users=True)
        yield from self._without_effect("A/A on a ramp", list(self._each(5, ramp=True)))
        lossy = list(self._each(6, anonymous=0.2))
        yield from self._without_effect(
            "A/A, 20 % of users without an id", lossy, looked_once=False
        )
        yield from self._splits()

    def _without_effect(
        self, name: str, runs: Sequence[Run], *, looked_once: bool = True
    ) -> Iterator[Bar]:
        for metric in METRICS:
            peeked, fixed = [], []
            for run in runs:
                control, treatment = run.sums(metric)
                looks = (
                    self._compared(_until(control, day), _until(treatment, day), "anytime")
                    for day in range(1, run.world.days + 1)
                )
                peeked.append(any(look.excludes_zero for look in looks))
                fixed.append(self._compared(control, treatment, "fixed").excludes_zero)
            yield at_most(f"{name}, {metric}: any alarm, looked at daily", 0.05, peeked)
            if looked_once:
                yield at_most(f"{name}, {metric}: alarm at one look", 0.065, fixed)

    def _widths(self, name: str, runs: Sequence[Run]) -> Iterator[Bar]:
        """Half widths in standard errors as an oracle finds them by user."""
        for metric in METRICS:
            fixed, anytime = [], []
            for run in runs:
                value, error, *_ = run.oracle(metric)
                sums = run.sums(metric)
                fixed.append(_half(self._compared(*sums, "fixed")) / error)
                precision = TIGHTEST * error / value
                anytime.append(_half(self._compared(*sums, "anytime", precision)) / error)
            yield between(f"{name}, {metric}: half width, fixed", 1.8, 2.35, fixed)
            yield between(f"{name}, {metric}: half width, anytime at best", 2.7, 3.7, anytime)
            yield steady(f"{name}, {metric}: width varies", 0.12, fixed)

    def _with_effect(self, name: str, runs: Sequence[Run], *, same_users: bool) -> Iterator[Bar]:
        """The same users and lists with an effect of five of their standard errors."""
        oracles = [run.oracle("ctr") for run in runs]
        lifts = [each.effect(5.0) for each in oracles]
        changed = self._each(1 + same_users, lifts=lifts, same_users=same_users)
        found, covered = [], []
        for run, lift, oracle in zip(changed, lifts, oracles, strict=True):
            precision = TIGHTEST * _length(oracle.treatment - oracle.control)
            look = self._compared(*run.sums("ctr"), "anytime", precision)
            found.append(look.excludes_zero)
            low, high = look.lift_low, look.lift_high
            covered.append(low is not None and high is not None and low <= lift <= high)
        yield at_least(f"{name}: an effect of 5 standard errors found", 0.8, found)
        yield at_least(f"{name}: its lift covered", 0.95, covered)

    def _splits(self) -> Iterator[Bar]:
        random = np.random.default_rng([self.seed, 3])
        for share, name in ((0.5, "50:50"), (0.48, "48:52")):
            first = random.binomial(20_000, share, 5 * self.runs)
            found = [
                ratio_evidence([int(one), 20_000 - int(one)], [0.5, 0.5]) >= ALARM for one in first
            ]
            bar = at_most if share == 0.5 else at_least
            limit = 1 / ALARM if share == 0.5 else 0.85
            yield bar(f"20,000 users split {name}: alarm", limit, found)

    def _compared(
        self, control: GroupSums, treatment: GroupSums, method: Method, precision: float = 0.02
    ) -> Comparison:
        return self.system.compare(control, treatment, method, precision)

    def _each(
        self,
        number: int,
        *,
        lifts: Sequence[float] | None = None,
        same_users: bool = False,
        ramp: bool = False,
        anonymous: float = 0.0,
    ) -> Iterator[Run]:
        """Runs, each with users of its own.

        Args:
            number: of this kind of run.
            lifts: of the treatment, one for each run; none by default.
            same_users: whether every user is in both variants.
            ramp: whether the treatment starts small, while people click less day by day.
            anonymous: share of users whose lists do not name them.
        """
        world = self.world
        day = np.arange(world.days)[:, None] / world.days
        share = np.where(day < 1 / 3, 0.05, np.where(day < 2 / 3, 0.2, 0.5))
        for run, lift in enumerate(lifts or [0.0] * self.runs):
            random = np.random.default_rng([self.seed, 2, number, run])
            users = Users.drawn(world, random)
            treated = random.random(world.users) < (share if ramp else world.share)
            arms = [
                users.traffic(
                    world, random, (treated == side) | same_users, lift * side, 1 - 0.2 * day * ramp
                )
                for side in (0, 1)
            ]
            group = random.integers(0, GROUPS, world.users)
            nameless = random.random(world.users) < (anonymous if self.system.by_user else 1.0)
            groups = [
                np.where(
                    nameless[each.user],
                    random.integers(0, GROUPS, each.user.size),
                    group[each.user],
                )
                for each in arms
            ]
            yield Run(world, arms[0], arms[1], (groups[0], groups[1]))


def _until(sums: GroupSums, days: int) -> GroupSums:
    return GroupSums(sums.days[:days], sums.numerators[:days], sums.denominators[:days])


def _half(found: Comparison) -> float:
    if found.low is None or found.high is None:
        return math.nan
    return (found.high - found.low) / 2
