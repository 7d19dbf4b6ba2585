"""Alerts of Prometheus and dashboards of Grafana, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

Severity: TypeAlias = Literal["critical", "warning", "info"]

REPLICAS: Final = "instance, pod, container, endpoint"
"""Labels by which Prometheus tells replicas apart."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alerting rule.

    Attributes:
        name: it has a section in the runbook.
        expression: PromQL; it fires for each series of the result.
        pending: how long before it fires, for example "5m"; None: at once.
        summary: one sentence for people; it may have the templates of Prometheus.
        description: what was found, and where.
        labels: labels besides the severity.
        needs: keys that the configuration must have, for a file of alerts.
    """

    name: str
    expression: str
    pending: str | None = msgspec.field(default=None, name="for")
    severity: Severity = "warning"
    summary: str
    description: str
    labels: dict[str, str] = {}
    needs: list[str] = []


class Query(NamedTuple):
    """A query of a panel.

    Attributes:
        expression: PromQL with variables of the dashboard.
        legend: of each series, for example "{{instance}}".
    """

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """A panel of a dashboard.

    Attributes:
        title: above it.
        about: what it shows, and what is normal.
        queries: drawn together.
        unit: as Grafana names it.
        alert: whose section of the runbook it links to; "": the runbook.
        kind: a value, lines over time, or a table with a row for each set of labels.
        width: of 24 columns.
        decimals: digits after the point; None: as many as Grafana likes.
        log: whether the axis is logarithmic.
        columns: of a table: name of a column -> its new name, in order; others are hidden.
    """

    title: str
    about: str
    queries: Sequence[Query]
    unit: str = "short"
    alert: str = ""
    kind: Literal["stat", "timeseries", "table"] = "timeseries"
    width: int = 8
    decimals: int | None = None
    log: bool = False
    columns: Sequence[tuple[str, str]] = ()


class PanelRow(NamedTuple):
    """A row of panels below a heading.

    Attributes:
        repeat: variable for each of whose values the row is repeated; None: it is not.
    """

    title: str
    panels: Sequence[Panel]
    repeat: str | None = None


class Variable(NamedTuple):
    """A choice at the top of a dashboard.

    Attributes:
        about: the subject of the choice.
        values: to choose from, the first by default; or a query for label values.
        many: True if several values may be selected, at first all.
        selected: the initial value; None: the first, or all.
        free: whether the text may be edited.
    """

    name: str
    about: str
    values: Sequence[str] | str
    many: bool = False
    selected: str | None = None
    free: bool = False


class Dashboard(NamedTuple):
    """A dashboard.

    Attributes:
        name: of its file, without extension.
        title: below "streameval".
        about: what it answers.
    """

    name: str
    title: str
    about: str
    variables: Sequence[Variable]
    rows: Sequence[PanelRow]


class Monitoring(NamedTuple):
    """Alerts and panels of an analysis with its settings."""

    alerts: Sequence[Alert] = ()
    dashboard: Dashboard | None = None


def queries(expressions: Sequence[str], legends: Sequence[str] | str = "") -> tuple[Query, ...]:
    """Queries with legends: one each, or the same for all."""
    legend_list = [legends] * len(expressions) if isinstance(legends, str) else legends
    return tuple(map(Query, expressions, legend_list))
