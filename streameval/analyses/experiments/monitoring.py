"""The alerts on an experiment, and its dashboard."""

from __future__ import annotations

from typing import Final

from streameval.analyses.experiments.settings import Experiment
from streameval.engine.monitoring import (
    Alert,
    Dashboard,
    Monitoring,
    Panel,
    PanelRow,
    Variable,
    queries,
)

_BROKEN: Final = Alert(
    name="StreamevalGuardrailBroken",
    expression=(
        "max by (job, metric, variant, control) (streameval_compare_guardrail_broken) == 1"
    ),
    severity="critical",
    summary="{{ $labels.variant }} breaks the guardrail of {{ $labels.metric }}.",
    description=(
        "The whole interval of the lift over {{ $labels.control }} lies beyond the limit in "
        "[experiment] guardrails. This holds for any number of looks."
    ),
)
# Without any user of the control, StreamevalNameUnmatched has the cause.
_SPLIT: Final = Alert(
    name="StreamevalUsersNotSplitAsPlanned",
    expression=(
        "max by (job) (streameval_audience_ratio_evidence) >= 1000\n"
        '  unless on (job) streameval_config_unmatched{key="experiment.control"} == 1'
    ),
    severity="critical",
    summary="The users of the variants are not split as planned.",
    description=(
        "Evidence {{ $value | humanize }}: compare streameval_audience_users with [experiment] "
        "shares. There is no verdict until the cause is fixed."
    ),
)
_SHARED: Final = Alert(
    name="StreamevalUsersInSeveralVariants",
    expression="max by (job) (streameval_audience_shared_evidence) >= 1000",
    summary="More users are in several variants than chance explains.",
    description=(
        "Evidence {{ $value | humanize }}; streameval_audience_shared_ratio is their share. There "
        "is no verdict until the cause is fixed."
    ),
)
_UNTRUSTED: Final = Alert(
    name="StreamevalExperimentUntrusted",
    expression=(
        "max by (job) (streameval_audience_anonymous_ratio) > 0.02\n"
        "or max by (job) (streameval_audience_anonymous_evidence) >= 1000\n"
        "or (max by (job) (streameval_audience_unlabelled_evidence) >= 1000\n"
        "and max by (job) (streameval_audience_untrusted) > 0)"
    ),
    pending="1h",
    summary="Too many lists have no user id or no variant, so there is no verdict.",
    description=(
        "More than 2 % of a variant's lists, or more in one variant than in the others: see "
        "streameval_audience_anonymous_ratio, streameval_audience_anonymous_evidence and "
        "streameval_audience_unlabelled_evidence."
    ),
)


def monitoring(experiment: Experiment) -> Monitoring:
    """The alerts that can fire with these settings, and the dashboard."""
    alerts = [
        *([_BROKEN] if experiment.guardrails else []),
        _SPLIT,
        *([] if experiment.same_users else [_SHARED]),
        _UNTRUSTED,
    ]
    return Monitoring(alerts, _DASHBOARD)


_PROCESS: Final = 'job=~"$job",instance="$instance"'
_SELECTED: Final = f'{_PROCESS},metric=~"$metric",variant=~"$variant"'
_EVIDENCE: Final = 'streameval_compare_evidence{job=~"$job",instance="$instance"}'
_LIFTS: Final = [
    f"streameval_compare_lift_{part}ratio{{{_SELECTED}}}" for part in ("low_", "", "high_")
]


def _check(
    title: str,
    about: str,
    family: str,
    unit: str = "short",
    alert: str = "StreamevalUsersNotSplitAsPlanned",
) -> Panel:
    legend = "{{variant}}" if family == "users" else ""
    targets = queries([f"streameval_audience_{family}{{{_PROCESS}}}"], legend)
    return Panel(title, about, targets, unit, alert, "stat", width=4)


_DASHBOARD: Final = Dashboard(
    name="experiment",
    title="experiment",
    about="Verdicts, lifts with their bounds, and the checks of the experiment.",
    variables=(
        Variable(
            "instance",
            "The process that compares.",
            'label_values(streameval_compare_evidence{job=~"$job"}, instance)',
        ),
        Variable("metric", "Metrics.", f"label_values({_EVIDENCE}, metric)", many=True),
        Variable("variant", "Variants.", f"label_values({_EVIDENCE}, variant)", many=True),
    ),
    rows=(
        PanelRow(
            "Checks",
            (
                _check("Users", "Distinct users of each variant.", "users"),
                _check(
                    "Sample ratio mismatch",
                    "Evidence that users are not split as planned; 1,000 is an alarm.",
                    "ratio_evidence",
                ),
                _check(
                    "Users in several variants",
                    "Up to 1 % is normal, by shared computers and second logins.",
                    "shared_ratio",
                    "percentunit",
                    "StreamevalUsersInSeveralVariants",
                ),
                _check(
                    "Lists without a user id",
                    "Largest share of a variant; above 2 % there is no verdict.",
                    "anonymous_ratio",
                    "percentunit",
                    "StreamevalExperimentUntrusted",
                ),
                Panel(
                    "Heaviest group of users",
                    "Largest share of the variance from one group; if it is large, few users "
                    "decide.",
                    queries([f"max(streameval_compare_heaviest_group_ratio{{{_SELECTED}}})"]),
                    "percentunit",
                    "StreamevalGuardrailBroken",
                    "stat",
                    width=4,
                ),
                _check(
                    "Untrusted",
                    "Whether a check raises an alarm, so that there is no verdict.",
                    "untrusted",
                    "bool_yes_no",
                    "StreamevalExperimentUntrusted",
                ),
            ),
        ),
        PanelRow(
            "Lifts now",
            (
                Panel(
                    "Lifts against control",
                    "Treatment / control - 1 with its bounds; without bounds there is too little "
                    "evidence.",
                    queries(_LIFTS),
                    "percentunit",
                    "StreamevalGuardrailBroken",
                    "table",
                    width=14,
                    decimals=2,
                    columns=(
                        ("metric", "metric"),
                        ("variant", "variant"),
                        ("Value #A", "low"),
                        ("Value #B", "lift"),
                        ("Value #C", "high"),
                    ),
                ),
                Panel(
                    "Verdicts",
                    "The verdict from the bounds; a metric that is not primary must also pass "
                    "e-BH.",
                    queries(
                        [f"streameval_compare_verdict{{{_SELECTED}}} == 1"],
                        "{{metric}} {{variant}}: {{verdict}}",
                    ),
                    "none",
                    "StreamevalGuardrailBroken",
                    "stat",
                    width=10,
                ),
            ),
        ),
        PanelRow(
            "Over time",
            (
                Panel(
                    "Evidence",
                    "Evidence against no difference; without a difference, 1 in 20 experiments "
                    "ever reaches 20.",
                    queries(
                        [f"streameval_compare_evidence{{{_SELECTED}}}"], "{{metric}} {{variant}}"
                    ),
                    alert="StreamevalGuardrailBroken",
                    width=24,
                    log=True,
                ),
                Panel(
                    "${metric}: lift",
                    "The lift and its bounds over time. All bounds hold together; if they exclude "
                    "0, the lift is real.",
                    queries(
                        _LIFTS,
                        [
                            f"{{{{metric}}}} {{{{variant}}}} {part}"
                            for part in ("low", "lift", "high")
                        ],
                    ),
                    unit="percentunit",
                    alert="StreamevalGuardrailBroken",
                    width=24,
                    decimals=2,
                ),
            ),
        ),
    ),
)
