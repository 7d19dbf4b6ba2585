"""Experiments on users with a past: values adjusted by it, ramps, and a history under treatment.

Each trial is judged as people read it: by the checks, and by the sentences of the verdicts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from streameval.analyses.experiments.verdicts import Compared
from tests.simulation.bars import Bar, at_least, at_most, between, claims
from tests.simulation.histories import World

_ENOUGH: Final = 20.0
"""Evidence of an anytime claim at 95 %."""

_RAMP: Final = ((0, 0.05), (6, 0.5))


class Trial(NamedTuple):
    """A world whose variants are alike, and its users' history.

    Attributes:
        width: the interval, by that without adjusting: from and to.
    """

    width: tuple[float, float]
    world: World


WORLDS: Final = {
    "stable tastes": Trial((0.5, 0.75), World(4_000)),
    "half of the tastes redrawn": Trial((0.75, 1.0), World(4_000, redrawn=0.5)),
    "half of the users new": Trial((0.7, 0.92), World(4_000, new=0.5)),
    "a long tail of activity": Trial((0.3, 0.7), World(4_000, tail=1.5)),
    "ctr 1 %": Trial((0.6, 1.0), World(4_000, rate=0.01)),
    "150 an arm": Trial((0.5, 0.85), World(300)),
    "a thin arm": Trial((0.5, 0.8), World(6_000, share=0.05)),
    "treatment comes half as often again": Trial((0.5, 0.8), World(4_000, often=0.5)),
    "control's label before": Trial((0.5, 0.75), World(label="control")),
    "control's label in the week before": Trial((0.5, 0.75), World(label="last week")),
    "control's label before, a thin arm": Trial(
        (0.5, 0.8), World(6_000, share=0.05, label="control")
    ),
    "an earlier experiment, drawn anew": Trial((0.5, 0.75), World(label="anew")),
    "a ramp on which the active come early": Trial(
        (0.3, 0.85), World(4_000, ramp=((0, 0.1), (7, 0.5)), tail=1.5)
    ),
    "a ramp with newcomers who click less": Trial(
        (0.5, 1.0), World(6_000, ramp=_RAMP, newcomers=0.25)
    ),
    "a ramp, and control's label before": Trial(
        (0.5, 1.0), World(6_000, ramp=_RAMP, newcomers=0.25, label="control")
    ),
}


def bars(
    seed: int, runs: int, chosen: Collection[str] = WORLDS.keys(), *, others: bool = True
) -> Iterator[Bar]:
    """The promises about adjusted values; `others`: about effects, and users who differed."""
    for number, (name, trial) in enumerate(WORLDS.items()):
        if name in chosen:
            seeds = [(seed * 100 + number) * 10_000 + run for run in range(runs)]
            yield from _without_effect(f"adjusted, {name}", trial, seeds)
    if not others:
        return
    seeds = [seed * 10_000 + run for run in range(runs)]
    lifted = World(4_000, lift=0.08)
    rows = [lifted.compared(each)["ctr"] for each in seeds]
    yield at_least("adjusted, ctr +8 %: its lift covered", 0.95, _covered(rows, 0.08))
    yield at_least("adjusted, ctr +8 %: found", 0.4, [claims(row) for row in rows])
    eager = World(6_000, eager=0.25)
    problems = [eager.compared(each).trouble for each in seeds]
    result = [
        any(text.startswith("clicks per list of b's users") for text in of) for of in problems
    ]
    yield at_least("adjusted, b's users clicked 25 % more before: a check says so", 0.75, result)
    for days in (14, 28):
        treated = World(lift=0.2, label="control", treated=days)
        rows = [treated.compared(each)["ctr"] for each in seeds]
        name = f"+20 %, treated on {days} days before"
        yield at_least(f"{name}: its lift covered", 0.95, _covered(rows, 0.2))
        yield at_most(f"{name}: adjusted", 0.002, [row.known is not None for row in rows])
    period = World(label="arms")
    rows = [period.compared(each, untreated_before=True)["ctr"] for each in seeds]
    yield at_least("an A/A period before: no difference covered", 0.95, _covered(rows, 0.0))
    yield at_least("an A/A period before: adjusted", 0.99, [row.known is not None for row in rows])
    grown = World(6_000, ramp=_RAMP, newcomers=0.25, lift=0.1)
    rows = [grown.compared(each)["ctr"] for each in seeds]
    yield at_least("a ramp, +10 %: its lift covered", 0.95, _covered(rows, 0.1))
    yield at_least("a ramp, +10 %: found", 0.3, [claims(row) for row in rows])


def _covered(rows: Sequence[Compared], lift: float) -> list[bool]:
    return [
        row.lift_low is None or row.lift_high is None or row.lift_low <= lift <= row.lift_high
        for row in rows
    ]


def _without_effect(name: str, trial: Trial, seeds: Sequence[int]) -> Iterator[Bar]:
    looks = [trial.world.compared(seed) for seed in seeds]
    messages = [claims(report["ctr"]) for report in looks]
    yield at_most(f"{name}: a sentence claims a difference in ctr", 0.05, messages)
    yield at_most(f"{name}: a check raises an alarm", 0.002, [bool(of.trouble) for of in looks])
    saved = [report["ctr"].narrower for report in looks]
    widths = [1.0 - share for share in saved if share is not None]
    yield between(f"{name}: width by that of plain values", *trial.width, widths)
    if trial.world.ramp:
        return
    rows = [trial.world.compared(seed, method="anytime")["ctr"] for seed in seeds]
    ever = [any(day.evidence > _ENOUGH for day in row.days) for row in rows]
    yield at_most(f"{name}: any alarm, looked at daily", 0.05, ever)
