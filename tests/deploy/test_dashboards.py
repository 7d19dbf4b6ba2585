"""Every panel is documented, and Prometheus answers its queries, evaluated as by Grafana."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.house.checkout import ROOT
from tests.prometheus.remembering import Remembering

FOLDER = ROOT / "deploy" / "grafana"

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
        return {braced or bare for braced, bare in _VARIABLE.findall(self.expression)}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panel_queries(dashboard: Mapping[str, Any]) -> list[PanelQuery]:
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


FILES = sorted(FOLDER.glob("*.json"))
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
_NAMES = [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES)
def test_a_panel_has_a_unit_a_description_and_a_link_to_the_runbook(path: Path) -> None:
    for panel in read(path)["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert len(panel["description"]) > 20, panel["title"]
        (link,) = panel["links"]
        address, _, section = link["url"].partition("#")
        assert address == "${runbook}"
        assert f"## {section}\n" in RUNBOOK.lower() or not section, panel["title"]


@pytest.mark.parametrize("path", FILES)
def test_a_panel_queries_the_chosen_data_source(path: Path) -> None:
    dashboard = read(path)
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = [*targets, *dashboard["annotations"]["list"]]
    assert {each["datasource"]["uid"] for each in asked} == {"${datasource}"}
    first = dashboard["templating"]["list"][0]
    assert (first["name"], first["type"], first["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )


@pytest.mark.parametrize("path", FILES)
def test_no_panel_averages_averages(path: Path) -> None:
    assert [
        each for each in panel_queries(read(path)) if re.search(r"\bavg|\bmean\(", each[1])
    ] == []
    shown = path.read_text(encoding="utf-8")
    assert set(re.findall(r'"calcs": \[\s*([^\]]*?)\s*\]', shown)) == {'"lastNotNull"'}


@pytest.mark.parametrize("path", FILES)
def test_no_panel_uses_a_span_below_five_minutes(path: Path) -> None:
    dashboard = read(path)
    spans = {
        span for each in panel_queries(dashboard) for span in re.findall(r"\[(.*?)\]", each[1])
    }
    offered = [each for each in dashboard["templating"]["list"] if each["name"] == "span"]
    assert spans == {"$" + each["name"] for each in offered}
    assert all(each["query"].split(",") == ["5m", "15m", "1h", "6h", "1d"] for each in offered)


@pytest.mark.parametrize("path", FILES)
def test_panels_do_not_overlap_and_fill_the_width(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in read(path)["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    heads = [row for row in {y for _, y in taken} if (0, row) in taken]
    assert all((23, row) in taken for row in heads)


@pytest.mark.prometheus
@pytest.mark.parametrize("path", FILES, ids=_NAMES)
def test_every_query_has_finite_results_in_a_real_prometheus(
    path: Path, remembering: Remembering
) -> None:
    dashboard = read(path)
    known = values(dashboard, remembering)
    assert [name for name, those in known.items() if not those] == []
    asked = panel_queries(dashboard)
    assert len(asked) >= 8
    failed = {
        each.panel: found for each in asked if (found := [*failures(each, known, remembering)])
    }
    assert failed == {}


@pytest.mark.prometheus
def test_the_variables_offer_existing_values(remembering: Remembering) -> None:
    known = values(read(FOLDER / "metric.json"), remembering)
    assert known["metric"] == ["ctr", "hit_rate", "ndcg", "recbole_ndcg"]
    assert (known["segment"], known["property"]) == (["country"], ["item_coverage"])
    assert known["control"] == ["control"]
