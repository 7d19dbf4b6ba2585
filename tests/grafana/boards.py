"""The four dashboards: their variables, and the panels of panels.yaml."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import ScaleDistribution
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tests.grafana.parts import (
    DATASOURCE,
    SPANS,
    Query,
    Shown,
    Variable,
    asked,
    board,
    chart,
    chosen,
    described,
    figure,
    source_and_job,
    typed,
)
from tests.house.checkout import ROOT

FOLDER = ROOT / "deploy" / "grafana"
_CHOICE = 'job=~"$job",${label}=~"$variant",k=~"$k|"'
_COUNTS = '{__name__=~"streameval_.+_count",job=~"$job"}'
_PROCESS = 'job=~"$job",instance="$instance"'
_COMPARED = f'{_PROCESS},metric=~"$metric",variant=~"$variant"'
_PROPERTIES = '{__name__=~"streameval_.+",window!="",job=~"$job"}'
# A segment is part of the family name, and has its own panel.
_WITHOUT_SEGMENT = "/^streameval_(?!.*_by_)(.+)_count$/"
_SEGMENT = "_by_${segment}"
_FIGURES = ("Now", "Checks")
"""Rows of single numbers."""


def _rate(part: str, by: str = "", choice: str = _CHOICE, before: str = "") -> str:
    """The rate of a counter of the metric, summed over replicas."""
    name = f"streameval_${{metric}}{by}_{part}"
    return f"sum without ($over) (rate({name}{{{choice}}}[$span]{before}))"


def _mean(by: str = "", choice: str = _CHOICE, before: str = "") -> str:
    """The mean over a span; absent without counts."""
    return f"{_rate('sum', by, choice, before)} / ({_rate('count', by, choice, before)} > 0)"


def _control(by: str = "") -> str:
    """The mean of the control."""
    return _mean(by, 'job=~"$job",${label}="$control",k=~"$k|"')


def _difference(by: str = "") -> str:
    """Variant minus control, with the same labels and cut-off."""
    others = _mean(by, _CHOICE + ',${label}!="$control"')
    return f"({others}) - ignoring (${{label}}) group_left () ({_control(by)})"


_SHARE = f"({_difference()}) / ignoring (${{label}}) group_left () (({_control()}) > 0)"
EXPRESSIONS: Mapping[str, str] = {
    "mean": _mean(),
    "mean of yesterday": _mean(before=" offset 1d"),
    "difference": _difference(),
    "relative difference": _SHARE,
    "evidence": _rate("count"),
    "mean by segment": _mean(_SEGMENT),
    "difference by segment": _difference(_SEGMENT),
    "evidence by segment": _rate("count", _SEGMENT),
    "evidence of an experiment": f"streameval_compare_evidence{{{_COMPARED}}}",
    **{
        name: f"streameval_compare_{name}{{{_COMPARED}}}"
        for name in ("lift_ratio", "lift_low_ratio", "lift_high_ratio")
    },
}


def files() -> dict[Path, str]:
    """Path -> text of every dashboard."""
    return {FOLDER / f"{name}.json": _written(made) for name, made in _dashboards().items()}


def _written(made: Dashboard) -> str:
    found: dict[str, Any] = json.loads(JSONEncoder().encode(made.build()))
    for number, panel in enumerate(found["panels"], 1):
        panel["id"] = number
    for annotation in found["annotations"]["list"]:
        # The SDK has no titles of annotations.
        annotation["titleFormat"] = "streameval {{version}}"
        annotation["textFormat"] = "{{job}} runs {{version}} now"
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _dashboards() -> dict[str, Dashboard]:
    path = Path(__file__).with_name("panels.yaml")
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    made = {"overview": _overview(), "metric": _metric(), "experiment": _experiment()}
    made["pipeline"] = _pipeline()
    for name, empty in made.items():
        for title, panels in rows[name].items():
            _add(empty, title, [_shown(panel, len(panels)) for panel in panels])
    return made


def _shown(panel: dict[str, Any], beside: int) -> Shown:
    queries = panel["queries"].items()
    named = [Query(EXPRESSIONS.get(text, text), legend) for legend, text in queries]
    wide = {"width": 24 // (beside if beside in {2, 4, 6} else min(beside, 3))}
    return Shown(**(wide | panel | {"queries": named}))


def _add(made: Dashboard, title: str, panels: Sequence[Shown]) -> None:
    row = Row(title)
    made.with_row(row.repeat("metric") if title.startswith("$") else row)
    usual = figure if title in _FIGURES else chart
    for shown in panels:
        made.with_panel(_SPECIAL.get(shown.title, usual)(shown))


def _overview() -> Dashboard:
    about = "Each metric by variant: its mean, the difference to the control, and the evidence."
    return board("streameval-overview", "streameval: overview", about, _variables(many=True))


def _metric() -> Dashboard:
    about = "One metric: cut-offs, yesterday, windows of event time, segments."
    by_name = 'label_values({__name__=~"streameval_${metric}_by_.+_count"}, __name__)'
    variables = [
        *_variables(many=False),
        asked("segment", by_name, "One of your `segments`.", regex="/_by_(.+)_count$/"),
        asked("window", f"label_values({_PROPERTIES}, window)", "Windows.", many=True),
        asked(
            "property",
            f"label_values({_PROPERTIES}, __name__)",
            "A gauge that cannot be added.",
            regex="/^streameval_(?!.*_by_)(.+)(?<!_window_mean)(?<!_window_support)$/",
        ),
    ]
    return board("streameval-metric", "streameval: one metric", about, variables)


def _experiment() -> Dashboard:
    about = (
        "Variants against control, with bounds that hold for any number of looks. Choose a process "
        "that reads all partitions, because bounds cannot be added."
    )
    instances = 'label_values(streameval_compare_evidence{job=~"$job"}, instance)'
    known = f"streameval_compare_evidence{{{_PROCESS}}}"
    variables = [
        *source_and_job(),
        asked("instance", instances, "The process that compares."),
        asked("metric", f"label_values({known}, metric)", "Metrics.", many=True),
        asked("variant", f"label_values({known}, variant)", "Variants.", many=True),
    ]
    return board("streameval-experiment", "streameval: experiment", about, variables)


def _pipeline() -> Dashboard:
    about = "Reading, uncounted records, checkpoints, and processes."
    span = chosen("span", SPANS, "5m", "Span of the rate before each point.")
    return board("streameval-pipeline", "streameval: pipeline", about, [*source_and_job(), span])


def _variables(*, many: bool) -> list[Variable]:
    """The variables that select metrics; one metric, or `many`."""
    values = f"label_values({_COUNTS}, ${{label}})"
    names, cuts = (f"label_values({_COUNTS}, {label})" for label in ("__name__", "k"))
    summed = "Labels summed over; add your labels that the panels should not split by."
    return [
        *source_and_job(),
        asked("metric", names, "The name in /metrics.", regex=_WITHOUT_SEGMENT, many=many),
        chosen("label", ("variant", "model"), "variant", "The label to compare."),
        asked("variant", values, "The values of the label to show.", many=True),
        asked("control", values, "The value to compare with.", first="control"),
        asked("k", cuts, "Cut-offs.", many=True),
        chosen("span", SPANS, "1h", "Span of the mean before each point."),
        typed("over", "instance, pod, container, endpoint", summed),
    ]


def _forest(shown: Shown) -> table.Panel:
    """Lift and bounds of every comparison, a row each."""
    panel = described(table.Panel(), shown, 9)
    for each, letter in zip(shown.queries, "ABC", strict=True):
        query = prometheus.Dataquery().expr(each.expression).format(PromQueryFormat.TABLE)
        panel = panel.with_target(query.instant().ref_id(letter).datasource(DATASOURCE))
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    pairs = zip(shown.queries, "ABC", strict=True)
    names = {f"Value #{letter}": each.legend for each, letter in pairs}
    hidden = dict.fromkeys(("Time", "__name__", "job", "instance", "control"), True)
    order = {name: place for place, name in enumerate(("metric", "variant", *names))}
    options = {"excludeByName": hidden, "renameByName": names, "indexByName": order}
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))


def _band(shown: Shown) -> timeseries.Panel:
    """The lift of a metric and its bounds over time."""
    panel = chart(shown).repeat("metric")
    for end in ("low", "high"):
        thin = [DynamicConfigValue("custom.lineStyle", {"dash": [4, 4], "fill": "dash"})]
        panel = panel.override_by_regexp(f"/ {end}$/", thin)
    return panel


def _logarithmic(shown: Shown) -> timeseries.Panel:
    scale = common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10)
    return chart(shown).scale_distribution(scale)


_SPECIAL: Mapping[str, Callable[[Shown], stat.Panel | table.Panel | timeseries.Panel]] = {
    "Lifts against control": _forest,
    "Verdicts": lambda shown: figure(shown).height(9),
    "Evidence": _logarithmic,
    "${metric}: lift": _band,
}
