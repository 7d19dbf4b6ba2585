"""Worlds of two rankers: what interleaving finds, and what an A/B test of as many lists finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from streameval import Accumulator, Intervals, compare
from streameval.events import Event
from tests.simulation.bars import Bar, at_most

USERS: Final = 600
LISTS: Final = 7_000
LOOKS: Final = 7
_ITEMS: Final = ("w", "x", "y", "z")
_LIFT: Final = 0.1


class Sight(NamedTuple):
    """What one experiment saw.

    Attributes:
        named: whether any of daily looks named a winner.
        interleaved: whether interleaving found b better in the end, looked at once.
        split: whether an A/B test of as many lists did.
    """

    named: bool
    interleaved: bool
    split: bool


class _Users:
    """Users who come unequally often, click unequally often, and prefer one of the rankers."""

    def __init__(self, random: np.random.Generator, lift: float) -> None:
        self.random = random
        often = random.pareto(2.5, USERS) + 0.2
        self.often = often / often.sum()
        liking = 1.0 + 0.1 * random.normal(size=USERS)
        level = 0.1 * random.gamma(4.0, 0.25, USERS)
        self.rates = {"a": level * (2.0 - liking), "b": level * liking * (1.0 + lift)}

    def lists(self, *, mixed: bool) -> Iterator[tuple[str, Event]]:
        """Ranker of the user, and a list of both rankers or of that one."""
        for user in self.random.choice(USERS, LISTS, p=self.often).tolist():
            ranker = "ab"[user % 2]
            teams = self._draft() if mixed else [ranker] * len(_ITEMS)
            chances = [self.rates[team][user] for team in teams]
            draws = self.random.random(len(_ITEMS))
            clicked = [
                item
                for item, chance, draw in zip(_ITEMS, chances, draws, strict=True)
                if draw < chance
            ]
            yield (
                ranker,
                Event(
                    recommendations=_ITEMS,
                    interactions=clicked,
                    user=f"u{user}",
                    per_item={"team": teams},
                ),
            )

    def _draft(self) -> list[str]:
        """In each round a coin says who picks first."""
        rounds = self.random.random(len(_ITEMS) // 2) < 0.5
        return [team for first in rounds.tolist() for team in ("ab" if first else "ba")]


def sight(random: np.random.Generator, lift: float) -> Sight:
    """One experiment of each kind, of the same users."""
    users = _Users(random, lift)
    mixed, named = Accumulator("interleaving", intervals=Intervals(precision=0.1)), False
    events = [event for _, event in users.lists(mixed=True)]
    for part in np.array_split(np.arange(LISTS), LOOKS):
        mixed.update_many(events[row] for row in part.tolist())
        named |= str(mixed.read("interleaving").verdict).endswith("preferred")
    arms = {ranker: Accumulator("ctr", intervals=Intervals()) for ranker in "ab"}
    split = [*users.lists(mixed=False)]
    for ranker, arm in arms.items():
        arm.update_many(event for recommended, event in split if recommended == ranker)
    bounds = mixed.interval("interleaving", "fixed")
    compared = compare(arms["a"], arms["b"], "ctr", method="fixed")
    return Sight(
        named,
        bounds is not None and bounds.low > 0.5,
        compared.low is not None and compared.low > 0.0,
    )


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about interleaving."""
    alike = [sight(np.random.default_rng((seed, 12, run)), 0.0) for run in range(runs)]
    yield at_most("rankers alike, looked at daily: a winner", 0.05, [run.named for run in alike])
    lifted = [sight(np.random.default_rng((seed, 13, run)), _LIFT) for run in range(runs)]
    first, second = (sum(getattr(run, kind) for run in lifted) for kind in ("interleaved", "split"))
    measured = f"{first} of {runs}, and {second} of {runs} by an A/B test of as many lists"
    yield Bar("a ranker 10 % better is found more often", measured, first > second)
