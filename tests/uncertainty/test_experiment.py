"""Many metrics and variants, guardrails, and whether the experiment itself is sound."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import comb

import numpy as np
import pytest

from streameval.accumulator.objections import Objection
from streameval.analyses.experiments.sample_ratio import ratio_evidence, shared_evidence
from streameval.analyses.experiments.settings import DatedShares, Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.analyses.experiments.verdicts import Compared, Report
from streameval.catalogue import parse
from streameval.events.errors import ConfigError
from streameval.statistics.intervals import GroupSums, Intervals
from tests.comparing import compare_sums
from tests.crowds import audience
from tests.uncertainty.test_comparison import one_day
from tests.uncertainty.test_interval import binomial, sums

METRICS = ["ctr", "hit_rate@10", "ndcg@10"]
RAMP: DatedShares = [
    {"since": date(2026, 3, 1), "control": 99, "treatment": 1},
    {"since": date(2026, 3, 8), "control": 50, "treatment": 50},
]


def crowd(seed: int, users: int = 5_000) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(seed).integers(0, 2**64, users, dtype=np.uint64)


def variant(seed: int, rate: float = 0.1, metrics: Sequence[str] = METRICS, **size: int) -> Variant:
    sums = {text: binomial(seed + index, rate, **size) for index, text in enumerate(metrics)}
    return Variant(sums, audience(crowd(seed)))


def of_ctr(control: GroupSums, treatment: GroupSums) -> dict[str, Variant]:
    """Two variants of users of their own with one metric."""
    return {
        name: Variant({"ctr": sums}, audience(crowd(seed)))
        for seed, (name, sums) in enumerate((("control", control), ("treatment", treatment)), 1)
    }


def report(
    experiment: Experiment, variants: dict[str, Variant], metrics: Sequence[str] = METRICS
) -> Report:
    return compare_with_control(
        experiment, [parse(text) for text in metrics], variants, Intervals()
    )


def verdicts(result: Report) -> dict[tuple[str, str], str]:
    return {(row.metric, row.variant): row.verdict for row in result.rows}


def row(result: Report, metric: str, name: str = "treatment") -> Compared:
    (only,) = [
        compared
        for compared in result.rows
        if (compared.metric, compared.variant) == (metric, name)
    ]
    return only


def test_every_metric_of_every_variant_is_compared_with_control() -> None:
    variants = {"b": variant(20), "control": variant(10), "a": variant(30)}
    result = report(Experiment(), variants)
    assert [(compared.metric, compared.variant) for compared in result.rows] == [
        (metric, name) for metric in METRICS for name in ("a", "b")
    ]
    alone = compare_sums(variants["control"].sums["ctr"], variants["a"].sums["ctr"])
    seen = row(result, "ctr", "a")
    assert (seen.evidence, seen.lift, seen.among) == (alone.evidence, alone.lift, 6)
    assert seen.confidence == pytest.approx(1 - 0.05 / 6)


def test_label_values_that_are_not_variants_are_not_compared() -> None:
    variants = {
        name: variant(10 * index)
        for index, name in enumerate(["control", "treatment", "__other__", "__missing__", "old"])
    }
    result = report(Experiment(shares={"control": 1, "treatment": 1}), variants)
    assert {compared.variant for compared in result.rows} == {"treatment"}
    assert result.checks.left_out == ("old",)
    assert set(result.checks.users) == {"control", "treatment"}


def test_a_metric_without_sums_is_left_out() -> None:
    variants = {"control": variant(1, metrics=["ctr"]), "treatment": variant(2, metrics=["ctr"])}
    result = report(Experiment(), variants, ["ctr", "auc"])
    assert [compared.metric for compared in result.rows] == ["ctr"]


def test_primary_metrics_share_the_error() -> None:
    variants = {"control": variant(10), "a": variant(20), "b": variant(30)}
    result = report(Experiment(primary=["ctr", "ndcg@10"]), variants)
    ctr = row(result, "ctr", "a")
    assert ctr.confidence == pytest.approx(1 - 0.05 / 4)
    assert (ctr.primary, ctr.among) == (True, 4)
    other = row(result, "hit_rate@10", "a")
    assert other.confidence == pytest.approx(1 - 0.05 / 2)
    assert (other.primary, other.among) == (False, 2)


def test_a_finding_among_many_needs_more_evidence() -> None:
    """Without a difference, some of many metrics have bounds that barely exclude 0."""
    lifts = np.linspace(1.0, 1.2, 60)
    control = binomial(1, 0.1)
    near = next(
        table
        for table in (binomial(2, 0.1 * lift) for lift in lifts)
        if compare_sums(control, table).verdict == "better"
    )
    alone = report(Experiment(), of_ctr(control, near))
    assert verdicts(alone) == {("ctr", "treatment"): "better"}
    arms = {"control": _with(variant(10), control), "treatment": _with(variant(40), near)}
    comparison = row(report(Experiment(), arms), "ctr")
    assert comparison.verdict == "not enough evidence"
    assert not comparison.excludes_zero
    assert comparison.evidence < comparison.needed == pytest.approx(60)
    decides = row(report(Experiment(primary=["ctr"]), arms), "ctr")
    assert decides.verdict == "better"


def _with(whole: Variant, ctr: GroupSums) -> Variant:
    return whole._replace(sums={**whole.sums, "ctr": ctr})


@pytest.mark.parametrize(
    ("metric", "lift", "limit", "expected"),
    [
        ("ctr", 1.00, -0.05, "kept"),
        ("ctr", 0.90, -0.05, "broken"),
        ("ctr", 0.95, -0.05, "not enough evidence"),
        ("ctr", 1.10, -0.05, "kept"),
        ("log_loss", 1.2, 0.05, "broken"),
        ("log_loss", 1.0, 0.05, "kept"),
        ("log_loss", 0.8, 0.05, "kept"),
    ],
)
def test_a_guardrail_has_its_own_verdict(
    metric: str, lift: float, limit: float, expected: str
) -> None:
    """If lower is better, the limit is positive."""
    texts = [metric, "ndcg@10"]
    arms = variant(50, metrics=texts, lists=2_000), variant(60, 0.1 * lift, texts, lists=2_000)
    variants = dict(zip(("control", "treatment"), arms, strict=True))
    result = report(Experiment(guardrails={metric: limit}), variants, texts)
    assert row(result, metric).guardrail_verdict == expected
    assert row(result, "ndcg@10").guardrail is None


def test_evidence_against_a_fair_split_has_mean_1() -> None:
    """The mean of an e-value over all outcomes of 50 users is exactly 1."""
    mean = sum(
        comb(50, first)
        * 0.3**first
        * 0.7 ** (50 - first)
        * ratio_evidence([first, 50 - first], [0.3, 0.7])
        for first in range(51)
    )
    assert mean == pytest.approx(1.0)


def test_evidence_of_shared_users_has_mean_1_at_the_limit() -> None:
    mean = sum(
        comb(60, shared) * 0.01**shared * 0.99 ** (60 - shared) * shared_evidence(shared, 60)
        for shared in range(61)
    )
    assert mean == pytest.approx(1.0)


def test_missing_users_are_reported() -> None:
    users = crowd(5, 20_000)
    control = variant(10, 0.1)._replace(audience=audience(users[:8_000]))
    treatment = variant(20, 0.2)._replace(audience=audience(users[10_000:]))
    result = report(
        Experiment(guardrails={"ctr": -0.01}), {"control": control, "treatment": treatment}
    )
    assert result.checks.ratio_evidence >= 1000
    assert set(verdicts(result).values()) == {"do not trust"}
    assert row(result, "ctr").guardrail_verdict == "do not trust"
    (problem,) = result.checks.trouble
    assert "control 8,000, treatment 10,000; planned 50.0 % each" in problem
    assert row(result, "ctr").sentence == "do not trust this: a check of the experiment failed."
    planned = Experiment(shares={"control": 4, "treatment": 5})
    assert report(planned, {"control": control, "treatment": treatment}).checks.trouble == ()


def test_a_variant_that_never_ran_is_reported() -> None:
    planned = Experiment(shares={"control": 1, "treatment": 1})
    result = report(planned, {"control": variant(10)})
    assert len(result.checks.trouble) == 1
    assert set(verdicts(result).values()) == {"too few users"}
    assert row(result, "ctr").treatment is None
    assert {row.sentence for row in result.rows} == {"too few users: treatment has no lists yet."}


@pytest.mark.parametrize(("first", "share"), [(4_800, 0.03), (0, 1.0)])
def test_users_in_both_variants_are_reported_unless_that_is_declared(
    first: int, share: float
) -> None:
    users = crowd(6, 10_000)
    mine, others = (users[:5_100], users[first:]) if first else (users, users)
    control = variant(10)._replace(audience=audience(mine))
    treatment = variant(20)._replace(audience=audience(others))
    arms = {"control": control, "treatment": treatment}
    guessed = report(Experiment(), arms)
    assert guessed.checks.shared == pytest.approx(share)
    (message,) = (line for line in guessed.checks.trouble if "in several variants" in line)
    assert message.startswith("3.0 %" if first else "100 %")
    assert set(verdicts(guessed).values()) == {"do not trust"}
    declared = report(Experiment(same_users=True), arms).checks
    assert (declared.trouble, declared.ratio_evidence) == ((), 1.0)
    assert declared.shared == pytest.approx(share)


def test_audiences_are_thinned_to_the_same_threshold() -> None:
    users = crowd(7, 40_000)
    half = 2**63
    total = audience(users[:20_000])
    thinned = audience(users[20_000:][users[20_000:] < half], threshold=half)
    arms = {
        "control": variant(10)._replace(audience=total),
        "treatment": variant(20)._replace(audience=thinned),
    }
    result = report(Experiment(), arms)
    assert result.checks.trouble == ()
    assert result.checks.users["treatment"] == pytest.approx(20_000, rel=0.05)


@pytest.mark.parametrize(("anonymous", "alarms"), [(20, 0), (21, 1)])
def test_lists_without_a_user_are_trusted_up_to_two_percent(anonymous: int, alarms: int) -> None:
    treatment = variant(20)._replace(audience=audience(crowd(20), anonymous=anonymous))
    result = report(Experiment(), {"control": variant(10), "treatment": treatment})
    assert len(result.checks.trouble) == alarms


def test_days_before_the_start_do_not_count() -> None:
    early, late = binomial(1, 0.3, days=2), binomial(3, 0.1, days=3)
    total = sums(
        np.concatenate([early.numerators, late.numerators]),
        np.concatenate([early.denominators, late.denominators]),
        [10, 11, 12, 13, 14],
    )
    arms = of_ctr(total, _later(binomial(4, 0.1, days=3), 12))
    comparison = row(report(Experiment(since=date(1970, 1, 13)), arms), "ctr")
    assert comparison.control == pytest.approx(0.1, abs=0.001)
    assert row(report(Experiment(), arms), "ctr") == comparison


@pytest.mark.parametrize(
    ("first", "is_estimate", "means"),
    [
        (1, True, (0.3, 0.4)),
        (2, False, (0.2, 0.5)),
        (2, True, (0.2, 0.5)),
        (None, False, (0.2, None)),
    ],
    ids=["one day", "no day", "no day, an estimate", "no list"],
)
def test_without_a_difference_the_means_are_of_the_days_that_both_have_or_else_of_their_own(
    first: int | None, *, is_estimate: bool, means: tuple[float, float | None]
) -> None:
    lists = np.full((2, 256), 10)
    control, treatment = (
        sums(lists * np.array(rates)[:, None], lists) for rates in ((0.1, 0.3), (0.4, 0.6))
    )
    treatment = treatment.rows(slice(0)) if first is None else _later(treatment, first)
    arms = of_ctr(control, treatment)
    reasons = {"ctr": Objection("too little was shown.")} if is_estimate else {}
    arms["control"] = arms["control"]._replace(objections=reasons)
    comparison = row(report(Experiment(), arms, ["ctr"]), "ctr")
    assert (comparison.control, comparison.treatment) == pytest.approx(means)
    assert (comparison.difference, comparison.lift, comparison.low) == (None, None, None)


def _later(table: GroupSums, first: int) -> GroupSums:
    return table._replace(days=table.days + first)


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (
            Experiment(primary=["mrr"]),
            "experiment: primary: 'mrr' is not compared; choose one of ctr,",
        ),
        (Experiment(guardrails={"ctr": 0.01}), "guardrails: ctr = 0.01; give a share from 0 to -1"),
        (Experiment(guardrails={"ctr": -1.5}), "guardrails: ctr = -1.5; give a share from 0 to"),
        (Experiment(guardrails={"log_loss": -0.1}), "log_loss = -0.1; give a share above 0"),
        (Experiment(shares={"control": 0, "b": 1}), "shares: control = 0; give a number above 0"),
        (Experiment(shares={"a": 1, "b": 1}), "they are of a, b; also give one for 'control'"),
        (Experiment(shares=[]), "shares: the list is empty; give entries like"),
        (
            Experiment(since=date(2026, 3, 8), shares=RAMP),
            "since: the shares changed on or before 2026-03-08",
        ),
        (Experiment(shares=[{"control": 1.0, "b": 1.0}]), "an entry has no date; give { since ="),
        (Experiment(shares=RAMP[::-1]), "2026-03-01 follows 2026-03-08; give the oldest first"),
        (
            Experiment(shares=[RAMP[0], RAMP[1] | {"c": 1.0}]),
            "give each variant in every entry",
        ),
        (
            Experiment(shares=[RAMP[0], RAMP[1] | {"treatment": 0.0}]),
            "treatment = 0; give a number above 0",
        ),
        (
            Experiment(shares=[{"since": date(2026, 3, 1), "a": 1.0, "b": 1.0}]),
            "give one for 'control'",
        ),
    ],
)
def test_inconsistent_settings_are_refused(experiment: Experiment, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        experiment.check([parse(text) for text in [*METRICS, "log_loss"]])
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("arms", "beginning"),
    [
        ((variant(1), variant(2, 0.2)), "treatment is better than control: by at least "),
        ((variant(1, 0.2), variant(2)), "treatment is worse than control: by at least "),
        ((variant(1), variant(2)), "not enough evidence yet: the lift lies between -"),
        (
            (variant(1, 0.5, lists=40_000), variant(2, 0.5, lists=40_000)),
            "treatment and control differ by ",
        ),
        (
            (variant(1, groups=16, lists=2), variant(2, groups=16, lists=2)),
            "too few users: the smaller variant has 1.8 equally active users' worth of data ",
        ),
        ((variant(1, 0.0), variant(2, 0.0)), "nothing to compare yet: ctr of control is 0."),
        ((variant(1, 1.0), variant(2, 1.0)), "not enough evidence yet: all users have the same "),
    ],
)
def test_a_verdict_is_explained(arms: tuple[Variant, Variant], beginning: str) -> None:
    result = report(Experiment(), dict(zip(("control", "treatment"), arms, strict=True)))
    assert row(result, "ctr").sentence.startswith(beginning)


def test_a_long_tail_in_a_small_variant_asks_for_users_or_a_cap() -> None:
    values = 1 + np.random.default_rng(1).pareto(1.5, 10_000)
    arms = one_day(np.random.default_rng(2), values, 0.05)
    metric = "value_per_list"
    result = report(
        Experiment(shares={"control": 95, "treatment": 5}),
        {
            name: Variant({metric: table}, audience(crowd(seed, users)))
            for seed, (name, table, users) in enumerate(
                zip(("control", "treatment"), arms, (9_500, 500), strict=True)
            )
        },
        [metric],
    )
    (only,) = result.rows
    assert only.sentence.startswith("too few users: a few large values decide value_per_list, and")
    assert "value_per_list(cap=100)" in only.sentence
    assert "cap=p99.5" in only.sentence
