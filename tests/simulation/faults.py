"""Faults of history and of arms, which a table of the documents shows before and after their cure.

The events are public, with labels as a log has them. Before: the release without the cures, on the
same seeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

import numpy as np

from streameval import ComparisonReport, compare
from tests.house.checkout import ROOT
from tests.simulation import deciding, doubts
from tests.simulation.bars import claims
from tests.simulation.histories import SINCE, World

_PAGE: Final = ROOT / "docs" / "explanation" / "uncertainty.md"
_ROW: Final = re.compile(
    r"^\| ([A-F])\. (.+?) \| (.+?) \| (\d+) \| (.+?) \| (\d+) % \|$", re.MULTILINE
)
_RAMP: Final = ((0, 0.05), (6, 0.5))
FIRST_SEED: Final = 90_000

Outcomes = Mapping[str, Callable[[ComparisonReport], bool]]


class Fault(NamedTuple):
    """A world, and what is said of it.

    Attributes:
        compared: the report of a seed.
        outcomes: what of it is counted, by the name in the table.
    """

    compared: Callable[[int], ComparisonReport]
    outcomes: Outcomes


def _claims(report: ComparisonReport) -> bool:
    return claims(report["ctr"])


def _covers(lift: float) -> Callable[[ComparisonReport], bool]:
    def covers(report: ComparisonReport) -> bool:
        row = report["ctr"]
        return row.lift_low is not None and row.lift_low <= lift <= (row.lift_high or 0.0)

    return covers


def _alarms(report: ComparisonReport) -> bool:
    return bool(report.trouble)


def _of(world: World) -> Fault:
    return Fault(
        world.compared, {"claims": _claims, "lift covered": _covers(world.lift), "alarm": _alarms}
    )


def _unlabelled(world: doubts.Visits) -> Fault:
    return Fault(
        lambda seed: world.compared(np.random.default_rng((seed, 14))),
        {"alarm": lambda report: any("lose it, so the" in text for text in report.trouble)},
    )


def _late_clicks(seed: int) -> ComparisonReport:
    """Read at the end of four days, without the newest one."""
    until = SINCE + timedelta(2)
    log = deciding.late_clicks(seed)
    report = compare(log, "ctr", columns={"time": "time"}, time_unit="s", until=until)
    assert isinstance(report, ComparisonReport)
    return report


FAULTS: Final[Mapping[str, Fault]] = {
    "control's label on all days before": _of(World(label="control")),
    "control's label in the week before": _of(World(label="last week")),
    "+5 %, control's label before": _of(World(label="control", lift=0.05)),
    "+20 %, treated on 14 days before": _of(World(lift=0.2, label="control", treated=14)),
    "+20 %, treated on 28 days before": _of(World(lift=0.2, label="control", treated=28)),
    "an A/A period before": _of(World(label="arms")),
    "an earlier experiment, drawn anew": _of(World(label="anew")),
    "ramp, newcomers click 25 % less": _of(World(6_000, ramp=_RAMP, newcomers=0.25)),
    "ramp, nobody differs": _of(World(6_000, ramp=_RAMP, newcomers=1e-9)),
    "ramp, newcomers click less, +10 %": _of(World(6_000, ramp=_RAMP, newcomers=0.25, lift=0.1)),
    "no click in b": Fault(
        World(lift=-1.0).compared, {"worse": lambda report: report["ctr"].verdict == "worse"}
    ),
    "30 % of b's users lose the variant once": _unlabelled(doubts.Visits(lost=(0.0, 0.3))),
    "30 % of all users lose it once": _unlabelled(doubts.Visits(lost=(0.3, 0.3))),
    "b's clicks come 7 hours later, and until the day before": Fault(
        _late_clicks, {"claims": _claims}
    ),
}


class Measured(NamedTuple):
    """A row of the table: the share of runs after the cure, in percent."""

    letter: str
    fault: str
    outcome: str
    runs: int
    before: str
    percent: int


def table() -> Iterator[Measured]:
    """The rows of the table in the documents."""
    for letter, fault, outcome, runs, before, percent in _ROW.findall(_PAGE.read_text("utf-8")):
        yield Measured(letter, fault, outcome, int(runs), before, int(percent))


def chance(count: int, runs: int, other: int, others: int) -> float:
    """The chance of counts that differ as much, if both have one rate: Fisher's exact test."""
    total = count + other

    def weight(part: int) -> float:
        return math.comb(runs, part) * math.comb(others, total - part)

    possible = range(max(0, total - others), min(runs, total) + 1)
    limit = weight(count) * (1 + 1e-9)
    less = sum(weight(part) for part in possible if weight(part) <= limit)
    return less / sum(map(weight, possible))
