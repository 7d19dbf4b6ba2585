"""Builders of the dashboards: panels with descriptions and links, and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.common import TooltipDisplayMode as Tooltip
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

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
    """Series over time."""
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
