"""Worlds whose comparison needs a check or a note.

Countries split unalike, long lists, a bot, and lists that lost their variant.

Each is compared by the public `compare`, and judged by the sentences that it says.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from streameval import ComparisonReport, compare
from tests.simulation.bars import Bar, at_least, at_most

USERS: Final = 2_400
DAYS: Final = 7
_MONDAY: Final = 20_514
"""2 March 2026, in days since the epoch."""

COUNTRIES: Final = {"de": 0.3, "fr": 0.2, "se": 0.1}
"""Chance of a click on a list, by country."""

_SIZES: Final = (0.6, 0.365, 0.035)
_VISITS: Final = (3.0, 3.0, 30.0)
LIFT: Final = -0.08
_TIME: Final[Any] = {"columns": {"time": "time"}, "time_unit": "s"}


class Visits(NamedTuple):
    """A world of lists of two variants.

    Attributes:
        lift: of every user's chance of a click.
        swedes: share of the Swedes who get b; others get it as often as control.
        items: length of the lists of both.
        bot: lists of one account of b that clicks on all.
        lost: share of the users of control and of b whose first list has no variant.
        unsent: share of all lists without one.
        often: how much more often users of b come.
    """

    lift: float = 0.0
    swedes: float = 0.5
    items: tuple[int, int] = (5, 5)
    bot: int = 0
    lost: tuple[float, float] = (0.0, 0.0)
    unsent: float = 0.0
    often: float = 0.0

    def drawn(self, random: np.random.Generator) -> pd.DataFrame:
        """The lists, one a row."""
        country = random.choice(len(COUNTRIES), USERS, p=_SIZES)
        treated = random.random(USERS) < np.where(country == len(COUNTRIES) - 1, self.swedes, 0.5)
        rates = np.array([*COUNTRIES.values()])[country] * (1.0 + self.lift * treated)
        taste = random.beta(6.0 * rates, 6.0 * (1.0 - rates))
        visits = np.array(_VISITS)[country] * (1.0 + self.often * treated)
        user = np.repeat(np.arange(USERS), 1 + random.poisson(visits))
        hit = random.random(user.size) < taste[user]
        # The account is the last user.
        user = np.append(user, np.full(self.bot, USERS))
        hit = np.append(hit, np.ones(self.bot, np.bool_))
        country, treated = np.append(country, 0), np.append(treated, np.True_)
        items = np.array(self.items)[treated[user].astype(int)].tolist()
        names = [*COUNTRIES]
        first = np.diff(user, prepend=-1) > 0
        loses = random.random(treated.size) < np.array(self.lost)[treated.astype(int)]
        unsent = (first & loses[user]) | (random.random(user.size) < self.unsent)
        return pd.DataFrame(
            {
                "recommendations": [[f"i{rank}" for rank in range(length)] for length in items],
                "interactions": [
                    [f"i{number % 5}"] if clicked else []
                    for number, clicked in enumerate(hit.tolist())
                ],
                "user": [f"u{number}" for number in user.tolist()],
                "variant": [
                    None if lacks else "b" if of_b else "control"
                    for lacks, of_b in zip(unsent.tolist(), treated[user].tolist(), strict=True)
                ],
                "country": [names[index] for index in country[user].tolist()],
                "time": 86_400 * (_MONDAY + random.integers(0, DAYS, user.size)),
            }
        )

    def compared(self, random: np.random.Generator, **how: Any) -> ComparisonReport:
        """What `compare` says of one experiment."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9,]+ lists have no variant")
            report = compare(self.drawn(random), "ctr", "hit_rate@5", **_TIME, **how)
        assert isinstance(report, ComparisonReport)
        return report


ALIKE: Final = Visits(LIFT)
BY_MARKET: Final = Visits(LIFT, swedes=0.0)
"""All Swedes, who click least, are in control: the total says that b is better."""


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about splits within segments, and about notes."""
    yield from _segments(seed, runs)
    long = _reports(Visits(items=(5, 10)), seed, runs)
    flagged = [
        any("lists of b are 100 % longer" in note for note in report.notes) for report in long
    ]
    yield at_least("the same clicks on lists twice as long: a note says so", 0.95, flagged)
    bots = _reports(Visits(bot=60), seed, runs)
    flagged = [any("from one account" in note for note in report.notes) for report in bots]
    yield at_least("one account of 60 lists: a note says so", 0.95, flagged)
    yield from _lost_labels(seed, runs)
    plain = [report.notes[2:] for report in _reports(Visits(), seed, runs)]
    yield at_most("lists alike, without a bot: a note", 0.01, list(map(bool, plain)))


def _lost_labels(seed: int, runs: int) -> Iterator[Bar]:
    for name, world, rate in (
        ("first lists of 30 % of b's users lose their variant", Visits(lost=(0.0, 0.3)), 1.0),
        ("first lists of 30 % of all users lose it", Visits(lost=(0.3, 0.3)), 0.0),
        ("30 % of lists never had it, and b's users come more", Visits(unsent=0.3, often=0.2), 0.0),
    ):
        problems = [report.trouble for report in _reports(world, seed + 2, runs)]
        flagged = [any("lose it, so the" in problem for problem in of) for of in problems]
        bar = at_least if rate else at_most
        yield bar(f"{name}: an alarm", 0.95 if rate else 0.002, flagged)


def _segments(seed: int, runs: int) -> Iterator[Bar]:
    found = _reports(BY_MARKET, seed, runs, by="country")
    told = [any("in country = se users are not" in doubt for doubt in by.trouble) for by in found]
    yield at_least("a country in control alone: named", 0.95, told)
    claims = [by["hit_rate@5"].verdict in ("better", "worse") for by in found]
    yield at_most("a country in control alone: a verdict on all users", 0.05, claims)
    for name, world in (
        ("a country in control alone", BY_MARKET),
        ("countries split alike", ALIKE),
    ):
        rows = [
            report["hit_rate@5"] for report in _reports(world, seed + 1, runs, within="country")
        ]
        covered = [
            row.lift_low is not None
            and row.lift_high is not None
            and row.lift_low <= LIFT <= row.lift_high
            for row in rows
        ]
        yield at_least(f"{name}: bounds within countries have the lift", 0.95, covered)
        wrong = [" is better: " in row.text for row in rows]
        yield at_most(f"{name}: within countries b is said to be better", 0.025, wrong)
    calm = _reports(ALIKE, seed + 1, runs, by="country")
    yield at_most("countries split alike: alarm", 0.002, [bool(by.trouble) for by in calm])


def _reports(world: Visits, seed: int, runs: int, **how: Any) -> list[ComparisonReport]:
    draws = (np.random.default_rng((seed, 14, run)) for run in range(runs))
    return [world.compared(random, **how) for random in draws]
