"""Reports of experiments from random group sums."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from streameval.accumulator.objections import SliceSums
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Report
from streameval.analyses.gaps.analysis import GapSeries
from streameval.analyses.gaps.statistics import gap_of
from streameval.catalogue import parse
from streameval.engine.analysis import Finding
from streameval.statistics.intervals import GroupSums, Intervals, Method
from tests.crowds import audience

METRICS = ("ndcg@10", "ctr", "hit_rate@10", "mrr")
GROUPS = 256


def variant(
    values: Mapping[str, float], users: int = 20_000, *, seed: int = 1, days: int = 5
) -> Variant:
    """Lists whose mean of each metric is nearly what is given, of so many users.

    Seeds that differ have other users; lists of a group vary alike in all variants.
    """
    random, alike = np.random.default_rng(seed), np.random.default_rng(0)
    lists = random.poisson(users / GROUPS, (days, GROUPS))
    taste = 1.0 + 0.02 * np.clip(alike.normal(size=GROUPS), -2.0, 2.0)
    sums = {
        metric: GroupSums(
            np.arange(20_000, 20_000 + days),
            lists * value * taste + random.normal(0.0, 0.1 * value, lists.shape) * np.sqrt(lists),
            lists,
        )
        for metric, value in values.items()
    }
    hashes = np.unique(random.integers(0, 2**64, users, dtype=np.uint64))
    return Variant(sums, audience(hashes, lists=int(lists.sum())))


CONTROL = {"ndcg@10": 0.3, "ctr": 0.04, "hit_rate@10": 0.5, "mrr": 0.28}
TREATMENT = {"ndcg@10": 0.33, "ctr": 0.045, "hit_rate@10": 0.5, "mrr": 0.26}


def gap_series() -> GapSeries:
    """The gap of two countries in one window, for one variant."""
    values = {"de": variant(CONTROL).sums, "nl": variant(TREATMENT, seed=2).sums}
    sums = {name: SliceSums(value_of["ndcg@10"], None) for name, value_of in values.items()}
    return GapSeries(
        by="country",
        labels={"variant": "treatment"},
        window="lifetime",
        at_most=0.05,
        gap=gap_of(parse("ndcg@10"), sums, Intervals()),
    )


def report(
    variants: Mapping[str, Variant] | None = None,
    experiment: Experiment | None = None,
    method: Method = "anytime",
) -> Report:
    """Treatment is better in two metrics, worse in the guardrail, and equal in one."""
    usual = {"control": variant(CONTROL), "treatment": variant(TREATMENT, seed=2)}
    requested = Experiment(primary=["ndcg@10"], guardrails={"mrr": -0.01})
    return compare_with_control(
        experiment or requested,
        [parse(metric) for metric in METRICS],
        variants or usual,
        Intervals(),
        method,
    )


def adjusted_report() -> Report:
    """The report as if its first row were adjusted by what users did before."""
    total = report()
    first, *others = total.rows
    first = msgspec.structs.replace(first, known=0.83, narrower=0.4, raw_lift=0.08)
    return total._replace(rows=[first, *others])


def findings(of: Report | None = None) -> tuple[Finding, ...]:
    """What a snapshot has of an experiment."""
    return (Finding(EXPERIMENTS, of or report()),)
