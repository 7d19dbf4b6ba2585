"""Comparisons without a ratio: of an arm without a click, and of values that may be below 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.comparison import (
    Comparison,
    Settings,
    contrast_of,
    judge,
    side_of_limit,
)
from streameval.analyses.experiments.settings import Experiment
from streameval.inference.contrasts import contrasts
from streameval.statistics.intervals import GroupSums, Method
from tests.comparing import compare_sums
from tests.present import present
from tests.uncertainty.test_experiment import of_ctr, report
from tests.uncertainty.test_interval import binomial, sums

_GROUP = np.arange(16)
CONTROL = sums(9 + 5 * _GROUP % 4, 60 + 11 * _GROUP % 23)
NOTHING = sums(0 * _GROUP, 50 + 7 * _GROUP % 13)


def exactly(*values: float) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12)


def test_the_golden_values_of_an_arm_without_a_click() -> None:
    contrast = present(contrast_of(CONTROL, NOTHING))
    own, value = contrast.control.relative_variance, contrast.control.value
    effect, error = contrast.root_effect()
    assert (value, own, contrast.scale, contrast.groups) == exactly(
        0.145706851691, 0.00157189471796, 1.30135440180, 14.8627441622
    )
    assert (effect, error) == exactly(-math.sqrt(value), 0.00996969127494)
    fixed = judge(contrast, Settings("fixed", 0.02, 0.95))
    assert (present(fixed.high), present(fixed.lift_high)) == exactly(
        -0.137588905073, -0.944285759221
    )
    assert fixed.p_value == pytest.approx(2.88188993592e-16, rel=1e-6)
    assert (fixed.low, fixed.lift, fixed.lift_low) == (-value, -1.0, -1.0)
    assert (fixed.verdict, fixed.expected) == ("worse", value)


@pytest.mark.parametrize("method", ["fixed", "anytime"])
def test_the_arms_change_places(method: Method) -> None:
    """Without a click in control there is no lift, and the difference decides."""
    lost, result = (
        compare_sums(*arms, method=method) for arms in ((CONTROL, NOTHING), (NOTHING, CONTROL))
    )
    assert (result.verdict, result.lift, result.lift_low) == ("better", None, None)
    assert (present(result.low), present(result.high)) == exactly(
        -present(lost.high), -present(lost.low)
    )
    assert result.evidence == pytest.approx(lost.evidence)


def _report(control: GroupSums, treatment: GroupSums) -> Any:
    experiment = Experiment(guardrails={"ctr": -0.05})
    (row,) = (
        row for row in report(experiment, of_ctr(control, treatment)).rows if row.metric == "ctr"
    )
    return row


def test_an_arm_without_a_click_is_worse_and_breaks_its_guardrail() -> None:
    control, lost = binomial(1, 0.1), binomial(2, 0.1)
    lost = lost._replace(numerators=0.0 * lost.numerators)
    row = _report(control, lost)
    assert (row.verdict, row.guardrail_verdict) == ("worse", "broken")
    value = control.numerators.sum() / control.denominators.sum()
    assert row.sentence == (
        f"ctr of treatment is 0, where {value:#.4g} was expected: check that its interactions are "
        f"recorded. If they are, treatment is worse: by at least "
        f"{math.floor(-1000 * row.lift_high) / 10} %."
    )
    assert (row.days_left, row.detectable) == (None, None)
    notes = report(Experiment(), of_ctr(control, lost)).checks.notes
    assert any(row.sentence.startswith(f"{note}. If they are, ") for note in notes)
    row = _report(lost, control)
    assert (row.verdict, row.guardrail_verdict, row.lift) == ("better", "kept", None)
    assert row.text.startswith("treatment is better: by at least 0.09")


def test_few_clicks_are_no_reason_to_expect_more() -> None:
    """Ten clicks of control foretell ten of the treatment: none of them may be chance."""
    few = sums(1 * (np.arange(256) < 10), np.full(256, 40))
    row = _report(few, few._replace(numerators=0.0 * few.numerators))
    assert (row.verdict, row.guardrail_verdict) == ("too few users", "too few users")
    assert row.sentence == "nothing to compare yet: ctr of treatment is 0."
    nothing = few._replace(numerators=0.0 * few.numerators)
    assert _report(nothing, nothing).verdict == "too few users"


def _signed(mean: float, seed: int, spread: float = 3.0) -> GroupSums:
    """Values of lists on both sides of 0."""
    lists = np.full(256, 50)
    noise = np.random.default_rng(seed).normal(0.0, spread, (256, 50)).sum(axis=1)
    return sums(np.round(mean * lists + noise, 6), lists)


@pytest.mark.parametrize(
    ("means", "verdict", "has_lift"),
    [
        ((-1.0, -2.0), "worse", False),
        ((-1.0, 0.4), "better", False),
        ((0.0, 0.4), "better", False),
        ((0.4, -0.4), "worse", False),
        ((4.0, 5.0), "better", True),
        ((0.0, 0.0), "not enough evidence", False),
    ],
)
@pytest.mark.parametrize("method", ["fixed", "anytime"])
def test_values_that_are_not_surely_above_0_are_judged_by_their_difference(
    means: tuple[float, float], verdict: str, method: Method, *, has_lift: bool
) -> None:
    control, treatment = (_signed(mean, seed) for seed, mean in enumerate(means))
    row = compare_sums(control, treatment, method=method)
    assert (row.verdict, row.lift is not None, row.lift_low is not None) == (
        verdict,
        has_lift,
        has_lift,
    )
    moved = compare_sums(*(_signed(mean + 100, seed) for seed, mean in enumerate(means)))
    assert row.difference == pytest.approx(moved.difference, abs=1e-9)


def test_a_guardrail_of_a_loss_is_a_share_of_its_size() -> None:
    """-2 may fall to -2.1 at -5 %, and not to -2.3."""
    control = _signed(-2.0, 1, spread=0.2)
    kept, broken = (_signed(mean, 2, spread=0.2) for mean in (-2.05, -2.3))
    settings = Settings("fixed", 0.02, 0.95)
    sides = [side_of_limit(contrasts(control, arm)[0], settings, -0.05) for arm in (kept, broken)]
    assert sides == ["above", "below"]


def test_bounds_of_signed_values_cover_their_difference() -> None:
    covered: list[bool] = []
    for run in range(100):
        row: Comparison = compare_sums(
            _signed(0.0, 2 * run), _signed(0.2, 2 * run + 1), method="fixed"
        )
        covered.append(present(row.low) <= 0.2 <= present(row.high))
    assert 88 <= sum(covered) <= 99


def test_returns_turn_a_verdict_round() -> None:
    """More users buy and a tenth of the lists are returns, so that less is earned."""
    random = np.random.default_rng(3)
    users = 6_000
    treated = np.arange(users) % 2 == 1
    bought = random.random(users) < np.where(treated, 0.24, 0.2)
    returned = treated & (random.random(users) < 0.1)
    outcomes = [*zip(bought.tolist(), returned.tolist(), strict=True)]
    lists = pd.DataFrame(
        {
            "user": [f"u{user}" for user in range(users)],
            "variant": np.where(treated, "b", "control"),
            "recommendations": [["x", "y"]] * users,
            "interactions": [["x"] * (hit or back) for hit, back in outcomes],
            "gains": [[100.0] * hit + [-100.0] * (back and not hit) for hit, back in outcomes],
        }
    )
    found = compare(lists, "value_per_list")
    assert isinstance(found, ComparisonReport)
    row = found["value_per_list"]
    assert row.verdict == "worse"
    assert present(row.difference) < 0
    plain = compare(lists, "value_per_list(relevant=positive)")
    assert isinstance(plain, ComparisonReport)
    assert next(iter(plain.values())).verdict == "better"
