"""Experiments: is treatment better, is it real, and how long does it take?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streameval.analyses.experiments.monitoring import monitoring
from streameval.analyses.experiments.outcomes import Decision, GuardrailVerdict, Verdict
from streameval.analyses.experiments.page import headlines, section
from streameval.analyses.experiments.reader import experiment_reader
from streameval.analyses.experiments.settings import (
    Experiment,
    expected_values,
    experiment_line,
    experiment_problems,
    needs,
)
from streameval.analyses.experiments.verdicts import Comparisons, Report
from streameval.engine.analysis import Analysis, Gauge

_COMPARED: Final = (
    ("difference", "difference", "Treatment minus control, day by day."),
    ("difference_low", "low", "Lower bound of the difference."),
    ("difference_high", "high", "Upper bound of the difference."),
    ("lift_ratio", "lift", "Treatment / control - 1."),
    ("lift_low_ratio", "lift_low", "Lower bound of the lift."),
    ("lift_high_ratio", "lift_high", "Upper bound of the lift."),
    (
        "evidence",
        "evidence",
        "Evidence against no difference, up to 1e300; 1 means none, 20 is as rare as 1 in 20.",
    ),
    (
        "groups_effective",
        "groups",
        "Effective number of user buckets of the smaller arm; below 12 there are no bounds.",
    ),
    (
        "heaviest_group_ratio",
        "heaviest",
        "Largest share of variance from one user bucket; far above 1 / groups, few users decide.",
    ),
    (
        "adjusted_ratio",
        "narrower",
        "Share of the width of the lift's interval that pre-experiment data saves.",
    ),
)
"""Name of a gauge, the attribute of a comparison, and the HELP text."""

_CHECKED: Final = (
    (
        "audience_ratio_evidence",
        "ratio_evidence",
        "Evidence that users are not split as planned; 1,000 raises an alarm.",
    ),
    (
        "audience_shared_ratio",
        "shared",
        "Share of users who are in several variants.",
    ),
    (
        "audience_shared_evidence",
        "shared_evidence",
        "Evidence that users in several variants are not an accident; 1,000 raises an alarm.",
    ),
    (
        "audience_anonymous_ratio",
        "anonymous",
        "Largest share of a variant's lists without a user id; above 0.02 it raises an alarm.",
    ),
    (
        "audience_anonymous_evidence",
        "uneven_evidence",
        (
            "Evidence that lists without a user id are more frequent in some variant; 1,000 raises "
            "an alarm."
        ),
    ),
    (
        "audience_unlabelled_evidence",
        "unlabelled_evidence",
        (
            "Evidence that users of some variant have lists without a variant more often; at 1,000 "
            "and twice as often it raises an alarm."
        ),
    ),
)
"""Name of a gauge, the attribute of the checks, and the HELP text."""


def comparison_gauges(report: Report) -> Iterator[Gauge]:
    """Gauges of every comparison, and of the checks of the experiment."""
    rows = [
        (row, {"metric": row.metric, "variant": row.variant, "control": report.control})
        for row in report.rows
    ]
    for name, attribute, text in _COMPARED:
        values = [(labels, getattr(row, attribute)) for row, labels in rows]
        yield Gauge(f"compare_{name}", f"{text} Absent if unknown.", values)
    yield Gauge(
        "compare_verdict",
        "1 for the verdict of a comparison, 0 for all other verdicts.",
        [
            ({**labels, "verdict": verdict.value}, float(row.verdict == verdict))
            for row, labels in rows
            for verdict in Verdict
            if verdict != Verdict.NOT_JUDGED
        ],
    )
    yield Gauge(
        "compare_guardrail_broken",
        "1 if a guardrail is certainly broken, else 0; absent for metrics without a guardrail.",
        [
            (labels, float(row.guardrail_verdict == GuardrailVerdict.BROKEN))
            for row, labels in rows
            if row.guardrail is not None
        ],
    )
    yield Gauge(
        "compare_ship",
        "1 if a variant may be shipped: a primary metric is better, none is worse and all "
        "guardrails are kept; else 0. Absent without primary metrics.",
        [
            (
                {"variant": decision.variant, "control": report.control},
                float(decision.decision == Decision.SHIP),
            )
            for decision in report.decisions
        ],
    )
    checks = report.checks
    yield Gauge(
        "audience_users",
        "Distinct users of a variant; estimated if there are very many.",
        [({"variant": name}, checks.users[name]) for name in sorted(checks.users)],
    )
    for name, attribute, text in _CHECKED:
        yield Gauge(name, text, [({}, getattr(checks, attribute))])
    yield Gauge(
        "audience_untrusted",
        "1 if a check of the experiment raises an alarm, so that no verdict is given.",
        [({}, float(bool(checks.trouble)))],
    )


def _answer(report: Report | None) -> Comparisons | None:
    if report is None:
        return None
    return Comparisons(
        summaries=report.summaries,
        decisions=report.decisions,
        checks=report.checks,
        comparisons=report.rows,
    )


EXPERIMENTS: Final = Analysis(
    name="experiment",
    title="Experiment",
    table="experiment",
    settings=Experiment,
    describes="variants compared with a control; needs `intervals`.",
    check=experiment_problems,
    reader=experiment_reader,
    gauges=comparison_gauges,
    section=section,
    answer=_answer,
    answers=Comparisons | None,
    about="the configured experiment; None without one.",
    needs=needs,
    line=experiment_line,
    baseline=lambda report: (report.label, report.control),
    expects=expected_values,
    monitoring=monitoring,
    headlines=headlines,
)
