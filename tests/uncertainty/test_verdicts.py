"""Many comparisons share the error: verdicts, their bounds, and guardrails; and their words."""

from __future__ import annotations

import numpy as np
import pytest

from streameval.analyses.experiments.comparison import Comparison
from streameval.analyses.experiments.outcomes import DECIDED, Verdict
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.verdicts import Compared
from streameval.analyses.experiments.words import guardrail_text, needed_text, verdict_text
from streameval.statistics.intervals import Method
from tests.exporters.experiments import CONTROL, TREATMENT, report, variant
from tests.simulation.bars import at_most
from tests.simulation.selection import LIMIT, everywhere, stated


def test_bounds_of_what_stands_out_are_rarely_false() -> None:
    """Of 36 comparisons whose true lift is 5 %, those that stand out have lifts that are too good.

    Many more bounds would be false if each held by itself.
    """
    random = np.random.default_rng(1)
    runs = [stated(random, everywhere(random), "fixed") for _ in range(12)]
    assert sum(run.stated for run in runs) > 7
    shares = [run.false_share for run in runs]
    # 5 % are allowed; of twelve experiments 4 % are false, and 16 % if each bound held by itself.
    assert np.mean(shares) < 0.1


def test_guardrails_at_their_limit_are_rarely_broken() -> None:
    """Of 36 guardrails whose lift is the limit, one is broken in 58 % if each is by itself."""
    random = np.random.default_rng(2)
    broken = [stated(random, everywhere(random, LIMIT), "fixed").broken for _ in range(12)]
    assert at_most("any guardrail is broken", 0.05, broken).passed


@pytest.mark.parametrize("method", ["fixed", "anytime"])
def test_an_interval_excludes_0_if_and_only_if_there_is_a_verdict(method: Method) -> None:
    for seed in range(2, 12):
        lifted = {name: value * (1 + 0.002 * seed) for name, value in CONTROL.items()}
        arms = {"control": variant(CONTROL), "a": variant(lifted, seed=seed)}
        arms["b"] = variant(CONTROL, seed=seed + 100)
        for row in report(arms, Experiment(), method).rows:
            assert row.excludes_zero == (row.verdict in DECIDED)
            strong = row.p_value <= row.needed if method == "fixed" else row.evidence >= row.needed
            assert strong == row.excludes_zero


def test_the_guardrail_of_each_variant_takes_its_part_of_the_error() -> None:
    """The lift is -9.918 %, and beyond the limit for one variant, not for one of four."""
    lower = variant({name: 0.9 * value for name, value in CONTROL.items()}, seed=2)
    experiment = Experiment(guardrails={"ctr": -0.09825}, same_users=True)
    for names, verdict in (("a", "broken"), ("abcd", "not enough evidence")):
        arms = {"control": variant(CONTROL)} | dict.fromkeys(names, lower)
        rows = report(arms, experiment, "fixed").rows
        assert {row.guardrail_verdict for row in rows if row.metric == "ctr"} == {verdict}


@pytest.mark.parametrize(
    ("verdict", "low", "high", "text"),
    [
        ("better", 0.0846, 0.2, "better: by at least 8.4 %"),
        ("worse", -0.2, -0.0592, "worse: by at least 5.9 %"),
        ("different", -0.2, -0.0592, "different: lower by at least 5.9 %"),
        ("different", 0.0846, 0.2, "different: higher by at least 8.4 %"),
        ("no difference", -0.01, 0.0123, "no difference above 1.3 %"),
        ("not enough evidence", -0.01, 0.5, "not enough evidence yet"),
    ],
)
def test_a_verdict_states_the_bound_nearest_to_0(
    verdict: str, low: float, high: float, text: str
) -> None:
    comparison = Comparison(
        verdict=Verdict(verdict),
        lift_low=low,
        lift_high=high,
        kind="fixed",
        confidence=0.95,
    )
    assert verdict_text(comparison) == text


def rows() -> dict[str, Compared]:
    return {row.metric: row for row in report().rows}


def test_every_verdict_names_its_variant() -> None:
    assert {metric: row.text.partition(": ")[0] for metric, row in rows().items()} == {
        "ndcg@10": "treatment is better",
        "ctr": "treatment is better",
        "hit_rate@10": "treatment",
        "mrr": "treatment is worse",
    }
    assert guardrail_text(rows()["mrr"]) == "treatment breaks the guardrail of -1.0 %"


def test_evidence_stands_beside_what_is_needed() -> None:
    comparisons = rows()
    assert needed_text(comparisons["ctr"]).endswith("≥ 30")
    assert needed_text(comparisons["ndcg@10"]).endswith("≥ 20")
    assert " < " in needed_text(comparisons["hit_rate@10"])
    fixed = {row.metric: row for row in report(method="fixed").rows}
    assert needed_text(fixed["ctr"]).endswith("≤ 0.033")


def test_a_broken_guardrail_needs_difference_and_lift_to_agree() -> None:
    """A guardrail at 0 is broken if and only if the verdict by itself is worse."""
    for seed in range(2, 30):
        lower = {name: value * (1 - 0.0007 * seed) for name, value in CONTROL.items()}
        arms = {"control": variant(CONTROL), "treatment": variant(lower, seed=seed)}
        alone = {name: arm._replace(sums={"ctr": arm.sums["ctr"]}) for name, arm in arms.items()}
        (row,) = report(alone, Experiment(guardrails={"ctr": -1e-12})).rows
        assert (row.guardrail_verdict == "broken") == (row.verdict == "worse")


def test_distrust_is_not_repeated() -> None:
    lost = {"control": variant(CONTROL), "treatment": variant(TREATMENT, users=15_000, seed=2)}
    result = report(lost)
    assert len(result.checks.trouble) == 1
    assert not any("split" in row.sentence for row in result.rows)
