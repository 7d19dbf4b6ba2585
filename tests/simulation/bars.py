"""Each promise as a bar: a rate measured over runs, or a number that must lie between two."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from streameval.analyses.experiments.comparison import Comparison
from streameval.analyses.experiments.sample_ratio import ALARM, ratio_evidence
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Compared, Report
from streameval.catalogue import parse
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, Intervals, Method
from tests.crowds import audience_of
from tests.simulation.selection import LIMIT, a_tenth, everywhere, stated
from tests.simulation.systems import System
from tests.simulation.worlds import METRICS, Traffic, TrafficKind, Users

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


def at_most(name: str, rate: float, outcomes: Sequence[bool]) -> Bar:
    """A share of runs may not be above a rate; fails where that many are too unlikely."""
    count = sum(outcomes)
    chance = sum(_binomial(k, len(outcomes), rate) for k in range(count, len(outcomes) + 1))
    text = f"{count} of {len(outcomes)}, at most {rate:.1%}"
    return Bar(name, text, chance >= UNLIKELY)


def mean_at_most(name: str, most: float, values: Sequence[float]) -> Bar:
    """The mean of shares may not be above a number; more only by chance."""
    mean, room = float(np.mean(values)), 3.1 * float(np.std(values)) / math.sqrt(len(values))
    return Bar(name, f"{mean:.1%}, at most {most:.1%}", mean <= most + room)


def at_least(name: str, rate: float, outcomes: Sequence[bool]) -> Bar:
    """A share of runs may not be below a rate; likewise."""
    missed = at_most(name, 1.0 - rate, [not outcome for outcome in outcomes])
    return missed._replace(measured=f"{sum(outcomes)} of {len(outcomes)}, at least {rate:.1%}")


def between(name: str, low: float, high: float, values: Sequence[float]) -> Bar:
    """The mean must lie between two numbers."""
    mean = float(np.mean(values)) if values else math.nan
    return Bar(name, f"{mean:.2f}, from {low:g} to {high:g}", low <= mean <= high)


def steady(name: str, most: float, values: Sequence[float]) -> Bar:
    """The standard deviation by the mean may not be above a share; more only by chance."""
    share = float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 else math.nan
    # A sample's deviation is above its own by 3.1 of its standard errors in one of 1,000 cases.
    room = 1.0 + 3.1 / math.sqrt(2.0 * max(len(values) - 1, 1))
    return Bar(name, f"{share:.1%}, at most {most:.0%}", share <= most * room)


def _binomial(k: int, n: int, rate: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(rate) + (n - k) * math.log1p(-rate))


_CLAIM = re.compile(r" is (better|worse) than |differs from ")


def claims(row: Compared) -> bool:
    """Whether the printed sentence claims a difference."""
    return _CLAIM.search(row.sentence) is not None


class Run(NamedTuple):
    """One experiment of a world.

    Attributes:
        world: that it is of.
        control: what control's users did.
        treatment: what the treatment's did.
        groups: of each of their lists.
        hashes: of all users.
        named: whether a user has an id.
    """

    world: TrafficKind
    control: Traffic
    treatment: Traffic
    groups: tuple[IntArray, IntArray]
    hashes: NDArray[np.uint64]
    named: NDArray[np.bool_]

    def report(self, kind: Kind) -> Report:
        """What is printed about one look at all metrics."""
        both = {metric: self.sums(metric) for metric in METRICS}
        variants = {}
        for side, name in enumerate(("control", "treatment")):
            day, user, _ = (self.control, self.treatment)[side]
            seen = audience_of(self.hashes[user], day, self.named[user])
            variants[name] = Variant({metric: sums[side] for metric, sums in both.items()}, seen)
        share = self.world.share
        shares = {"control": 1.0 - share, "treatment": share}
        experiment = Experiment(shares=shares, same_users=kind.same_users)
        return compare_with_control(
            experiment, [*map(parse, METRICS)], variants, Intervals(), "fixed"
        )

    def sums(self, metric: str) -> tuple[GroupSums, GroupSums]:
        days = self.world.days
        return (
            self.control.sums(metric, days, self.groups[0], GROUPS),
            self.treatment.sums(metric, days, self.groups[1], GROUPS),
        )

    def oracle(self, metric: str) -> Oracle:
        """What the raw lists of each user say of the difference, day by day."""
        days, users = self.world.days, self.world.users
        control_sums, other = (
            traffic.sums(metric, days, traffic.user, users)
            for traffic in (self.control, self.treatment)
        )
        totals = [sums_.denominators.sum(axis=1) for sums_ in (control_sums, other)]
        both = (totals[0] > 0) & (totals[1] > 0)
        weight = np.where(both, totals[0] * totals[1] / np.maximum(totals[0] + totals[1], 1), 0.0)
        weight = weight / weight.sum()
        (value, first), (changed, second) = (
            _by_user(sums_, weight) for sums_ in (control_sums, other)
        )
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


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        number: its own; runs of one number have the same users.
        name: for people.
        same_users: whether every user is in both variants.
        ramp: whether the treatment starts small, while people click less day by day.
        anonymous: share of users whose lists do not name them.
        widths: whether the widths are measured, and an effect is looked for.
        looked_once: whether it is held to what one look promises.
    """

    number: int
    name: str
    same_users: bool = False
    ramp: bool = False
    anonymous: float = 0.0
    widths: bool = False
    looked_once: bool = True


KINDS = (
    Kind(1, "separate users", widths=True),
    Kind(2, "the same users", same_users=True, widths=True),
    Kind(5, "on a ramp", ramp=True),
    Kind(6, "20 % of users without an id", anonymous=0.2, looked_once=False),
)


class Found(NamedTuple):
    """What one run without an effect showed.

    Attributes:
        peeked: by metric, whether any of daily looks raised an alarm.
        fixed: by metric, whether the one look at the end did.
        widths: by metric, half widths in standard errors as an oracle finds them by user: of one
            look, and of anytime bounds at their tightest.
        effect: whether an effect of five standard errors was found, and its lift covered.
        claimed: whether a printed sentence claims a difference.
        alarmed: whether a check raises an alarm.
    """

    peeked: dict[str, bool]
    fixed: dict[str, bool]
    widths: dict[str, tuple[float, float]]
    effect: tuple[bool, bool] | None
    claimed: bool
    alarmed: bool


class Simulation:
    """Runs of one world.

    Args:
        seed: of the world and of all chance.
        runs: number of runs of each bar.
        system: that compares.
    """

    def __init__(self, seed: int, runs: int, system: System) -> None:
        self.world = TrafficKind.drawn(seed)
        self.seed, self.runs, self.system = seed, runs, system

    def bars(self) -> Iterator[Bar]:
        for kind in KINDS:
            yield from _bars(kind, [self.run_result(kind, number) for number in range(self.runs)])
        yield from self._splits()
        yield from self._selections()

    def run_result(self, kind: Kind, number: int) -> Found:
        """What a run of this number shows."""
        run = self._run(kind, number)
        peeked, fixed, widths = {}, {}, {}
        for metric in METRICS:
            control, treatment = run.sums(metric)
            peeked[metric] = self.system.alarms(control, treatment)
            look = self._compared(control, treatment, "fixed")
            fixed[metric] = look.excludes_zero
            if kind.widths:
                value, error, *_ = run.oracle(metric)
                best = self._compared(control, treatment, "anytime", TIGHTEST * error / value)
                widths[metric] = _half(look) / error, _half(best) / error
        effect = self._effect(kind, number, run.oracle("ctr")) if kind.widths else None
        report = run.report(kind)
        claimed = any(map(claims, report.rows))
        return Found(peeked, fixed, widths, effect, claimed, bool(report.checks.trouble))

    def _effect(self, kind: Kind, number: int, oracle: Oracle) -> tuple[bool, bool]:
        """The same users and lists with an effect of five of their standard errors."""
        lift = oracle.effect(5.0)
        precision = TIGHTEST * _length(oracle.treatment - oracle.control)
        sums = self._run(kind, number, lift).sums("ctr")
        look = self._compared(*sums, "anytime", precision)
        low, high = look.lift_low, look.lift_high
        covered = low is not None and high is not None and low <= lift <= high
        return look.excludes_zero, covered

    def _splits(self) -> Iterator[Bar]:
        random = np.random.default_rng([self.seed, 3])
        for share, name in ((0.5, "50:50"), (0.48, "48:52")):
            first = random.binomial(20_000, share, 5 * self.runs)
            alarms = [
                ratio_evidence([count, 20_000 - count], [0.5, 0.5]) >= ALARM
                for count in first.tolist()
            ]
            bar = at_most if share == 0.5 else at_least
            limit = 1 / ALARM if share == 0.5 else 0.85
            yield bar(f"20,000 users split {name}: alarm", limit, alarms)

    def _selections(self) -> Iterator[Bar]:
        """Of 36 comparisons, what is stated about those that stand out."""
        random = np.random.default_rng([self.seed, 4])
        runs = range(max(self.runs // 5, 3))
        for method in get_args(Method):
            for name, lifted in (("a tenth at +10 %", a_tenth), ("all at +5 %", everywhere)):
                shares = [stated(random, lifted(random), method).false_share for _ in runs]
                yield mean_at_most(f"36 comparisons, {name}, {method}: false bounds", 0.05, shares)
            broken = [stated(random, everywhere(random, LIMIT), method).broken for _ in runs]
            yield at_most(f"36 guardrails at their limit, {method}: any broken", 0.05, broken)

    def _compared(
        self, control: GroupSums, treatment: GroupSums, method: Method, precision: float = 0.02
    ) -> Comparison:
        return self.system.compare(control, treatment, method, precision)

    def _run(self, kind: Kind, number: int, lift: float = 0.0) -> Run:
        """A run with users of its own."""
        world = self.world
        day = np.arange(world.days)[:, None] / world.days
        share = np.where(day < 1 / 3, 0.05, np.where(day < 2 / 3, 0.2, 0.5))
        random = np.random.default_rng([self.seed, 2, kind.number, number])
        users = Users.drawn(world, random)
        treated = random.random(world.users) < (share if kind.ramp else world.share)
        mood = 1 - 0.2 * day * kind.ramp
        arms = [
            users.traffic(world, random, (treated == side) | kind.same_users, lift * side, mood)
            for side in (0, 1)
        ]
        hashes = random.integers(0, 2**64, world.users, np.uint64)
        group = (hashes % GROUPS).astype(np.int64)
        nameless = random.random(world.users) < (kind.anonymous if self.system.by_user else 1.0)
        groups = [
            np.where(nameless[arm.user], random.integers(0, GROUPS, arm.user.size), group[arm.user])
            for arm in arms
        ]
        return Run(world, arms[0], arms[1], (groups[0], groups[1]), hashes, ~nameless)


def _bars(kind: Kind, results: Sequence[Found]) -> Iterator[Bar]:
    for metric in METRICS:
        name = f"A/A, {kind.name}, {metric}"
        peeked = [run.peeked[metric] for run in results]
        yield at_most(f"{name}: any alarm, looked at daily", 0.05, peeked)
        if kind.looked_once:
            once = [run.fixed[metric] for run in results]
            yield at_most(f"{name}: alarm at one look", 0.065, once)
        if kind.widths:
            # One user with most of the lists is rightly refused: too few users, no interval.
            widths = [run.widths[metric] for run in results]
            refused = [any(map(math.isnan, pair)) for pair in widths]
            yield at_most(f"{name}: no interval", 0.01, refused)
            fixed, anytime = zip(
                *(pair for pair, no in zip(widths, refused, strict=True) if not no), strict=True
            )
            yield between(f"{name}: half width, fixed", 1.8, 2.35, fixed)
            yield between(f"{name}: half width, anytime at best", 2.7, 3.7, anytime)
            yield steady(f"{name}: width varies", 0.12, fixed)
    claimed = [run.claimed for run in results]
    yield at_most(f"A/A, {kind.name}: a sentence claims a difference", 0.05, claimed)
    if kind.widths:
        alarmed = [run.alarmed for run in results]
        yield at_most(f"A/A, {kind.name}: a check raises an alarm", 0.002, alarmed)
        effects = [run.effect for run in results if run.effect is not None]
        seen, covered = zip(*effects, strict=True)
        yield at_least(f"{kind.name}: an effect of 5 standard errors found", 0.8, seen)
        yield at_least(f"{kind.name}: its lift covered", 0.95, covered)


def _half(comparison: Comparison) -> float:
    if comparison.low is None or comparison.high is None:
        return math.nan
    return (comparison.high - comparison.low) / 2
