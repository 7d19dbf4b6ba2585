"""Experiments of many comparisons: false bounds among those stated, and broken guardrails."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streameval.analyses.experiments.outcomes import DECIDED
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Compared, Report
from streameval.catalogue import parse
from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import GroupSums, Intervals, Method
from tests.crowds import audience

METRICS = tuple(f"hit_rate@{k}" for k in range(1, 13))
VARIANTS = ("a", "b", "c")
LIMIT = -0.01
"""Of every guardrail."""

_GROUPS, _LISTS, _RATE = 256, 10, 0.25
_USERS = np.arange(4_000, dtype=np.uint64)


class Stated(NamedTuple):
    """What one experiment of 36 comparisons states.

    Attributes:
        stated: number of verdicts with a bound.
        false: how many of the bounds the true lift does not keep.
        broken: whether any guardrail is said to be broken.
    """

    stated: int
    false: int
    broken: bool

    @property
    def false_share(self) -> float:
        """Share of false bounds; 0 if none is stated."""
        return self.false / max(self.stated, 1)


def stated(random: np.random.Generator, lifts: FloatArray, method: Method) -> Stated:
    """Draw an experiment with true lifts of shape (metrics, variants); every metric is guarded."""
    report = _drawn(random, lifts, method)
    truth = {
        (metric, name): float(lifts[row, column])
        for row, metric in enumerate(METRICS)
        for column, name in enumerate(VARIANTS)
    }
    rows = [row for row in report.rows if row.verdict in DECIDED]
    false = sum(not _is_kept(row, truth[row.metric, row.variant]) for row in rows)
    broken = any(row.guardrail_verdict == "broken" for row in report.rows)
    return Stated(len(rows), false, broken)


def _is_kept(row: Compared, truth: float) -> bool:
    """Whether the true lift is beyond the bound nearest to 0 that the verdict's text states."""
    words = row.text.removesuffix(" %").split()
    bound = float(words[-1]) / 100.0
    return truth >= bound if row.verdict == "better" else truth <= -bound


def _drawn(random: np.random.Generator, lifts: FloatArray, method: Method) -> Report:
    rates = np.concatenate([np.zeros((len(METRICS), 1)), lifts], axis=1)
    arms = {
        name: Variant(
            {
                metric: _clicks(random, _RATE * (1.0 + rates[row, column]))
                for row, metric in enumerate(METRICS)
            },
            audience(_USERS + np.uint64(column * _USERS.size), lists=_GROUPS * _LISTS),
        )
        for column, name in enumerate(("control", *VARIANTS))
    }
    experiment = Experiment(guardrails=dict.fromkeys(METRICS, LIMIT))
    return compare_with_control(
        experiment, [parse(text) for text in METRICS], arms, Intervals(), method
    )


def _clicks(random: np.random.Generator, rate: float) -> GroupSums:
    lists = np.full((1, _GROUPS), _LISTS)
    return GroupSums(np.zeros(1, np.int64), random.binomial(lists, rate).astype(float), lists)


def a_tenth(random: np.random.Generator, lift: float = 0.1) -> FloatArray:
    """True lifts of 36 comparisons: a tenth has one."""
    lifts = np.zeros(len(METRICS) * len(VARIANTS))
    lifts[random.permutation(lifts.size)[: round(lifts.size / 10)]] = lift
    return lifts.reshape(len(METRICS), len(VARIANTS))


def everywhere(_: np.random.Generator, lift: float = 0.05) -> FloatArray:
    """The same true lift of 36 comparisons."""
    return np.full((len(METRICS), len(VARIANTS)), lift)
