"""The alerts on changes, and the dashboard of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streameval.analyses.changes.report import ChangeSettings
from streameval.engine.monitoring import (
    REPLICAS,
    Alert,
    Dashboard,
    Monitoring,
    Panel,
    PanelRow,
    Severity,
    queries,
)
from streameval.exporters.names import slice_labels

_GAUGE_LABELS: Final = frozenset({"against", "direction", "metric", "verdict"})
"""Labels of the gauges of changes."""


def gauge_label(label: str | None) -> str:
    """The label of the gauges that names the slice, if `label` is watched."""
    (name,) = slice_labels([label or ""], [])
    return f"label_{name}" if name in _GAUGE_LABELS else name


def monitoring(settings: ChangeSettings) -> Monitoring:
    """Alerts with the rate of false alarms as their threshold, and the dashboard."""
    slices = [] if settings.label is None else [gauge_label(settings.label)]
    return Monitoring([*_alerts(slices)], _dashboard(slices))


def _alerts(slices: list[str]) -> Iterator[Alert]:
    by = ", ".join(("job", "metric", *slices, "against"))
    for severity, narrowed, days in _GRADES:
        selector = f'{{direction="worse"{narrowed}}}'
        yield Alert(
            name="StreamevalQualityWorse",
            expression=f"max by ({by}) (streameval_change_evidence_days{selector}) > {days}",
            severity=severity,
            summary="{{ $labels.metric }} got worse.",
            description=(
                f"Chance alone shows as much at most once in {days} days, over all series; "
                "compared with {{ $labels.against }} ({{ $labels }})."
            ),
        )
    yield Alert(
        name="StreamevalTrafficDropped",
        expression=(
            f"max by ({', '.join(('job', *slices))}) (streameval_change_lists_ratio) < 0.5"
        ),
        summary="A slice had less than half of its usual lists.",
        description=(
            "The last closed day had {{ $value | humanizePercentage }} of the lists of the same "
            "weekday before ({{ $labels }})."
        ),
    )


_GRADES: Final[Sequence[tuple[Severity, str, int]]] = (
    ("warning", "", 91),
    ("critical", ',against!="weeks"', 365),
)


def _dashboard(slices: list[str]) -> Dashboard:
    legend = " ".join(
        ["{{metric}}", *(f"{{{{{name}}}}}" for name in slices), "against {{against}}"]
    )

    def largest(family: str, matcher: str = "") -> str:
        return f'max without ({REPLICAS}) (streameval_change_{family}{{job=~"$job"{matcher}}})'

    panels = (
        Panel(
            "Evidence of a loss, days",
            "Chance alone shows as much at most once in so many days, over all series; above 91 "
            "days StreamevalQualityWorse fires.",
            queries([largest("evidence_days", ',direction="worse"')], legend),
            alert="StreamevalQualityWorse",
            log=True,
        ),
        Panel(
            "Change since it most likely began",
            "The relative change of the days since the day on which a change most likely began; "
            "without a verdict it may be chance.",
            queries([largest("ratio")], legend),
            unit="percentunit",
            alert="StreamevalQualityWorse",
        ),
        Panel(
            "Lists of the last day",
            "Lists of the last closed day, relative to the same weekday before; below 50 % "
            "StreamevalTrafficDropped fires.",
            queries([largest("lists_ratio")], legend),
            unit="percentunit",
            alert="StreamevalTrafficDropped",
        ),
    )
    about = "Did it get worse, really, and since when?"
    return Dashboard("changes", "changes", about, (), (PanelRow("Did it get worse?", panels),))
