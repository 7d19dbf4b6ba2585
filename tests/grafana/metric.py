"""The dashboard of one metric in depth."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tests.grafana.comparing import (
    CHOICE,
    COMPARABLE,
    LEGEND,
    difference,
    differences,
    evidence,
    mean,
    means,
    rate,
    variables,
)
from tests.grafana.parts import Query, Shown, asked, board, chart

_PROPERTIES = '{__name__=~"streameval_.+",window!="",job=~"$job"}'


def one_metric() -> Dashboard:
    """One metric in depth: cut-offs, yesterday, windows, segments, and what does not add up."""
    about = "One metric: cut-offs, yesterday, windows of event time, segments."
    by_name = 'label_values({__name__=~"streameval_${metric}_by_.+_count"}, __name__)'
    asked_for = [
        *variables(many=False),
        asked("segment", by_name, "One of your `segments`.", regex="/_by_(.+)_count$/"),
        asked("window", f"label_values({_PROPERTIES}, window)", "Of event time.", many=True),
        asked(
            "property",
            f"label_values({_PROPERTIES}, __name__)",
            "A gauge that does not add up.",
            regex="/^streameval_(?!.*_by_)(.+)(?<!_window_mean)(?<!_window_support)$/",
        ),
    ]
    made = board("streameval-metric", "streameval: one metric", about, asked_for)
    for title, panels in _depth().items():
        made = made.with_row(Row(title))
        for shown in panels:
            made = made.with_panel(chart(shown))
    return made


def _depth() -> dict[str, list[Shown]]:
    now, before = Query(mean(), LEGEND), Query(mean(before=" offset 1d"), f"yesterday {LEGEND}")
    day = Shown(
        "Beside yesterday",
        "none",
        "The same span one day before.",
        [now, before],
        "StreamevalMetricDropped",
        12,
        4,
    )
    return {
        "Cut-offs": [means()._replace(title="By cut-off"), differences(), day, evidence()],
        "Windows of event time": _by_window(),
        "Segments": _by_segment(),
        "What does not add up": [_property()],
    }


def _by_window() -> list[Shown]:
    name, choice = "streameval_${metric}_window", f'{{{CHOICE},window=~"$window"}}'
    support = f"sum without ($over) ({name}_support{choice})"
    total = f"sum without ($over) ({name}_mean{choice} * {name}_support{choice})"
    legend = f"{{{{window}}}} {LEGEND}"
    text = "By the time in the events; replicas weighed by what is behind them; needs [windows]."
    return [
        Shown(
            "Means of windows",
            "none",
            text,
            [Query(f"{total} / ({support} > 0)", legend)],
            "",
            12,
            4,
        ),
        Shown(
            "Behind them",
            "short",
            "Lists, or items shown, in each window.",
            [Query(support, legend)],
        ),
    ]


def _by_segment() -> list[Shown]:
    by, legend = "_by_${segment}", f"{{{{${{segment}}}}}} {LEGEND}"
    return [
        Shown(
            "By segment",
            "none",
            "One of your segments at a time; empty where there are none.",
            [Query(mean(by), legend)],
            "StreamevalMetricDropped",
            8,
            4,
        ),
        Shown(
            "To $control, by segment",
            "none",
            "Each variant minus the control within a segment.",
            [Query(difference(by), legend)],
            COMPARABLE,
            8,
            4,
        ),
        Shown(
            "Evidence by segment",
            "cps",
            "Lists, or items shown, per second in each segment.",
            [Query(rate("count", by), legend)],
            "StreamevalUsersNotSplitAsPlanned",
            8,
        ),
    ]


def _property() -> Shown:
    gauge = f'max without ($over) (streameval_${{property}}{{{CHOICE},window=~"$window"}})'
    text = (
        "A property of all lists together, such as coverage. It does not add up: over replicas the "
        "largest is shown, and coverage of all is at least that."
    )
    query = Query(gauge, f"{{{{window}}}} {LEGEND}")
    return Shown("${property}", "none", text, [query], "StreamevalCoverageCollapsed", 24, 4)
