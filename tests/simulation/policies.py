"""Worlds in which a log judges a policy that it did not show, through the public API.

Users have tastes of their own and come unequally often; the truth is that of all of them. A list
has one item, or several: then an item above takes attention from those below, so a click depends
on the items above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from streameval import Accumulator, Intervals
from streameval.events import Event
from streameval.statistics.arrays import FloatArray, IntArray
from tests.simulation.bars import Bar, at_least, at_most

USERS: Final = 400
LISTS: Final = 4_000
LOOKS: Final = 7


class World(NamedTuple):
    """How items are drawn, and what is logged.

    Attributes:
        logger: chance of each item at each rank.
        target: that of the policy to be judged.
        factor: of the logged chance of the second item, which is wrong unless it is 1.
        metrics: that estimate the value of a list without bias.
        ranks: of a list.
    """

    logger: tuple[float, ...]
    target: tuple[float, ...] = (0.45, 0.3, 0.15, 0.1)
    factor: float = 1.0
    metrics: tuple[str, ...] = ("ips", "snips", "dr")
    ranks: int = 1


_UNIFORM: Final = (0.25, 0.25, 0.25, 0.25)
_OF_SLATES: Final = tuple(
    f"{name}(slots={slots})" for name in ("ips", "snips") for slots in ("cascade", "list")
)
RIGHT: Final = {
    "the policy of the log": World((0.45, 0.3, 0.15, 0.1)),
    "a uniform log": World(_UNIFORM),
    "an opposite log": World((0.05, 0.05, 0.1, 0.8), (0.4, 0.4, 0.15, 0.05)),
    "slates": World(_UNIFORM, (0.4, 0.25, 0.2, 0.15), metrics=_OF_SLATES, ranks=3),
}
WRONG: Final = {
    "a favourite never shown": World((0.0, 0.5, 0.3, 0.2)),
    "29 % never shown": World((0.4, 0.4, 0.2, 0.0), (0.3, 0.25, 0.16, 0.29)),
    "propensities that are too low": World(_UNIFORM, factor=0.6),
    "propensities that are too high": World(_UNIFORM, factor=1.6),
}
RARE: Final = World((0.4995, 0.3, 0.2, 0.0005), (0.1, 0.1, 0.1, 0.7))


class Trial(NamedTuple):
    """What one log says.

    Attributes:
        covered: whether each interval has the truth; empty without intervals.
        distrusted: whether any look said not to trust it.
    """

    covered: list[bool]
    distrusted: bool


class _Log(NamedTuple):
    """Lists as drawn, what was clicked in them, and what the policy would have earned."""

    users: IntArray
    shown: IntArray
    clicked: Any
    truth: float
    model: FloatArray


def trial(random: np.random.Generator, world: World) -> Trial:
    """One log, looked at every day."""
    log, counted = _drawn(random, world), Accumulator(*world.metrics, intervals=Intervals())
    said = False
    for part in np.array_split(np.arange(LISTS), LOOKS):
        counted.update_many(_events(world, log, part))
        readings = counted.compute().values()
        said |= any("Do not trust" in str(reading.no_interval) for reading in readings)
    bounds = [counted.interval(metric, "fixed") for metric in world.metrics]
    return Trial([b.low <= log.truth <= b.high for b in bounds if b is not None], said)


def _drawn(random: np.random.Generator, world: World) -> _Log:
    items, shape = len(world.logger), (LISTS, world.ranks)
    rates, often = random.beta(2.0, 14.0, items), random.pareto(2.5, USERS) + 0.2
    taste = random.gamma(4.0, 0.25, USERS)
    left = random.uniform(0.3, 1.0, items)
    users = random.choice(USERS, LISTS, p=often / often.sum())
    shown = random.choice(items, shape, p=world.logger)
    attention = np.cumprod(np.hstack([np.ones((LISTS, 1)), left[shown[:, :-1]]]), axis=1)
    clicked = random.random(shape) < np.minimum(
        rates[shown] * attention * taste[users][:, None], 1.0
    )
    target = np.array(world.target)
    looks = sum(float(target @ left) ** rank for rank in range(world.ranks))
    truth = float(target @ rates) * looks * float((taste * often).sum() / often.sum())
    return _Log(users, shown, clicked, truth, rates * random.uniform(0.5, 1.5, items))


def _events(world: World, log: _Log, rows: IntArray) -> Iterator[Event]:
    """Events of these rows. An item has another name at each rank, so that none is repeated."""
    target = np.array(world.target)
    logged = np.array(world.logger) * np.where(np.arange(len(target)) == 1, world.factor, 1.0)
    mean = float(target @ log.model)
    for row in rows.tolist():
        items = log.shown[row]
        names = [f"{item}at{rank}" for rank, item in enumerate(items.tolist(), 1)]
        yield Event(
            recommendations=names,
            interactions=[names[place] for place in np.flatnonzero(log.clicked[row]).tolist()],
            user=f"u{log.users[row]}",
            per_item={
                "propensity": logged[items].tolist(),
                "target": target[items].tolist(),
                "predicted": log.model[items].tolist(),
                "expected": [mean] * len(names),
            },
        )


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about estimates for a policy that was not shown."""
    for number, (name, world) in enumerate(RIGHT.items()):
        trials = _trials(world, (seed, 9, number), runs)
        distrusted = [trial_.distrusted for trial_ in trials]
        yield at_most(f"{name}: do not trust, at any look", 0.05, distrusted)
        covered = [hit for trial_ in trials for hit in trial_.covered]
        yield at_least(f"{name}: intervals have the truth", 0.9, covered)
    for number, (name, world) in enumerate(WRONG.items()):
        distrusted = [trial_.distrusted for trial_ in _trials(world, (seed, 10, number), runs)]
        yield at_least(f"{name}: do not trust", 0.95, distrusted)
    refused = [not trial_.covered for trial_ in _trials(RARE, (seed, 11), runs)]
    yield at_least("a favourite shown once in 2,000 lists: no interval", 0.95, refused)


def _trials(world: World, seeds: Sequence[int], runs: int) -> list[Trial]:
    return [trial(np.random.default_rng((*seeds, run)), world) for run in range(runs)]
