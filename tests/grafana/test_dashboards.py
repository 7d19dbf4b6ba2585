"""Every panel is documented, and Prometheus answers every query of the dashboards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.effort import every_case
from tests.grafana.boards import FOLDER
from tests.grafana.queries import failures, panel_queries, read, values
from tests.house.checkout import ROOT
from tests.prometheus.remembering import Remembering

FILES = sorted(FOLDER.glob("*.json"))
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
_NAMES = [path.stem for path in FILES]


@every_case("path", FILES)
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


@every_case("path", FILES)
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


@every_case("path", FILES)
def test_no_panel_averages_averages(path: Path) -> None:
    assert [
        each for each in panel_queries(read(path)) if re.search(r"\bavg|\bmean\(", each[1])
    ] == []
    shown = path.read_text(encoding="utf-8")
    assert set(re.findall(r'"calcs": \[\s*([^\]]*?)\s*\]', shown)) == {'"lastNotNull"'}


@every_case("path", FILES)
def test_no_panel_uses_a_span_below_five_minutes(path: Path) -> None:
    dashboard = read(path)
    spans = {
        span for each in panel_queries(dashboard) for span in re.findall(r"\[(.*?)\]", each[1])
    }
    offered = [each for each in dashboard["templating"]["list"] if each["name"] == "span"]
    assert spans == {"$" + each["name"] for each in offered}
    assert all(each["query"].split(",") == ["5m", "15m", "1h", "6h", "1d"] for each in offered)


@every_case("path", FILES)
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
