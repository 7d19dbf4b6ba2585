"""Worlds in which a log judges a policy that it did not show, through the public API.

Users have tastes of their own and come unequally often; the truth is that of all users of whom
some are seen, so an interval that takes their lists for independent is too narrow. A list has one
item, or several: then an item above takes attention from those below, so a click depends on the
items above.
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


class PolicyLog(NamedTuple):
    """How items are drawn, and what is logged.

    Attributes:
        logger: chance of each item at each rank.
        target: that of the policy to be judged.
        factors: of the logged chance of each item, which is wrong unless it is 1.
        metrics: that estimate the value of a list.
        ranks: of a list.
    """

    logger: tuple[float, ...]
    target: tuple[float, ...] = (0.45, 0.3, 0.15, 0.1)
    factors: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    metrics: tuple[str, ...] = ("ips", "snips", "dr")
    ranks: int = 1


_UNIFORM: Final = (0.25, 0.25, 0.25, 0.25)


def _clipped(clip: float) -> tuple[str, ...]:
    return tuple(f"{name}(clip={clip:g})" for name in ("ips", "snips", "dr"))


_OF_SLATES: Final = tuple(
    f"{name}(slots={slots})" for name in ("ips", "snips") for slots in ("cascade", "list")
)
RIGHT: Final = {
    "the policy of the log": PolicyLog((0.45, 0.3, 0.15, 0.1)),
    "a uniform log": PolicyLog(_UNIFORM),
    "an opposite log": PolicyLog((0.05, 0.05, 0.1, 0.8), (0.4, 0.4, 0.15, 0.05)),
    "slates": PolicyLog(_UNIFORM, (0.4, 0.25, 0.2, 0.15), metrics=_OF_SLATES, ranks=3),
}
CLIPPED: Final = {
    "a clip above all weights": PolicyLog(_UNIFORM, metrics=_clipped(10.0)),
    "a clip that takes 2.5 % of the weight": PolicyLog(_UNIFORM, metrics=_clipped(1.7)),
}
"""Early looks may refuse them, if by chance more of the weight is clipped."""
RARE: Final = {
    # Three items that a log of so many lists shows twice each, and the policy more often.
    "three items of a chance of 2 in n": PolicyLog(
        (0.4, 0.4, 0.2 - 6 / LISTS, *[2 / LISTS] * 3),
        (0.45, 0.37, 0.12, 0.02, 0.02, 0.02),
        (1.0,) * 6,
    ),
}
LEAST: Final = {
    "a uniform log with its smallest chance": PolicyLog(
        _UNIFORM, metrics=("ips(least=0.25)", "snips(least=0.25)", "dr(least=0.25)")
    ),
}
WRONG: Final = {
    "a favourite never shown": PolicyLog((0.0, 0.5, 0.3, 0.2)),
    "29 % never shown": PolicyLog((0.4, 0.4, 0.2, 0.0), (0.3, 0.25, 0.16, 0.29)),
    "a propensity that is too low": PolicyLog(_UNIFORM, factors=(1.0, 0.6, 1.0, 1.0)),
    "a propensity that is too high": PolicyLog(_UNIFORM, factors=(1.0, 1.6, 1.0, 1.0)),
    "propensities wrong by 10 to 25 %": PolicyLog(_UNIFORM, factors=(0.85, 1.1, 0.78, 1.25)),
}
REFUSED: Final = {
    "a favourite shown once in 2,000 lists": PolicyLog(
        (0.4995, 0.3, 0.2, 0.0005), (0.1, 0.1, 0.1, 0.7)
    ),
    "a clip that takes 60 % of the weight": PolicyLog(
        (0.05, 0.05, 0.1, 0.8), (0.4, 0.4, 0.15, 0.05), metrics=_clipped(2.0)
    ),
}


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


def trial(random: np.random.Generator, world: PolicyLog, looks: int = LOOKS) -> Trial:
    """One log, looked at every day."""
    log, distrusted = _drawn(random, world), []
    for counted in _looks(world, log, looks):
        distrusted.append(_is_distrusted(counted))
    bounds = [counted.interval(metric, "fixed") for metric in world.metrics]
    covered = [b.low <= log.truth <= b.high for b in bounds if b is not None]
    return Trial(covered, any(distrusted))


def is_ever_distrusted(random: np.random.Generator, world: PolicyLog) -> bool:
    """Whether one of daily looks at a log says not to trust it; the first of them is the last."""
    return any(map(_is_distrusted, _looks(world, _drawn(random, world), LOOKS)))


def _looks(world: PolicyLog, log: _Log, looks: int) -> Iterator[Accumulator]:
    counted = Accumulator(*world.metrics, intervals=Intervals())
    for part in np.array_split(np.arange(LISTS), looks):
        counted.update_many(_events(world, log, part))
        yield counted


def _is_distrusted(counted: Accumulator) -> bool:
    readings = counted.compute().values()
    return any("Do not trust" in str(reading.no_interval) for reading in readings)


def _drawn(random: np.random.Generator, world: PolicyLog) -> _Log:
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
    # Of all users of whom these are drawn; their mean taste is 1.
    truth = float(target @ rates) * looks
    return _Log(users, shown, clicked, truth, rates * random.uniform(0.5, 1.5, items))


def _events(world: PolicyLog, log: _Log, rows: IntArray) -> Iterator[Event]:
    """Events of these rows. An item has another name at each rank, so that none is repeated."""
    target = np.array(world.target)
    logged = np.array(world.logger) * np.array(world.factors)
    mean = float(target @ log.model)
    for row in rows.tolist():
        items = log.shown[row]
        names = [f"{item}at{rank}" for rank, item in enumerate(items.tolist(), 1)]
        yield Event(
            recommendations=names,
            interactions=[names[index] for index in np.flatnonzero(log.clicked[row]).tolist()],
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
    for number, (name, world) in enumerate((RIGHT | CLIPPED).items()):
        looks = LOOKS if name in RIGHT else 1
        trials = [trial(random, world, looks) for random in _draws((seed, 9, number), runs)]
        if name in RIGHT:
            distrusted = [trial_.distrusted for trial_ in trials]
            yield at_most(f"{name}: do not trust, at any look", 0.05, distrusted)
        covered = [hit for trial_ in trials for hit in trial_.covered]
        yield at_least(f"{name}: intervals have the truth", 0.9, covered)
    for number, (name, world) in enumerate((RARE | LEAST).items()):
        draws = _draws((seed, 15, number), runs)
        covered = [hit for random in draws for hit in trial(random, world, looks=1).covered]
        yield at_least(f"{name}: intervals have the truth", 0.9, covered)
    for number, (name, world) in enumerate(WRONG.items()):
        draws = _draws((seed, 10, number), runs)
        yield at_least(
            f"{name}: do not trust", 0.95, [is_ever_distrusted(random, world) for random in draws]
        )
    for number, (name, world) in enumerate(REFUSED.items()):
        draws = _draws((seed, 11, number), runs)
        refused = [not trial(random, world, looks=1).covered for random in draws]
        yield at_least(f"{name}: no interval", 0.95, refused)


def _draws(seeds: Sequence[int], runs: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng((*seeds, run)) for run in range(runs))
