"""Worlds at the edges of a comparison: thin arms, unequal arms of long tails, ramps, bots.

Each trial is judged as people read it: by the checks, and by the sentence of the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Report
from streameval.catalogue import parse
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, Intervals, Method
from tests.crowds import audience_of
from tests.simulation.bars import GROUPS, Bar, at_least, at_most, claims

DAYS: Final = 60
ITEMS: Final = 5
_ENOUGH: Final = 20.0
"""Evidence of an anytime claim at 95 %."""

Hashes = NDArray[np.uint64]


class Lists(NamedTuple):
    """Lists of one variant.

    Attributes:
        user: hash of each list's user, or of the list if it does not name one.
        value: numerator of each list.
        items: denominator of each list.
        named: whether a list names its user; None: all do.
    """

    day: IntArray
    user: Hashes
    value: FloatArray
    items: int = 1
    named: NDArray[np.bool_] | None = None

    def variant(self, metric: str) -> Variant:
        """What is known of the variant."""
        index = self.day * GROUPS + (self.user % GROUPS).astype(np.int64)
        shape = DAYS, GROUPS
        size = DAYS * GROUPS
        above = np.bincount(index, self.value, size).astype(np.float64).reshape(shape)
        below = self.items * np.bincount(index, minlength=size).reshape(shape)
        some = below.any(axis=1)
        sums = GroupSums(np.flatnonzero(some), above[some], below[some])
        return Variant({metric: sums}, audience_of(self.user, self.day, self.named))


class Trial(NamedTuple):
    """One experiment.

    Attributes:
        metric: that is compared.
        shares: planned.
    """

    metric: str
    shares: dict[str, float]
    control: Lists
    treatment: Lists

    def report(self, method: Method = "fixed") -> Report:
        """What is printed."""
        arms = {"control": self.control, "treatment": self.treatment}
        variants = {name: lists.variant(self.metric) for name, lists in arms.items()}
        experiment = Experiment(primary=[self.metric], shares=self.shares)
        return compare_with_control(experiment, [parse(self.metric)], variants, Intervals(), method)


def _hashes(random: np.random.Generator, users: int) -> Hashes:
    return random.integers(0, 2**64, users, np.uint64)


def _clicks(random: np.random.Generator, taste: FloatArray) -> FloatArray:
    """Clicks on lists of five items."""
    return random.binomial(ITEMS, np.minimum(taste, 1.0)).astype(np.float64)


def _tastes(random: np.random.Generator, users: int, rate: float = 0.1) -> FloatArray:
    """Chance of a click by user."""
    return random.beta(8.0 * rate, 8.0 * (1.0 - rate), users)


Visits = Callable[[np.random.Generator], tuple[IntArray, IntArray]]
"""Days and users of an arm's lists."""


def _often(users: int, chance: float) -> Visits:
    """Each user comes on a share of the days."""

    def visits(random: np.random.Generator) -> tuple[IntArray, IntArray]:
        day, user = np.nonzero(random.random((DAYS, users)) < chance)
        return day, user

    return visits


def _once(random: np.random.Generator) -> tuple[IntArray, IntArray]:
    """A new user each day, with a few lists."""
    lists = 1 + random.poisson(4, DAYS)
    return np.repeat(np.arange(DAYS), lists), np.repeat(np.arange(DAYS), lists)


def _in_turn(users: int) -> Visits:
    """One user each day, who comes again."""

    def visits(random: np.random.Generator) -> tuple[IntArray, IntArray]:
        day, user = _once(random)
        return day, user % users

    return visits


class Thin(NamedTuple):
    """A world of clicks on lists of five items, by users who differ in taste.

    Attributes:
        control: its users and their visits.
        treatment: likewise.
        rate: mean click-through rate.
    """

    control: tuple[int, Visits]
    treatment: tuple[int, Visits]
    rate: float = 0.1

    def trial(self, random: np.random.Generator, lift: float) -> Trial:
        control = self._of(random, self.control, 0.0)
        other = self._of(random, self.treatment, lift)
        users = {"control": float(self.control[0]), "treatment": float(self.treatment[0])}
        return Trial("ctr", users, control, other)

    def _of(self, random: np.random.Generator, arm: tuple[int, Visits], lift: float) -> Lists:
        users, visits = arm
        day, user = visits(random)
        taste = _tastes(random, users, self.rate) * (1.0 + lift)
        clicks = _clicks(random, taste[user])
        return Lists(day, _hashes(random, users)[user], clicks, ITEMS)


class Revenue(NamedTuple):
    """A world of purchases: one list of ten has one, of a value with a Pareto tail of 1.5.

    Attributes:
        users: in control and treatment.
        cap: of the metric; 0 for none.
    """

    users: tuple[int, int]
    cap: float = 0.0

    def trial(self, random: np.random.Generator, lift: float) -> Trial:
        metric = f"value_per_list(cap={self.cap:g})" if self.cap else "value_per_list"
        control, other = (
            self._of(random, users, side * lift) for side, users in enumerate(self.users)
        )
        shares = dict(zip(("control", "treatment"), map(float, self.users), strict=True))
        return Trial(metric, shares, control, other)

    def _of(self, random: np.random.Generator, users: int, lift: float) -> Lists:
        user = np.repeat(np.arange(users), random.poisson(6, users))
        value = (random.random(user.size) < 0.1) * (1.0 + random.pareto(1.5, user.size))
        value = np.minimum(value * (1.0 + lift), self.cap or np.inf)
        return Lists(random.integers(0, 14, user.size), _hashes(random, users)[user], value)


class Bot(NamedTuple):
    """A bot that never clicks and has no user id; it meets the treatment only.

    Attributes:
        share: of the treatment's lists.
    """

    share: float

    def trial(self, random: np.random.Generator, lift: float) -> Trial:
        users = 1_000, _often(1_000, 0.3)
        trial = Thin(users, users).trial(random, lift)
        lists = trial.treatment
        nameless = random.random(lists.day.size) < self.share
        treatment = Lists(
            lists.day,
            np.where(nameless, _hashes(random, lists.day.size), lists.user),
            np.where(nameless, 0.0, lists.value),
            ITEMS,
            ~nameless,
        )
        return trial._replace(treatment=treatment)


class Edge(NamedTuple):
    """A world, and an effect that it has for its power.

    Attributes:
        power: share of runs that find the effect at one look, at least; None: any.
        untrusted: whether a check must raise an alarm; otherwise none may.
    """

    world: Thin | Revenue | Bot
    lift: float
    power: float | None = None
    untrusted: bool = False


_USUAL = 1_000, _often(1_000, 0.3)
EDGES: Final[Mapping[str, Edge]] = {
    "one new user a day": Edge(Thin(_USUAL, (DAYS, _once)), 1.0, 0.6),
    "one new user a day in both": Edge(Thin((DAYS, _once), (DAYS, _once)), 1.0),
    "thirty returning users": Edge(Thin(_USUAL, (30, _often(30, 1.0))), 1.0, 0.4),
    "thirty every second day": Edge(Thin(_USUAL, (30, _often(30, 0.5))), 1.0, 0.4),
    "thirty every second day, rare clicks": Edge(
        Thin(_USUAL, (30, _often(30, 0.5)), rate=0.02), 1.0
    ),
    "thirty in turn": Edge(Thin(_USUAL, (30, _in_turn(30))), 1.0),
    "revenue at 50:50": Edge(Revenue((2_500, 2_500)), 0.5),
    "revenue at 95:5": Edge(Revenue((4_750, 250)), 0.5),
    "revenue at 99:1": Edge(Revenue((4_950, 50)), 0.5),
    "capped revenue at 95:5": Edge(Revenue((4_750, 250), cap=10.0), 0.5, 0.6),
    "capped revenue at 99:1": Edge(Revenue((9_900, 100), cap=10.0), 0.5),
    "a bot in the treatment": Edge(Bot(0.05), 0.2, untrusted=True),
    "a small bot in the treatment": Edge(Bot(0.015), 0.2, untrusted=True),
}


def _outcomes(edge: Edge, seed: Sequence[int]) -> dict[str, bool]:
    """What a run without an effect, and one with it, printed."""
    random = np.random.default_rng(seed)
    calm, moved = [edge.world.trial(random, lift) for lift in (0.0, edge.lift)]
    report = calm.report("fixed")
    (row,), (always,), (changed,) = report.rows, calm.report("anytime").rows, moved.report().rows
    alarmed = bool(report.checks.trouble)
    return {
        "claims at one look": claims(row),
        "claims at any of daily looks": not alarmed
        and any(day.evidence >= _ENOUGH for day in always.days),
        "a check raises an alarm": alarmed,
        "too few users": row.sentence.startswith("too few users"),
        "difference excludes 0": row.low is not None
        and row.high is not None
        and not row.low <= 0 <= row.high,
        f"+{edge.lift:.0%} found": claims(changed),
    }


def bars(seed: int, runs: int, names: Collection[str] = EDGES.keys()) -> Iterator[Bar]:
    """The promises at the edges of these names."""
    for number, (name, edge) in enumerate(EDGES.items()):
        if name not in names:
            continue
        outcomes = [_outcomes(edge, (seed, 4, number, run)) for run in range(runs)]
        shares = {what: [outcome[what] for outcome in outcomes] for what in outcomes[0]}
        for what in ("claims at one look", "claims at any of daily looks"):
            yield at_most(f"A/A, {name}: {what}", 0.05, shares.pop(what))
        expected, rate = (at_least, 0.99) if edge.untrusted else (at_most, 0.002)
        what = "a check raises an alarm"
        yield expected(f"A/A, {name}: {what}", rate, shares.pop(what))
        text = ", ".join(f"{what} {np.mean(share):.1%}" for what, share in shares.items())
        *_, detected = shares.values()
        passed = edge.power is None or at_least(name, edge.power, detected).passed
        yield Bar(name, text, passed)
