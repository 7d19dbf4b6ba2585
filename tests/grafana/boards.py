"""The four dashboards: builders of their parts, variables, and the panels of panels.yaml."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import yaml
from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    ScaleDistribution,
)
from grafana_foundation_sdk.models.common import TooltipDisplayMode as Tooltip
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tests.house.checkout import ROOT

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNBOOK = "docs/runbook.md"
TAG = "streameval"
SPANS = ("5m", "15m", "1h", "6h", "1d")
# Counters step with the checkpoints, so no panel uses a shorter span.
_SHORTEST = SPANS[0]
_DEPLOYED = 'count by (job, version) (streameval_build_info{job=~"$job"})'

Variable: TypeAlias = (
    dashboard.QueryVariable
    | dashboard.CustomVariable
    | dashboard.TextBoxVariable
    | dashboard.ConstantVariable
    | dashboard.DatasourceVariable
)


P = TypeVar("P", timeseries.Panel, stat.Panel, table.Panel)


class Query(NamedTuple):
    """An expression, and the legend of its series."""

    expression: str
    legend: str


class Shown(NamedTuple):
    """The content of a panel.

    Attributes:
        title: a few words.
        unit: Grafana's name of the unit.
        description: the meaning of the panel.
        queries: the series.
        section: of the runbook; empty: the whole runbook.
        width: of 24 columns.
        decimals: number of decimals; None: Grafana decides.
    """

    title: str
    unit: str
    description: str
    queries: Sequence[Query]
    section: str = ""
    width: int = 12
    decimals: int | None = None


def chart(shown: Shown) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE)
    legend = legend.placement(LegendPlacement.BOTTOM).show_legend(show_legend=True)
    legend = legend.calcs(["lastNotNull"])
    tooltip = common.VizTooltipOptions().mode(Tooltip.MULTI)
    panel = described(timeseries.Panel(), shown, 9).legend(legend).tooltip(tooltip)
    panel = panel.fill_opacity(0).interval(_SHORTEST)
    for query, letter in zip(shown.queries, "ABCDEF", strict=False):
        panel = panel.with_target(_target(query, letter).range())
    return panel


def figure(shown: Shown) -> stat.Panel:
    """The current value of each series."""
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = described(stat.Panel(), shown, 4).reduce_options(last)
    for query, letter in zip(shown.queries, "ABCDEF", strict=False):
        panel = panel.with_target(_target(query, letter).instant())
    return panel


def described(panel: P, shown: Shown, height: int) -> P:
    """The panel with the properties common to all kinds."""
    place = f"#{shown.section.lower()}" if shown.section else ""
    panel = panel.title(shown.title).description(shown.description).unit(shown.unit)
    panel = panel.height(height).span(shown.width).datasource(DATASOURCE)
    panel = panel.links([_link("The runbook", "${runbook}" + place)])
    return panel if shown.decimals is None else panel.decimals(shown.decimals)


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    found = prometheus.Dataquery().expr(query.expression).legend_format(query.legend)
    return found.ref_id(letter).datasource(DATASOURCE)


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url)


def board(
    uid: str, title: str, description: str, variables: Sequence[Variable]
) -> dashboard.Dashboard:
    """A dashboard without panels, with marks of deployments and links to the others."""
    others = dashboard.DashboardLink("streameval").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    others = others.as_dropdown(as_dropdown=True).keep_time(keep_time=True)
    others = others.include_vars(include_vars=True)
    deployed = dashboard.AnnotationQuery().name("Deployments").datasource(DATASOURCE)
    deployed = deployed.expr(f"{_DEPLOYED} unless {_DEPLOYED.replace('})', '} offset 5m)')}")
    made = dashboard.Dashboard(title).uid(uid).description(description).tags([TAG])
    made = made.time("now-24h", "now").refresh("1m").editable().timezone("browser")
    made = made.tooltip(DashboardCursorSync.CROSSHAIR).annotation(deployed.icon_color("purple"))
    made = made.link(others).link(_link("The runbook", "${runbook}"))
    for variable in variables:
        made = made.with_variable(variable)
    return made


def source_and_job() -> list[Variable]:
    """The first variables of every dashboard."""
    source = dashboard.DatasourceVariable("datasource").label("data source").type("prometheus")
    job = asked("job", "label_values(streameval_build_info, job)", "Scrape jobs.", many=True)
    book = dashboard.TextBoxVariable("runbook").default_value(RUNBOOK)
    book = book.hide(VariableHide.HIDE_VARIABLE).current(_option(RUNBOOK))
    return [source, job, book.description("Address of your runbook.")]


def asked(
    name: str, query: str, description: str, *, regex: str = "", many: bool = False, first: str = ""
) -> dashboard.QueryVariable:
    """A variable with values from Prometheus.

    Args:
        name: of the variable.
        query: Grafana's query for the values.
        description: tooltip.
        regex: extracts the value from a result.
        many: whether several values, or all, may be chosen.
        first: default value; with `many` the default is all.
    """
    made = dashboard.QueryVariable(name).datasource(DATASOURCE).description(description)
    made = made.query({"query": query, "refId": name}).regex(regex).label(name)
    made = made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    if many:
        made = made.multi(multi=True).include_all(include_all=True)
        made = made.current(_option("$__all", "All"))
        return made if regex else made.all_value(".*")
    return made.current(_option(first)) if first else made


def chosen(name: str, values: Sequence[str], first: str, description: str) -> Variable:
    """A variable with fixed values."""
    made = dashboard.CustomVariable(name).values(",".join(values)).label(name)
    return made.current(_option(first)).description(description)


def typed(name: str, value: str, description: str) -> Variable:
    """A variable of free text."""
    made = dashboard.TextBoxVariable(name).default_value(value).label(name)
    return made.current(_option(value)).description(description)


def _option(value: str, text: str = "") -> VariableOption:
    return VariableOption(selected=True, text=text or value, value=value)


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
