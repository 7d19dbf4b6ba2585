"""Worlds at the edges of a comparison: thin arms, and unequal arms of values with a long tail.

Each trial is judged as people read it: by the checks, and by the sentence of the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streameval.accumulator.comparison import Method
from streameval.accumulator.experiment import Experiment, Report, Variant, compared
from streameval.accumulator.verdicts import Compared
from streameval.catalogue import parse
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, Intervals
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
        user: of each list, a number from 0.
        value: numerator of each list.
        items: denominator of each list.
    """

    day: IntArray
    user: IntArray
    value: FloatArray
    items: int = 1

    def variant(self, metric: str, hashes: Hashes) -> Variant:
        """What is known of the variant; `hashes`: of all its users."""
        place = self.day * GROUPS + (hashes[self.user] % GROUPS).astype(np.int64)
        shape = DAYS, GROUPS
        size = DAYS * GROUPS
        above = np.bincount(place, self.value, size).astype(np.float64).reshape(shape)
        below = self.items * np.bincount(place, minlength=size).reshape(shape)
        some = below.any(axis=1)
        sums = GroupSums(np.flatnonzero(some), above[some], below[some])
        return Variant({metric: sums}, audience_of(hashes[self.user], self.day))


class Trial(NamedTuple):
    """One experiment.

    Attributes:
        metric: that is compared.
        users: planned in each variant.
    """

    metric: str
    users: tuple[int, int]
    control: Lists
    treatment: Lists

    def report(self, random: np.random.Generator, method: Method) -> Report:
        """What is printed."""
        names = "control", "treatment"
        hashes = [random.integers(0, 2**64, count, np.uint64) for count in self.users]
        arms = zip((self.control, self.treatment), hashes, strict=True)
        variants = {
            name: lists.variant(self.metric, mine)
            for name, (lists, mine) in zip(names, arms, strict=True)
        }
        shares = dict(zip(names, map(float, self.users), strict=True))
        experiment = Experiment(primary=[self.metric], shares=shares)
        return compared(experiment, [parse(self.metric)], variants, Intervals(), method)


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
        one = self._of(random, self.control, 0.0)
        other = self._of(random, self.treatment, lift)
        return Trial("ctr", (self.control[0], self.treatment[0]), one, other)

    def _of(self, random: np.random.Generator, arm: tuple[int, Visits], lift: float) -> Lists:
        users, visits = arm
        day, user = visits(random)
        taste = random.beta(8.0 * self.rate, 8.0 * (1.0 - self.rate), users)
        taste = np.minimum(taste * (1.0 + lift), 1.0)
        return Lists(day, user, random.binomial(ITEMS, taste[user]).astype(np.float64), ITEMS)


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
        one, other = (self._of(random, users, side * lift) for side, users in enumerate(self.users))
        return Trial(metric, self.users, one, other)

    def _of(self, random: np.random.Generator, users: int, lift: float) -> Lists:
        user = np.repeat(np.arange(users), random.poisson(6, users))
        value = (random.random(user.size) < 0.1) * (1.0 + random.pareto(1.5, user.size))
        value = np.minimum(value * (1.0 + lift), self.cap or np.inf)
        return Lists(random.integers(0, 14, user.size), user, value)


class Edge(NamedTuple):
    """A world, and an effect that it has for its power.

    Attributes:
        power: share of runs that find the effect at one look, at least; None: any.
    """

    world: Thin | Revenue
    lift: float
    power: float | None = None


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
}


class Outcome(NamedTuple):
    """What a run without an effect, and one with it, printed.

    Attributes:
        claimed: at one look.
        peeked: at any of daily looks.
        difference: whether the interval of the difference excludes 0.
        silent: whether there is no verdict because of too few users.
        alarmed: whether a check raised an alarm.
        found: the effect, at one look.
    """

    claimed: bool
    peeked: bool
    difference: bool
    silent: bool
    alarmed: bool
    found: bool

    @classmethod
    def of(cls, edge: Edge, seed: Sequence[int]) -> Outcome:
        """Draw a run."""
        random = np.random.default_rng(seed)
        calm, moved = (
            partial(_printed, edge.world.trial(random, lift), seed) for lift in (0, edge.lift)
        )
        report, row = calm("fixed")
        _, always = calm("anytime")
        return cls(
            claimed=claims(row),
            peeked=claims(always) or any(day.evidence >= _ENOUGH for day in always.days),
            difference=row.low is not None
            and row.high is not None
            and not row.low <= 0 <= row.high,
            silent=row.sentence.startswith("too few users"),
            alarmed=bool(report.checks.trouble),
            found=claims(moved("fixed")[1]),
        )


def _printed(trial: Trial, seed: Sequence[int], method: Method) -> tuple[Report, Compared]:
    report = trial.report(np.random.default_rng([*seed, 1]), method)
    (row,) = report.rows
    return report, row


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises at the edges."""
    for number, (name, edge) in enumerate(EDGES.items()):
        found = [Outcome.of(edge, (seed, 4, number, run)) for run in range(runs)]
        named = {field: [getattr(each, field) for each in found] for field in Outcome._fields}
        yield at_most(f"A/A, {name}: claims at one look", 0.05, named["claimed"])
        yield at_most(f"A/A, {name}: claims at any of daily looks", 0.05, named["peeked"])
        yield at_most(f"A/A, {name}: a check raises an alarm", 0.002, named["alarmed"])
        shares = {
            "too few users": named["silent"],
            "difference excludes 0": named["difference"],
            f"+{edge.lift:.0%} found": named["found"],
        }
        text = ", ".join(f"{what} {np.mean(share):.1%}" for what, share in shares.items())
        passed = edge.power is None or at_least(name, edge.power, named["found"]).passed
        yield Bar(name, text, passed)
