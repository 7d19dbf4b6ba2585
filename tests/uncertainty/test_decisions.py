"""Guardrails together, and the decision about a variant: its rule, its words, its goldens."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from msgspec.structs import replace

from streameval.analyses.experiments.comparison import Settings, contrast_of
from streameval.analyses.experiments.outcomes import Decision, GuardrailVerdict, Verdict
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.verdicts import (
    Compared,
    decide,
    guardrail_verdict,
    keeps_limit,
)
from streameval.analyses.experiments.words import (
    decision_lines,
    guardrail_text,
    in_words,
    summary_lines,
)
from streameval.events.errors import UsageError
from streameval.inference.contrasts import Contrast
from streameval.inference.interval_formulas import half_width, standard_error
from streameval.statistics.intervals import GroupSums
from tests.exporters.experiments import CONTROL, report, variant
from tests.present import present
from tests.simulation.histories import World

LIMITS = -0.16, -0.14, -0.22


def _guarded(number: int) -> Contrast:
    """One of three guardrails; G = 16, one day."""
    g = np.arange(16)
    arms = []
    for arm in (0, 1):
        lists = 400 + (7 * g + 5 * arm + 3 * number) % 23
        values = lists * (80 + 12 * ((5 * g + 3 * arm + 2 * number) % 7)) // 400
        arms.append(GroupSums(np.array([0]), values[None, :].astype(float), lists[None, :]))
    return present(contrast_of(*arms))


def test_the_golden_values_of_guardrails_together() -> None:
    """The one-sided bound at 5 % keeps each limit; none is kept at a third, two-sided."""
    for number, limit, effect, error, groups, low, apart, log_low in zip(
        range(3),
        LIMITS,
        (0.0439108071072, 0.0506552343432, 0.0622723954013),
        (0.0246555632465, 0.0243440991152, 0.0241665108603),
        (14.9957204628, 14.9958475712, 14.9958465722),
        (0.000687553167953, 0.00797802670474, 0.0199065143919),
        (-0.0225072003621, -0.0149236714371, -0.00282811804661),
        (0.00279243455576, 0.0296314674161, 0.0808895956946),
        strict=True,
    ):
        contrast = _guarded(number)
        first, other, *_ = contrast
        difference = other.value - (1.0 + limit) * first.value
        spread = standard_error(other.influences - (1.0 + limit) * first.influences)
        assert (difference, spread, contrast.groups) == pytest.approx(
            (effect, error, groups), rel=1e-11
        )
        # Half of 10 % is on each side.
        for level, bound in ((0.1, low), (0.05 / 3, apart)):
            half = half_width(spread, contrast.groups, level, "fixed", 1.0)
            assert difference - half == pytest.approx(bound, abs=1e-13, rel=0)
        relative = standard_error(other.influences / other.value - first.influences / first.value)
        half = half_width(relative, contrast.groups, 0.1, "fixed", 1.0)
        lift = math.log(other.value / first.value / (1.0 + limit))
        assert lift - half == pytest.approx(log_low, abs=1e-13, rel=0)
        settings = Settings("fixed", 0.02, 0.95)
        assert keeps_limit(contrast, settings, limit)
        third = settings._replace(confidence=1.0 - 0.05 / 3)
        assert guardrail_verdict(contrast, third, limit) == GuardrailVerdict.OPEN
    # The bounds of the first limit: just within it, and just beyond it.
    settings = Settings("fixed", 0.02, 0.95)
    assert not keeps_limit(_guarded(0), settings, LIMITS[0] + 0.003)


def _row(metric: str, verdict: Verdict, guardrail: GuardrailVerdict | None = None) -> Compared:
    guarded = guardrail is not None
    return Compared(
        metric=metric,
        variant="b",
        primary=not guarded,
        among=1,
        guardrail=-0.01 if guarded else None,
        guardrail_verdict=guardrail,
        within_limit=guardrail == GuardrailVerdict.KEPT if guarded else None,
        verdict=verdict,
        kind="fixed",
        confidence=0.95,
    )


def _expected(primary: set[Verdict], guards: set[GuardrailVerdict]) -> Decision:
    if Verdict.DO_NOT_TRUST in primary:
        return Decision.DO_NOT_TRUST
    if Verdict.WORSE in primary or GuardrailVerdict.BROKEN in guards:
        return Decision.DO_NOT_SHIP
    if Verdict.BETTER in primary and guards <= {GuardrailVerdict.KEPT}:
        return Decision.SHIP
    return Decision.WAIT


def test_a_decision_follows_from_primary_metrics_and_all_guardrails() -> None:
    verdicts = [*Verdict][:-1]
    guards = [GuardrailVerdict.KEPT, GuardrailVerdict.BROKEN, GuardrailVerdict.OPEN]
    for first, second in itertools.product(verdicts, verdicts):
        for size in range(3):
            for kept in itertools.product(guards, repeat=size):
                rows = [_row("ctr", first), _row("hit_rate", second)]
                rows += [_row(f"mrr@{n}", Verdict.OPEN, of) for n, of in enumerate(kept, 1)]
                (decision,) = decide(rows, ())
                assert decision.decision == _expected({first, second}, {*kept})
                (decision,) = decide(rows, ("lists are missing",))
                assert decision.decision == Decision.DO_NOT_TRUST
    assert decide([replace(_row("ctr", Verdict.BETTER), primary=False)], ()) == []


def test_any_spelling_of_a_metric_and_those_per_user_may_decide() -> None:
    guardrails = {"lists_per_user": -0.5, "hr@5": -0.9}
    found = World(users=300).compared(1, primary="clicks_per_user", guardrails=guardrails)
    (decision,) = found.decisions
    assert (decision.decision, decision.kept) == ("wait", ("hit_rate@5", "lists_per_user"))
    with pytest.raises(UsageError, match="found 5; give the text of a metric, like 'ctr'"):
        World(users=30).compared(1, primary=[5])


BETTER, OPEN, WORSE = Verdict.BETTER, Verdict.OPEN, Verdict.WORSE
KEPT, BROKEN, UNKNOWN = GuardrailVerdict.KEPT, GuardrailVerdict.BROKEN, GuardrailVerdict.OPEN


@pytest.mark.parametrize(
    ("primary", "guards", "text"),
    [
        (
            BETTER,
            {"mrr": KEPT, "hit_rate": KEPT},
            (
                "b: ship: ctr is better and both guardrails are kept "
                "(at most 5 % of such decisions are wrong)."
            ),
        ),
        (BETTER, {}, "b: ship: ctr is better (at most 5 % of such decisions are wrong)."),
        (
            BETTER,
            {"mrr": KEPT, "hit_rate": KEPT, "ndcg": KEPT},
            (
                "b: ship: ctr is better and all 3 guardrails are kept "
                "(at most 5 % of such decisions are wrong)."
            ),
        ),
        (
            OPEN,
            {"mrr": KEPT, "hit_rate": KEPT},
            "b: wait: no primary metric is better yet; both guardrails are kept.",
        ),
        (OPEN, {"mrr": KEPT}, "b: wait: no primary metric is better yet; the guardrail is kept."),
        (
            BETTER,
            {"mrr": UNKNOWN},
            "b: wait: it is not yet known whether mrr stays within its limit.",
        ),
        (
            OPEN,
            {"mrr": UNKNOWN, "ndcg": UNKNOWN},
            (
                "b: wait: no primary metric is better yet; "
                "it is not yet known whether mrr and ndcg stay within their limits."
            ),
        ),
        (BETTER, {"mrr": BROKEN}, "b: do not ship: the guardrail of mrr is broken."),
        (
            WORSE,
            {"mrr": BROKEN, "ndcg": BROKEN},
            "b: do not ship: ctr is worse and the guardrails of mrr and ndcg are broken.",
        ),
        (WORSE, {"mrr": KEPT}, "b: do not ship: ctr is worse."),
        (Verdict.DO_NOT_TRUST, {}, "b: do not trust: ctr is not trustworthy."),
    ],
)
def test_the_words_of_a_decision(
    primary: Verdict, guards: dict[str, GuardrailVerdict], text: str
) -> None:
    rows = [_row("ctr", primary), *(_row(name, OPEN, of) for name, of in guards.items())]
    total = report()._replace(rows=rows, segments=())
    assert decision_lines(in_words(total.finalize())) == [f"Decision: {text}"]


@pytest.mark.parametrize(
    ("verdicts", "guards", "text"),
    [
        ([BETTER], {}, "b is better on 1 of 1 metric; checks passed."),
        (
            [BETTER, BETTER, WORSE, OPEN],
            {"mrr": KEPT, "hit_rate": KEPT},
            "b is better on 2 and worse on 1 of 6 metrics; guardrails kept; checks passed.",
        ),
        (
            [BETTER, Verdict.DO_NOT_TRUST],
            {"mrr": BROKEN, "ndcg": UNKNOWN},
            (
                "b is better on 1 of 4 metrics, 1 not to be trusted; guardrail of mrr broken; "
                "guardrail of ndcg not decided; checks passed."
            ),
        ),
        (
            [Verdict.NO_DIFFERENCE, OPEN, OPEN],
            {},
            "b: no difference on 1 and not enough evidence on 2 of 3 metrics; checks passed.",
        ),
    ],
)
def test_the_words_of_a_summary(
    verdicts: list[Verdict], guards: dict[str, GuardrailVerdict], text: str
) -> None:
    rows = [_row(f"ctr@{n}", verdict) for n, verdict in enumerate(verdicts, 1)]
    rows += [_row(name, OPEN, of) for name, of in guards.items()]
    total = report()._replace(rows=rows, segments=())
    assert summary_lines(in_words(total.finalize())) == [text]
    untrusted = in_words(total.distrust("users are missing"))
    assert summary_lines(untrusted) == ["b: do not trust any verdict; a check failed."]


@pytest.mark.parametrize(
    ("limit", "decision"), [(-0.0008, Decision.SHIP), (-0.0006, Decision.WAIT)]
)
def test_a_guardrail_that_is_open_alone_may_be_kept_with_the_others(
    limit: float, decision: Decision
) -> None:
    arms = {"control": variant(CONTROL), "b": variant({**CONTROL, "ndcg@10": 0.33}, seed=2)}
    guardrails = dict.fromkeys(("ctr", "hit_rate@10", "mrr"), limit)
    found = report(arms, Experiment(primary=["ndcg@10"], guardrails=guardrails), "fixed")
    alone = {row.guardrail_verdict for row in found.rows if row.guardrail is not None}
    assert alone == {GuardrailVerdict.KEPT, GuardrailVerdict.OPEN}
    assert [each.decision for each in found.decisions] == [decision]
    for row in found.rows:
        if row.guardrail_verdict == GuardrailVerdict.OPEN:
            end = " on its own; kept for the decision" if row.within_limit else " yet"
            assert guardrail_text(row).endswith(
                f"not enough evidence yet{end.removeprefix(' yet')}"
            )
