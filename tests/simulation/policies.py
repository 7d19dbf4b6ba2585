"""Worlds in which a log judges a policy that it did not show, through the public API.

Users have tastes of their own and come unequally often; the truth is that of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from streameval import Accumulator, Intervals
from streameval.events import Event
from tests.simulation.bars import Bar, at_least, at_most

ITEMS: Final = 4
USERS: Final = 400
LISTS: Final = 4_000
LOOKS: Final = 7


class World(NamedTuple):
    """How items are drawn, and what is logged.

    Attributes:
        hidden: whether the log never shows the item that the policy likes most.
        factor: of the logged chance of the policy's favourite, which is wrong unless it is 1.
    """

    hidden: bool = False
    factor: float = 1.0


class Trial(NamedTuple):
    """What one log says.

    Attributes:
        covered: whether each interval of snips and ips has the truth; empty without intervals.
        distrusted: whether any look said not to trust it.
    """

    covered: list[bool]
    distrusted: bool


def trial(random: np.random.Generator, world: World) -> Trial:
    """One log, looked at every day."""
    target = np.array([0.45, 0.3, 0.15, 0.1])
    logger = np.array([0.0, 0.5, 0.3, 0.2]) if world.hidden else np.array([0.25] * ITEMS)
    rates = random.beta(2.0, 14.0, ITEMS)
    often = random.pareto(2.5, USERS) + 0.2
    taste = random.gamma(4.0, 0.25, USERS)
    users = random.choice(USERS, LISTS, p=often / often.sum())
    shown = random.choice(ITEMS, LISTS, p=logger)
    clicked = random.random(LISTS) < np.minimum(rates[shown] * taste[users], 1.0)
    logged = np.where(np.arange(ITEMS) == 1, logger * world.factor, logger)
    log = Accumulator("ips", "snips", intervals=Intervals())
    said = False
    for part in np.array_split(np.arange(LISTS), LOOKS):
        log.update_many(
            Event(
                recommendations=[f"i{shown[row]}"],
                interactions=[f"i{shown[row]}"] if clicked[row] else [],
                user=f"u{users[row]}",
                per_item={"propensity": [logged[shown[row]]], "target": [target[shown[row]]]},
            )
            for row in part.tolist()
        )
        said |= "Do not trust" in str(log.read("snips").no_interval)
    truth = float((target * rates).sum()) * float((taste * often).sum() / often.sum())
    bounds = [log.interval(metric, "fixed") for metric in ("ips", "snips")]
    return Trial(
        [interval.low <= truth <= interval.high for interval in bounds if interval is not None],
        said,
    )


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about estimates for a policy that was not shown."""
    worlds = {"right": World(), "hidden": World(hidden=True), "wrong": World(factor=0.6)}
    for number, (name, world) in enumerate(worlds.items()):
        randoms = (np.random.default_rng((seed, 9, number, run)) for run in range(runs))
        trials = [trial(random, world) for random in randoms]
        distrusted = [trial_.distrusted for trial_ in trials]
        if name == "right":
            yield at_most("right propensities: do not trust, at any look", 0.05, distrusted)
            covered = [hit for trial_ in trials for hit in trial_.covered]
            yield at_least("right propensities: intervals have the truth", 0.9, covered)
        else:
            yield at_least(f"{name}: do not trust", 0.95, distrusted)
