"""The alert on gaps above their limit, and the dashboard of gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from streameval.engine.monitoring import (
    Alert,
    Dashboard,
    Monitoring,
    Panel,
    PanelRow,
    Variable,
    queries,
)

_ALERT: Final = Alert(
    name="StreamevalGap",
    expression=(
        "max by (job, metric, by) (\n"
        '  streameval_gap_difference_low{window="lifetime"}\n'
        "  > ignoring (window) streameval_gap_at_most\n)"
    ),
    summary="{{ $labels.metric }} differs too much by {{ $labels.by }}.",
    description=(
        "The best and the worst value differ by at least {{ $value | humanize }}, more than "
        "at_most in [[gap]]. This holds for any number of looks, and for all values together."
    ),
)
_ALL: Final = 'streameval_gap_difference{job=~"$job"}'
_SELECTED: Final = 'job=~"$job",instance="$instance",by="$by",metric=~"$metric",window="lifetime"'
_DASHBOARD: Final = Dashboard(
    name="gaps",
    title="gaps",
    about="How far the best and the worst value of a label differ, and which may be the worst.",
    variables=(
        Variable("instance", "The process that compares.", f"label_values({_ALL}, instance)"),
        Variable("by", "The label whose values are compared.", f"label_values({_ALL}, by)"),
        Variable("metric", "Metrics.", f"label_values({_ALL}, metric)", many=True),
    ),
    rows=(
        PanelRow(
            "Over the lifetime",
            (
                Panel(
                    "Gap, with its interval",
                    "Best minus worst value. The bounds hold however often you look.",
                    queries(
                        [
                            f"streameval_gap_difference{end}{{{_SELECTED}}}"
                            for end in ("_low", "", "_high")
                        ],
                        ["{{metric}} low", "{{metric}}", "{{metric}} high"],
                    ),
                    unit="none",
                    alert="StreamevalGap",
                    width=16,
                    decimals=4,
                ),
                Panel(
                    "May be the worst",
                    "Values that are not surely better than another one.",
                    queries([f"streameval_gap_worst{{{_SELECTED}}} == 1"], "{{metric}} {{value}}"),
                    alert="StreamevalGap",
                    kind="stat",
                    width=8,
                ),
            ),
        ),
    ),
)


class _Limited(Protocol):
    """Options of a gap."""

    @property
    def at_most(self) -> float | None:
        """Largest accepted difference."""
        ...


def monitoring(gaps: Sequence[_Limited]) -> Monitoring:
    """The alert, if a gap has a limit, and the dashboard."""
    has_limit = any(gap.at_most is not None for gap in gaps)
    return Monitoring([_ALERT] if has_limit else [], _DASHBOARD)
