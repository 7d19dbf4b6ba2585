"""A dashboard as the JSON that Grafana imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Any, Final

from streameval.engine.monitoring import Dashboard, Panel, PanelRow, Variable

JOBS: Final = 'job=~"$job"'
"""The matcher of the chosen jobs."""

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
_HEIGHTS: Final = {"stat": 4, "timeseries": 9, "table": 9}
_SCHEMA: Final = 41
"""Version of the format, of Grafana 11.6."""

_RELEASES: Final = f"count by (job, version) (streameval_build_info{{{JOBS}}})"
_DEPLOYMENTS: Final = {
    "datasource": _SOURCE,
    "enable": True,
    "expr": f"{_RELEASES} unless {_RELEASES[:-1]} offset 5m)",
    "hide": False,
    "iconColor": "purple",
    "name": "Deployments",
    "textFormat": "{{job}} runs {{version}} now",
    "titleFormat": "streameval {{version}}",
}
_JOB: Final = Variable("job", "Scrape jobs.", "label_values(streameval_build_info, job)", many=True)


def grafana_json(dashboard: Dashboard, runbook: str | None) -> str:
    """The text of the file.

    `runbook`: address of the runbook, to which panels link; None: they have no links.
    """
    variables = (_JOB, *dashboard.variables)
    document = {
        "annotations": {"list": [_DEPLOYMENTS]},
        "description": dashboard.about,
        "editable": True,
        "graphTooltip": 1,
        "links": [
            {
                **_link("streameval", None),
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
                "tags": ["streameval"],
                "type": "dashboards",
            },
            *([] if runbook is None else [_link("The runbook", runbook)]),
        ],
        "panels": _panels(dashboard.rows, runbook),
        "refresh": "1m",
        "schemaVersion": _SCHEMA,
        "tags": ["streameval"],
        "templating": {"list": [_DATA_SOURCE, *map(_variable, variables)]},
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "title": f"streameval: {dashboard.title}",
        "uid": f"streameval-{dashboard.name}",
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_DATA_SOURCE: Final = {
    "includeAll": False,
    "label": "data source",
    "multi": False,
    "name": "datasource",
    "query": "prometheus",
    "skipUrlSync": False,
    "type": "datasource",
}


def _variable(variable: Variable) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "description": variable.about,
        "includeAll": variable.many,
        "label": variable.name,
        "multi": variable.many,
        "name": variable.name,
        "skipUrlSync": False,
    }
    if variable.many:
        entry["current"] = _choice("$__all", "All")
    if isinstance(variable.values, str):
        query = {"query": variable.values, "refId": variable.name}
        entry |= {"type": "query", "query": query, "datasource": _SOURCE}
        entry |= {"refresh": 2, "regex": "", "sort": 1}
        entry |= {"allValue": ".*"} if variable.many else {}
        if variable.selected is not None:
            entry["current"] = _choice(variable.selected)
        return entry
    selected = variable.selected or variable.values[0]
    entry |= {"query": ",".join(variable.values), "type": "textbox" if variable.free else "custom"}
    if variable.free:
        return {**entry, "query": selected, "current": _choice(selected)}
    options = [_choice(value, selected=value == selected) for value in variable.values]
    return {**entry, "options": options} | ({} if variable.many else {"current": _choice(selected)})


def _choice(value: str, text: str | None = None, *, selected: bool = True) -> dict[str, Any]:
    return {"selected": selected, "text": text or value, "value": value}


def _panels(rows: Sequence[PanelRow], runbook: str | None) -> list[dict[str, Any]]:
    """The panels of all rows, from left to right and top to bottom."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        heading = {
            "collapsed": False,
            "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": top},
            "panels": [],
            "title": row.title,
            "type": "row",
        }
        panels.append(heading if row.repeat is None else {**heading, "repeat": row.repeat})
        top += 1
        for line in _lines(row.panels):
            left, height = 0, max(_HEIGHTS[panel.kind] for panel in line)
            widths = _fill([panel.width for panel in line])
            for panel, width in zip(line, widths, strict=True):
                position = {"h": height, "w": width, "x": left, "y": top}
                panels.append({"gridPos": position, **_panel(panel, runbook)})
                left += width
            top += height
    return [{"id": number, **panel} for number, panel in enumerate(panels, 1)]


def _lines(panels: Sequence[Panel]) -> Iterator[list[Panel]]:
    """The panels that fit beside each other."""
    line: list[Panel] = []
    for panel in panels:
        if line and sum(other.width for other in line) + panel.width > _COLUMNS:
            yield line
            line = []
        line.append(panel)
    if line:
        yield line


def _fill(widths: Sequence[int]) -> list[int]:
    """Widths in these proportions that fill a line.

    Example:
        >>> _fill([8, 8]), _fill([4, 4, 4, 4, 4])
        ([12, 12], [5, 5, 5, 5, 4])
    """
    total = sum(widths)
    ends = [-(-_COLUMNS * sum(widths[: index + 1]) // total) for index in range(len(widths))]
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _panel(panel: Panel, runbook: str | None) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    entry: dict[str, Any] = {
        "datasource": _SOURCE,
        "description": panel.about,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "title": panel.title,
        "type": panel.kind,
    }
    if runbook is not None:
        section = f"#{panel.alert.lower()}" if panel.alert else ""
        entry["links"] = [_link("The runbook", runbook + section)]
    is_instant = panel.kind != "timeseries"
    entry["targets"] = [
        {
            "datasource": _SOURCE,
            "expr": query.expression,
            "instant": is_instant,
            "range": not is_instant,
            "refId": ascii_uppercase[index],
            **({"format": "table"} if panel.kind == "table" else {"legendFormat": query.legend}),
        }
        for index, query in enumerate(panel.queries)
    ]
    if panel.kind == "stat":
        entry["options"] = {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "textMode": "auto",
        }
    elif panel.kind == "table":
        order = {name: index for index, (name, _) in enumerate(panel.columns)}
        renamed = {name: new for name, new in panel.columns if name != new}
        organised = {
            "excludeByName": dict.fromkeys(_HIDDEN, True),
            "indexByName": order,
            "renameByName": renamed,
        }
        entry["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": organised},
        ]
    else:
        custom: dict[str, Any] = {"fillOpacity": 0}
        if panel.log:
            custom["scaleDistribution"] = {"type": "log", "log": 10}
        defaults["custom"] = custom
        if any(query.legend.endswith(_BOUNDS) for query in panel.queries):
            entry["fieldConfig"]["overrides"] = list(map(_dashed_override, _BOUNDS))
        entry |= {"interval": "5m", "options": _LINES}
    return entry


_HIDDEN: Final = ("Time", "__name__", "control", "instance", "job")
_BOUNDS: Final = (" low", " high")
"""Ends of the legends of bounds, which are drawn dashed."""
_LINES: Final = {
    "legend": {
        "calcs": ["lastNotNull"],
        "displayMode": "table",
        "placement": "bottom",
        "showLegend": True,
    },
    "tooltip": {"mode": "multi", "sort": "asc"},
}


def _dashed_override(end: str) -> dict[str, Any]:
    style = {"id": "custom.lineStyle", "value": {"dash": [4, 4], "fill": "dash"}}
    return {"matcher": {"id": "byRegexp", "options": f"/{end}$/"}, "properties": [style]}


def _link(title: str, url: str | None) -> dict[str, Any]:
    link = {
        "asDropdown": False,
        "icon": "",
        "includeVars": False,
        "keepTime": False,
        "tags": [],
        "targetBlank": False,
        "title": title,
        "tooltip": "",
        "type": "link",
    }
    return link if url is None else {**link, "url": url}
