"""The report of an experiment, for Prometheus and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import msgspec

from streameval.accumulator.comparison import Comparison, Verdict, verdict_text
from streameval.accumulator.experiment import Report
from streameval.exporters.families import Family, own_family

_NUMBERS: Final[dict[str, tuple[str, Callable[[Comparison], float | None]]]] = {
    "difference": ("Treatment less control, day by day.", lambda found: found.difference),
    "difference_low": ("Lower bound of the difference.", lambda found: found.low),
    "difference_high": ("Upper bound of the difference.", lambda found: found.high),
    "lift_ratio": ("Treatment / control - 1.", lambda found: found.lift),
    "lift_low_ratio": ("Lower bound of the lift.", lambda found: found.lift_low),
    "lift_high_ratio": ("Upper bound of the lift.", lambda found: found.lift_high),
    "evidence": (
        "Evidence against no difference, to 1e300; 1 is none, 20 is as rare as 1 in 20.",
        lambda found: found.evidence,
    ),
    "groups_effective": (
        "Effective number of user groups of the smaller arm; below 12 there are no bounds.",
        lambda found: found.groups,
    ),
    "heaviest_group_ratio": (
        "Share of the variance that one user group has; much above 1 / groups, few users decide.",
        lambda found: found.heaviest,
    ),
}


def comparison_families(report: Report) -> list[Family]:
    """Gauges of every comparison and of what makes it trustworthy."""
    control = next(iter(report.checks.users))
    labels = [
        {"metric": row.metric, "variant": row.variant, "control": control} for row in report.rows
    ]
    found = [
        own_family(
            f"compare_{name}",
            "gauge",
            f"{text} Absent if unknown.",
            [
                (of, value)
                for of, row in zip(labels, report.rows, strict=True)
                if (value := read(row.comparison)) is not None
            ],
        )
        for name, (text, read) in _NUMBERS.items()
    ]
    verdicts = own_family(
        "compare_verdict",
        "gauge",
        "1 for the verdict that a comparison has, 0 for each other one.",
        [
            ({**of, "verdict": verdict}, float(row.comparison.verdict == verdict))
            for of, row in zip(labels, report.rows, strict=True)
            for verdict in get_args(Verdict)
        ],
    )
    return [*found, verdicts, _guardrails(report, labels), *_audience(report)]


def _guardrails(report: Report, labels: list[dict[str, str]]) -> Family:
    return own_family(
        "compare_guardrail_broken",
        "gauge",
        "1 where a guardrail is surely passed, 0 where it is not; absent for other metrics.",
        [
            (of, float(row.guardrail.verdict == "broken"))
            for of, row in zip(labels, report.rows, strict=True)
            if row.guardrail is not None
        ],
    )


def _audience(report: Report) -> Iterator[Family]:
    checks = report.checks
    yield own_family(
        "audience_users",
        "gauge",
        "Distinct users of a variant; an estimate where there are very many.",
        [({"variant": name}, users) for name, users in checks.users.items()],
    )
    for name, text, value in (
        (
            "ratio_evidence",
            "Evidence that users are not split as planned; 1,000 is an alarm.",
            checks.ratio_evidence,
        ),
        ("shared_ratio", "Share of users who are in several variants.", checks.shared),
        (
            "shared_evidence",
            "Evidence that users in several variants are not an accident; 1,000 is an alarm.",
            checks.shared_evidence,
        ),
        (
            "anonymous_ratio",
            "Largest share of a variant's lists without a user id; above 0.2 nothing is trusted.",
            checks.anonymous,
        ),
        (
            "untrusted",
            "1 where a check of the experiment raises an alarm, so that no verdict is given.",
            float(bool(checks.trouble)),
        ),
    ):
        yield own_family(f"audience_{name}", "gauge", text, [({}, value)])


def plain(report: Report) -> dict[str, Any]:
    """The report as plain values; numbers are exact, None where nothing can be said."""
    rows = [row.flat() | {"text": verdict_text(row.comparison)} for row in report.rows]
    return {"checks": msgspec.to_builtins(report.checks), "comparisons": rows}
