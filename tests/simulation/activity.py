"""Worlds in which users of the treatment come more often, and splits of very many users.

Each trial is judged as people read it: by the checks, and by the sentences of the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from streameval.accumulator.kinds.experiment import Activity
from streameval.analyses.experiments.sample_ratio import ALARM, ratio_evidence
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Report
from streameval.catalogue import parse
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import GroupSums, Intervals
from streameval.statistics.limits import EXPERIMENT_USERS
from streameval.statistics.users import HashArray
from tests.crowds import audience_of
from tests.simulation.bars import GROUPS, Bar, at_least, at_most, claims

DAYS: Final = 14
ITEMS: Final = 5
USERS: Final = 4_000


def _report(random: np.random.Generator, often: float) -> Report:
    """What is printed about a treatment whose users get more lists, but click no more."""
    begins, day = random.integers(0, DAYS, USERS), np.arange(DAYS)[:, None]
    again = random.random((DAYS, USERS)) < random.beta(1.0, 2.0, USERS)
    comes = (day == begins) | ((day > begins) & again)
    hashes = random.integers(0, 2**64, USERS, np.uint64)
    treated = random.random(USERS) < 0.5
    more = 1.0 + often * treated
    taste = random.beta(0.8, 7.2, USERS) / more
    # At least one list a day, so that who comes does not depend on the treatment.
    lists = (1 + random.poisson(3.0 * more - 1.0, comes.shape)) * comes
    day, user = (np.repeat(indices.ravel(), lists.ravel()) for indices in np.indices(lists.shape))
    clicks = random.binomial(ITEMS, taste[user])
    variants = {
        name: _variant(day[here], hashes[user[here]], clicks[here])
        for name, here in (("control", ~treated[user]), ("treatment", treated[user]))
    }
    plan = Experiment(shares={"control": 1, "treatment": 1})
    return compare_with_control(plan, [parse("ctr")], variants, Intervals(), "fixed")


def _variant(day: IntArray, users: HashArray, clicks: IntArray) -> Variant:
    index = day * GROUPS + (users % GROUPS).astype(np.int64)
    size = DAYS * GROUPS
    above = np.bincount(index, clicks, size).reshape(DAYS, GROUPS).astype(np.float64)
    lists = np.bincount(index, minlength=size).reshape(DAYS, GROUPS)
    sums = GroupSums(np.arange(DAYS), above, ITEMS * lists)
    activity = Activity(sums._replace(denominators=lists), ITEMS * lists.astype(np.float64))
    return Variant({"ctr": sums}, audience_of(users, day), activity)


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about how often users come, and about splits."""
    for number, often in enumerate((0.0, 0.2)):
        randoms = (np.random.default_rng((seed, 5, number, run)) for run in range(runs))
        reports = [_report(random, often) for random in randoms]
        name = f"users come {often:.0%} more often"
        alarms = [bool(report.checks.trouble) for report in reports]
        yield at_most(f"{name}: a check raises an alarm", 0.002, alarms)
        notes = [bool(report.checks.notes) for report in reports]
        bar, rate = (at_least, 0.95) if often else (at_most, 0.01)
        yield bar(f"{name}: a note says so", rate, notes)
        unchanged = ("clicks_per_user",) if often else ("ctr", "lists_per_user", "clicks_per_user")
        for metric in unchanged:
            claimed = [_claims(report, metric) for report in reports]
            yield at_most(f"{name}: a sentence claims a difference in {metric}", 0.05, claimed)
    yield from _splits(seed, runs)


def _claims(report: Report, metric: str) -> bool:
    return any(claims(row) for row in report.rows if row.metric == metric)


def _splits(seed: int, runs: int) -> Iterator[Bar]:
    """Users split by their hashes, thinned as the state thins them."""
    random = np.random.default_rng((seed, 6))
    for users, share in ((1_000_000, 0.49), (10_000_000, 0.495), (10_000_000, 0.5)):
        first = random.binomial(users, share, 10 * runs)
        alarms = [_alarms(random, size, users - size) for size in first.tolist()]
        name = f"{users:,} users split {100 * share:g}:{100 - 100 * share:g}: alarm"
        yield at_most(name, 0.001, alarms) if share == 0.5 else at_least(name, 0.99, alarms)


def _alarms(random: np.random.Generator, first: int, other: int) -> bool:
    halvings = 0
    while max(first, other) >> halvings > EXPERIMENT_USERS:
        halvings += 1
    counts = [int(random.binomial(size, 0.5**halvings)) for size in (first, other)]
    return ratio_evidence(counts, [0.5, 0.5]) >= ALARM
