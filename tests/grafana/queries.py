"""Evaluates the queries of a dashboard like Grafana: first the variables, then the panels."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.prometheus.remembering import Remembering

_QUERY = re.compile(r"label_values\((?:(?P<selector>.*), ?)?(?P<label>[\w${}]+)\)")
_RANGE = 2 * 3600
_VARIABLE = re.compile(r"\$(?:{(\w+)}|(\w+))")


class PanelQuery(NamedTuple):
    """A query of a panel.

    Attributes:
        panel: title of the panel.
        expression: PromQL with variables.
        instant: whether it is an instant query.
    """

    panel: str
    expression: str
    instant: bool = False

    @property
    def variables(self) -> set[str]:
        """Names of the variables in the expression."""
        return {braced or bare for braced, bare in _VARIABLE.findall(self.expression)}


def read(path: Path) -> dict[str, Any]:
    """The JSON of a dashboard."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panel_queries(dashboard: Mapping[str, Any]) -> list[PanelQuery]:
    """The queries of all panels and annotations."""
    panels = [
        PanelQuery(panel["title"], target["expr"], target.get("instant", False))
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    annotations = [
        PanelQuery(each["name"], each["expr"]) for each in dashboard["annotations"]["list"]
    ]
    return [*panels, *annotations]


def values(dashboard: Mapping[str, Any], prometheus: Remembering) -> dict[str, list[str]]:
    """Variable -> values, evaluated in order, because a variable may use earlier ones."""
    found: dict[str, list[str]] = {}
    for variable in dashboard["templating"]["list"]:
        name, kind = variable["name"], variable["type"]
        if kind == "query":
            found[name] = _of_query(variable, found, prometheus)
        elif kind != "datasource":
            found[name] = [variable["current"]["value"]]
    return found


def failures(
    query: PanelQuery, known: Mapping[str, list[str]], prometheus: Remembering
) -> Iterator[str]:
    """The expressions without a finite result, one for each choice of variables."""
    names = sorted(query.variables)
    for choice in product(*(known[name] for name in names)):
        expression = filled(query.expression, dict(zip(names, choice, strict=True)))
        if not _is_finite(prometheus, query, expression):
            yield expression


def filled(text: str, chosen: Mapping[str, str]) -> str:
    """The text with its variables replaced."""
    return _VARIABLE.sub(lambda found: chosen[found[1] or found[2]], text)


def _of_query(
    variable: Mapping[str, Any], known: Mapping[str, list[str]], prometheus: Remembering
) -> list[str]:
    if "allValue" in variable:
        return [variable["allValue"]]
    found = _QUERY.fullmatch(variable["query"]["query"])
    assert found is not None, variable
    first = {name: those[0] for name, those in known.items()}
    selector = filled(found["selector"], first)
    label = filled(found["label"], first)
    times = {"start": str(prometheus.end - _RANGE), "end": str(prometheus.moment)}
    listed = prometheus.server.data(f"label/{label}/values", **{"match[]": selector}, **times)
    pattern = re.compile((variable["regex"] or "/(.*)/").strip("/"))
    offered = list(dict.fromkeys(match[1] for each in listed if (match := pattern.search(each))))
    current = variable.get("current", {}).get("value")
    return [current] if current in offered else offered


def _is_finite(prometheus: Remembering, query: PanelQuery, expression: str) -> bool:
    if query.instant:
        response = prometheus.server.data("query", query=expression, time=str(prometheus.moment))
        numbers = [float(series["value"][1]) for series in response["result"]]
    else:
        times = {
            "start": str(prometheus.end - _RANGE),
            "end": str(prometheus.moment),
            "step": "120",
        }
        response = prometheus.server.data("query_range", query=expression, **times)
        numbers = [float(number) for series in response["result"] for _, number in series["values"]]
    return bool(numbers) and all(map(math.isfinite, numbers))
