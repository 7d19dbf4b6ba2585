"""Worlds in which someone decides: several planned looks, several guardrails, clicks that are late.

Looks and late clicks are public events through `compare`, as a log has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.outcomes import DECIDED, Decision
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Compared
from streameval.catalogue import parse
from streameval.statistics.intervals import GroupSums, Intervals, Method
from tests.crowds import audience
from tests.present import present
from tests.simulation.bars import Bar, at_least, at_most, between, claims
from tests.simulation.histories import DAYS, SINCE, World

LOOKS: Final = 5

_NO_EFFECT: Final = "A/A, five planned looks: any claim"
_FOUND: Final = "+10 %, five planned looks: found"
_WIDTH: Final = "the last of five planned looks: width, by that of one look"
_ALL_KEPT: Final = "three guardrails of -3 errors, no effect: all kept"
_AT_LIMIT: Final = "one of three guardrails at its limit: all kept"
_LATE: Final = "clicks of b 8 hours late, without the newest day: a claim"
PROMISES: Final = {
    _NO_EFFECT: (0.0, 0.05),
    _FOUND: (0.06, 1.0),
    _WIDTH: (1.0, 1.06),
    _ALL_KEPT: (0.72, 1.0),
    _AT_LIMIT: (0.0, 0.05),
    _LATE: (0.0, 0.05),
}
"""What is promised -> the least and the most: rates over runs, or a mean."""

_GUARDRAILS: Final = {"hit_rate@1": -0.03, "hit_rate@5": -0.03, "hit_rate@10": -0.03}
_GROUPS: Final = 256
_ERROR: Final = 0.01
"""Standard error of each lift."""


class Looked(NamedTuple):
    """What five looks at one experiment claim, and the last of them alone.

    Attributes:
        planned: whether any planned look claims a difference.
        anytime: whether any look claims one with bounds that hold at every look.
        peeked: whether any does as if it were the only one.
        once: whether the last does as the only one.
        width: of the interval at the last planned look, by that of one look.
    """

    planned: bool
    anytime: bool
    peeked: bool
    once: bool
    width: float


def looked(world: World, seed: int) -> Looked:
    """Look at a file that grows, at equal parts of its days."""
    rows: dict[str, list[Compared]] = {"planned": [], "anytime": [], "once": []}
    log = world.log(seed)
    for look in range(1, LOOKS + 1):
        last = pa.scalar((SINCE - date(1970, 1, 1)).days * 86_400 + _end_of(look) * 86_400)
        so_far = log.filter(pc.less(log["time"], last))
        for name, how in (
            ("planned", {"looks": LOOKS, "look": look}),
            ("anytime", {"method": "anytime"}),
            ("once", {}),
        ):
            settings: dict[str, Any] = {"since": SINCE, "primary": "ctr", "pre_period": 0}
            by_time: dict[str, Any] = {"columns": {"time": "time"}, "time_unit": "s"}
            rows[name].append(compare(so_far, "ctr", **settings, **by_time, **how)["ctr"])
    widths = [_width(rows[name][-1]) for name in ("planned", "once")]
    return Looked(
        any(map(claims, rows["planned"])),
        any(map(claims, rows["anytime"])),
        any(map(claims, rows["once"])),
        claims(rows["once"][-1]),
        widths[0] / widths[1],
    )


def _end_of(look: int) -> int:
    """The days until a look."""
    return round(DAYS * look / LOOKS)


def _width(row: Compared) -> float:
    return present(row.high) - present(row.low)


def _kept(random: np.random.Generator, lifts: Sequence[float], method: Method) -> tuple[bool, bool]:
    """Whether all of three guardrails are kept: together, and each by itself.

    The lifts have a standard error of 1 % and a correlation of 0.3.
    """
    lists = np.full((1, _GROUPS), 100)
    shared = random.normal(size=(2, 1, _GROUPS))
    sums: list[dict[str, GroupSums]] = [{}, {}]
    for metric, lift in zip(_GUARDRAILS, lifts, strict=True):
        own = random.normal(size=(2, 1, _GROUPS))
        noise = 0.3**0.5 * shared + 0.7**0.5 * own
        for arm, scale in ((0, 1.0), (1, 1.0 + lift)):
            # Of both arms, the errors of the means are 1 % together.
            spread = _ERROR * (_GROUPS / 2) ** 0.5
            values = 0.3 * scale * lists * (1.0 + spread * noise[arm])
            sums[arm][metric] = GroupSums(np.zeros(1, np.int64), values, lists)
    users = np.arange(20_000, dtype=np.uint64)
    arms = {
        name: Variant(of_arm, audience(users + np.uint64(20_000 * arm)))
        for arm, (name, of_arm) in enumerate(zip(("control", "b"), sums, strict=True))
    }
    experiment = Experiment(primary=["hit_rate@1"], guardrails=_GUARDRAILS)
    metrics = [*map(parse, _GUARDRAILS)]
    report = compare_with_control(experiment, metrics, arms, Intervals(), method)
    (decision,) = report.decisions
    alone = all(row.guardrail_verdict == "kept" for row in report.rows if row.guardrail)
    assert (decision.decision == Decision.SHIP) <= (len(decision.kept) == len(_GUARDRAILS))
    return len(decision.kept) == len(_GUARDRAILS), alone


def late_clicks(seed: int, delays: tuple[int, int] = (1, 8), users: int = 3_000) -> pa.Table:
    """Four days of lists, read when they end; `delays`: hours until the clicks of each variant."""
    random = np.random.default_rng([seed, 21])
    taste = random.beta(0.6, 5.4, users)
    often = np.minimum(1.0 + random.pareto(3.0, users), 50.0) / 6.0
    user = np.repeat(np.arange(users), random.poisson(4 * often))
    hour = random.integers(0, 96, user.size)
    treated = random.random(users)[user] < 0.5
    clicks = random.binomial(5, taste[user])
    clicks[hour + np.where(treated, delays[1], delays[0]) >= 96] = 0
    items = [*"abcde"]
    return pa.table(
        {
            "recommendations": pa.array([items]).take(pa.array(np.zeros_like(user))),
            "interactions": pa.array([items[:count] for count in range(6)]).take(pa.array(clicks)),
            "user": pa.array(user).cast(pa.string()),
            "variant": pa.array(["control", "b"]).take(pa.array(treated.astype(int))),
            "time": pa.array((SINCE - date(1970, 1, 1)).days * 86_400 + 3_600 * hour),
        }
    )


class Late(NamedTuple):
    """What is said of clicks that are late: a claim, a note, a claim without the newest day."""

    claimed: bool
    noted: bool
    without: bool


def _late(seed: int) -> Late:
    log = late_clicks(seed)
    how: dict[str, Any] = {"columns": {"time": "time"}, "time_unit": "s"}
    total = compare(log, "ctr", **how)
    without = compare(log, "ctr", until=SINCE + timedelta(2), **how)
    assert isinstance(total, ComparisonReport)
    noted = any("the newest day" in note for note in total.notes)
    return Late(total["ctr"].verdict in DECIDED, noted, without["ctr"].verdict in DECIDED)


def _kept_promise(name: str, outcomes: Sequence[bool]) -> Bar:
    """The bar of a promised rate, which has one limit."""
    least, most = PROMISES[name]
    return at_most(name, most, outcomes) if most < 1 else at_least(name, least, outcomes)


def promised(name: str, measured: str) -> Bar:
    """The bar of what a page says of a promise, "3 of 200" or a mean."""
    count, of, runs = measured.replace(",", "").partition(" of ")
    if not of:
        return between(name, *PROMISES[name], [float(count)])
    return _kept_promise(name, [number < int(count) for number in range(int(runs))])


def guardrail_bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about guardrails."""
    random = np.random.default_rng([seed, 22])
    fine = [_kept(random, (0.0, 0.0, 0.0), "fixed") for _ in range(runs)]
    yield _kept_promise(_ALL_KEPT, [together for together, _ in fine])
    edge = [_kept(random, (-0.03, 0.0, 0.0), "fixed")[0] for _ in range(runs)]
    yield _kept_promise(_AT_LIMIT, edge)


def late_bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promise about clicks of one variant that are late."""
    late = [_late(seed * 10_000 + run) for run in range(runs)]
    yield _kept_promise(_LATE, [run.without for run in late])


def quick_bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises that take little time."""
    yield from guardrail_bars(seed, 10 * runs)
    yield from late_bars(seed, runs)


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about planned looks, guardrails, and clicks that are late."""
    seeds = [seed * 10_000 + run for run in range(runs)]
    alike = [looked(World(users=1_500), each) for each in seeds]
    yield _kept_promise(_NO_EFFECT, [run.planned for run in alike])
    yield between(_WIDTH, *PROMISES[_WIDTH], [run.width for run in alike])
    lifted = [looked(World(users=1_500, lift=0.1), each) for each in seeds]
    yield _kept_promise(_FOUND, [run.planned for run in lifted])
    yield from quick_bars(seed, runs)
