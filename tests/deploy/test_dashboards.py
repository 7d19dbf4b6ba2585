"""Every panel is documented, and Prometheus answers its queries, evaluated as by Grafana."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from tests.cli.program import printed
from tests.exporters.estimates import POLICIES, policy_readings
from tests.house.checkout import ROOT
from tests.processes import finished
from tests.prometheus.configured import FOLDER, OPTIONS, RUNBOOK, write_dashboards
from tests.prometheus.remembering import Remembering
from tests.prometheus.server import program

_QUERY = re.compile(r"label_values\((?P<selector>.*), (?P<label>[\w${}]+)\)")
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


@cache
def boards(name: str) -> dict[str, dict[str, Any]]:
    """The dashboards that `streameval dashboards` makes of a configuration, by file name."""
    with TemporaryDirectory() as folder:
        files = write_dashboards(name, Path(folder))
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def panel_queries(dashboard: Mapping[str, Any]) -> list[PanelQuery]:
    panels = [
        PanelQuery(panel["title"], target["expr"], target.get("instant", False))
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    annotations = [
        PanelQuery(annotation["name"], annotation["expr"])
        for annotation in dashboard["annotations"]["list"]
    ]
    return [*panels, *annotations]


def values(dashboard: Mapping[str, Any], prometheus: Remembering) -> dict[str, list[str]]:
    """Variable -> values, evaluated in order, because a variable may use earlier ones."""
    selected: dict[str, list[str]] = {}
    repeated = {panel.get("repeat") for panel in dashboard["panels"]}
    for variable in dashboard["templating"]["list"]:
        name, kind = variable["name"], variable["type"]
        if kind == "query":
            selected[name] = _of_query(variable, selected, prometheus)
        elif kind == "custom" and name != "span":
            options = [option["value"] for option in variable["options"]]
            alone = name in repeated or not variable["multi"]
            selected[name] = options if alone else [f"({'|'.join(options)})"]
        elif kind != "datasource":
            selected[name] = [variable["current"]["value"]]
    return selected


def failures(
    query: PanelQuery, chosen: Mapping[str, list[str]], prometheus: Remembering
) -> Iterator[str]:
    """The expressions without a finite result, one for each choice of variables."""
    names = sorted(query.variables)
    for choice in product(*(chosen[name] for name in names)):
        expression = filled(query.expression, dict(zip(names, choice, strict=True)))
        if not _is_finite(prometheus, query, expression):
            yield expression


def filled(text: str, chosen: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: chosen[match[1] or match[2]], text)


def _of_query(
    variable: Mapping[str, Any], chosen: Mapping[str, list[str]], prometheus: Remembering
) -> list[str]:
    if "allValue" in variable:
        return [variable["allValue"]]
    parsed = _QUERY.fullmatch(variable["query"]["query"])
    assert parsed is not None, variable
    first = {name: those[0] for name, those in chosen.items()}
    selector = filled(parsed["selector"], first)
    label = filled(parsed["label"], first)
    times = {"start": str(prometheus.end - _RANGE), "end": str(prometheus.moment)}
    offered = prometheus.server.data(f"label/{label}/values", **{"match[]": selector}, **times)
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


SECTIONS = (ROOT / RUNBOOK).read_text(encoding="utf-8").lower()
CONFIGURATIONS = pytest.mark.parametrize("name", OPTIONS)
_BY_CONFIGURATION = {
    "plain": {"overview", "metric", "pipeline"},
    "experiment": {
        *("overview", "metric", "policies", "pipeline"),
        *("experiment", "changes", "gaps"),
    },
    "join": {"overview", "metric", "pipeline"},
}


def _panels(name: str) -> list[dict[str, Any]]:
    return [
        panel
        for board in boards(name).values()
        for panel in board["panels"]
        if panel["type"] != "row"
    ]


@CONFIGURATIONS
def test_there_is_a_dashboard_for_what_is_configured(name: str) -> None:
    assert set(boards(name)) == _BY_CONFIGURATION[name]


@pytest.mark.prometheus
@CONFIGURATIONS
def test_promtool_accepts_the_queries(name: str, tmp_path: Path) -> None:
    rules: list[dict[str, str]] = []
    for board in boards(name).values():
        first = {
            variable["name"]: variable.get("options", [{"value": "x"}])[0]["value"]
            for variable in board["templating"]["list"]
        }
        first |= {"over": "instance", "span": "5m"}
        rules += [
            {"record": f"query:{len(rules)}_{number}", "expr": filled(query.expression, first)}
            for number, query in enumerate(panel_queries(board))
        ]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = finished([program("promtool"), "check", "rules", path])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


_OF_PROMETHEUS = {".annotations.list[].textFormat", ".annotations.list[].titleFormat"}
"""Keys that the data source of Prometheus reads, which are in no schema of Grafana."""


@CONFIGURATIONS
def test_the_schema_of_grafana_has_every_key_and_value(name: str) -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    pytest.importorskip("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder").JSONEncoder()
    for board in boards(name).values():
        known = json.loads(encoder.encode(models.Dashboard.from_json(board)))
        assert {*_unknown(board, known)} <= _OF_PROMETHEUS, board["title"]


def _unknown(part: Any, known: Any, path: str = "") -> Iterator[str]:
    """The paths in a document that another one does not have, or has with another value."""
    if isinstance(part, dict) and isinstance(known, dict):
        for key, value in part.items():
            yield from _unknown(value, known.get(key, ...), f"{path}.{key}")
    elif isinstance(part, list) and isinstance(known, list) and len(part) == len(known):
        for one, other in zip(part, known, strict=True):
            yield from _unknown(one, other, f"{path}[]")
    elif part != known:
        yield path


@CONFIGURATIONS
def test_a_panel_has_a_unit_a_description_and_a_link_to_the_runbook(name: str) -> None:
    for panel in _panels(name):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert len(panel["description"]) > 20, panel["title"]
        (link,) = panel["links"]
        address, _, section = link["url"].partition("#")
        assert address == RUNBOOK
        assert f"## {section}\n" in SECTIONS or not section, panel["title"]


@CONFIGURATIONS
def test_a_panel_queries_the_chosen_data_source(name: str) -> None:
    for board in boards(name).values():
        targets = [target for panel in board["panels"] for target in panel.get("targets", [])]
        requested = [*targets, *board["annotations"]["list"]]
        assert {query["datasource"]["uid"] for query in requested} == {"${datasource}"}
        first = board["templating"]["list"][0]
        source = (first["name"], first["type"], first["query"])
        assert source == ("datasource", "datasource", "prometheus")


@CONFIGURATIONS
def test_no_panel_averages_averages(name: str) -> None:
    queries = [query for board in boards(name).values() for query in panel_queries(board)]
    assert [query for query in queries if re.search(r"\bavg|\bmean\(", query.expression)] == []
    actual = set(re.findall(r'"calcs": (\[[^\]]*\])', json.dumps(boards(name))))
    assert actual == {'["lastNotNull"]'}


@CONFIGURATIONS
def test_a_panel_uses_only_what_its_dashboard_offers(name: str) -> None:
    for board in boards(name).values():
        offered = {variable["name"] for variable in board["templating"]["list"]}
        texts = json.dumps([board["panels"], board["templating"]])
        requested = {braced or bare for braced, bare in _VARIABLE.findall(texts)}
        assert requested - offered - {"__all"} == set(), board["title"]
        queries = panel_queries(board)
        spans = {span for query in queries for span in re.findall(r"\[(.*?)\]", query.expression)}
        assert spans == ({"$span"} & {f"${each}" for each in offered}), board["title"]


@CONFIGURATIONS
def test_panels_do_not_overlap_and_fill_the_width(name: str) -> None:
    for board in boards(name).values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24
            taken |= cells
        heads = [row for row in {y for _, y in taken} if (0, row) in taken]
        assert all((23, row) in taken for row in heads), board["title"]


def test_without_a_runbook_there_is_no_link_to_one(tmp_path: Path) -> None:
    names = printed("dashboards", FOLDER / "plain.toml", "-o", tmp_path / "new").splitlines()
    texts = [Path(name).read_text(encoding="utf-8") for name in names]
    assert [text for text in texts if "unbook" not in text] == texts != []


@pytest.mark.prometheus
@pytest.mark.parametrize("name", sorted(_BY_CONFIGURATION["experiment"] - {"gaps"}))
def test_every_query_has_finite_results_in_a_real_prometheus(
    name: str, remembering: Remembering
) -> None:
    dashboard = boards("experiment")[name]
    selected = values(dashboard, remembering)
    assert [name for name, those in selected.items() if not those] == []
    requested = panel_queries(dashboard)
    assert len(requested) >= 4
    failed = {
        query.panel: faults
        for query in requested
        if (faults := [*failures(query, selected, remembering)])
    }
    assert failed == {}


@pytest.mark.prometheus
def test_the_variables_offer_existing_values(remembering: Remembering) -> None:
    selected = values(boards("experiment")["metric"], remembering)
    means = ["ctr", "hit_rate", "ndcg", "recbole_ndcg", "importance_weight"]
    assert selected["metric"] == means
    gauges = ["ips", "snips", "dr", "importance_weight_effective_share", "item_coverage"]
    assert (selected["segment"], selected["property"]) == (["country"], gauges)
    assert (selected["control"], selected["window"]) == (["control"], ["(1h|lifetime)"])


_SHOWN = {
    "Mean weight": "importance_weight(target={})",
    "Effective share": "importance_weight(statistic=effective_share,target={})",
    "snips of all replicas": "snips(target={})",
    "ips of all replicas": "ips(target={})",
    "dr over the lifetime, with its interval": "dr(target={})",
}


def _by_policy(title: str, remembering: Remembering, index: int = 0) -> dict[str, set[float]]:
    """What a query of a panel shows of each policy; of all variants and replicas together."""
    dashboard = boards("experiment")["policies"]
    selected = {name: those[0] for name, those in values(dashboard, remembering).items()}
    query = [query for query in panel_queries(dashboard) if query.panel == title][index]
    where = {"query": filled(query.expression, selected), "time": str(remembering.moment)}
    shown: dict[str, set[float]] = {}
    for series in remembering.server.data("query", **where)["result"]:
        rounded = round(float(series["value"][1]), 6)
        shown.setdefault(series["metric"]["target"], set()).add(rounded)
    return shown


@pytest.mark.prometheus
@pytest.mark.parametrize("title", _SHOWN)
def test_a_panel_of_policies_shows_what_the_lists_of_all_replicas_say(
    title: str, remembering: Remembering
) -> None:
    index = int("interval" in title)  # between the ends of the interval
    assert _by_policy(title, remembering, index) == {
        policy: {round(policy_readings()[_SHOWN[title].format(policy)].value, 6)}
        for policy in POLICIES
    }


@pytest.mark.prometheus
def test_a_policy_that_the_log_cannot_judge_is_not_to_be_trusted(remembering: Remembering) -> None:
    assert _by_policy("Do not trust", remembering) == {"near": {0.0}, "unseen": {1.0}}
    weights = "Mean weight, with its interval"
    low, high = (_by_policy(weights, remembering, index) for index in (0, 2))
    assert max(high["unseen"]) < min(low["near"])
    firing = {alert.get("target") for alert in remembering.alerts if "target" in alert}
    assert firing == {"unseen"}
