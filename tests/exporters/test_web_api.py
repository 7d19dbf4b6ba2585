from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import msgspec
import pytest

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.experiments.settings import Experiment
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import FamilyHistory, PaneMeans, Snapshot, ValueHistory
from streameval.exporters.page.charts import Drawing, slices_now
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Excerpt, Selection
from streameval.exporters.page.state import State, daemon_state
from streameval.exporters.web.answers import SnapshotAnswer, snapshot_answer
from streameval.exporters.web.api import Api
from tests.exporters.changing import changes_report
from tests.exporters.experiments import findings, report
from tests.exporters.guarded import Guarded, guarded, users
from tests.exporters.pictures import (
    busy_health,
    mean,
    picture,
    property_of_all,
    refused_value,
    windowed,
)

MINUTE = 60_000_000


class Site:
    """The API of a real server."""

    def __init__(self, server: Guarded) -> None:
        self.server = server
        server.snapshot = full()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.server.get(f"/api/v1/{path}", headers=headers)

    def schema(self, name: str) -> dict[str, Any]:
        return {"$ref": f"#/components/schemas/{name}", **self.get("openapi.json").json()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with guarded(tmp_path / "web.yml") as server:
        yield Site(server)


def full(version: int = 1) -> Snapshot:
    """A snapshot with windows, a segment, an undefined value, a property and panes."""
    series = [
        windowed(mean("ndcg@10", (*variant, *country), 3.0 * number, 10), window, family)
        for family, country in enumerate([(), ("nl",)])
        for number, variant in enumerate((("control",), ("treatment",)), 1)
        for window in ("5m", "lifetime")
    ]
    series += [property_of_all("item_coverage@10", ("control",), 0.5)]
    series += [refused_value("capri:recall@5", ("control",))]
    rows: dict[tuple[str, ...], list[tuple[float, int]]] = {
        ("control",): [(1.0, 2)],
        ("treatment",): [(float("nan"), 3)],
    }
    panes = tuple(PaneMeans(minute * MINUTE, MINUTE, rows) for minute in range(10))
    history = FamilyHistory(("ndcg@10",), panes, 3 * MINUTE - 1_000_000, {"5m": 5 * MINUTE})
    snapshot = picture(
        *series, version=version, windows=("5m",), segments=("country",), state=busy_health()
    )
    past = ValueHistory(clock=10 * MINUTE - 1_000_000, families=(history, FamilyHistory()))
    found = (*findings(), Finding(CHANGES, changes_report()))
    return msgspec.structs.replace(snapshot, past=past, findings=found)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("metrics", "Metrics"),
        ("catalogue", "Catalogue"),
        ("changes", "ChangesReport"),
        ("history?metric=ndcg@10", "History"),
        ("history?metric=ndcg@10&window=5m&segment=country", "History"),
        ("history?metric=item_coverage@10&window=lifetime", "History"),
    ],
)
def test_responses_match_the_description(site: Site, path: str, name: str) -> None:
    answer = site.get(path)
    assert answer.headers["content-type"] == "application/json"
    jsonschema.Draft202012Validator(site.schema(name)).validate(answer.json())


def test_the_description_covers_every_path_and_attribute(site: Site) -> None:
    described = site.get("openapi.json").json()
    api = Api(lambda: None, lambda now: daemon_state(now, healthy=True))
    assert set(described["paths"]) == {route.path for route in api.routes()} - {
        "/",
        "/main",
        "/points",
    }
    objects = [schema for schema in _objects(described["components"]) if "properties" in schema]
    assert all(schema["additionalProperties"] is False for schema in objects)
    assert all(set(schema["required"]) == set(schema["properties"]) for schema in objects)
    assert all(
        attribute["description"]
        for schema in objects
        for attribute in schema["properties"].values()
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("metrics?metric=typo", "'metric'; /api/v1/metrics takes no parameters."),
        ("history?metric=ndcg@10&windows=5m", "'windows'; /api/v1/history takes metric, window, "),
        ("openapi.json?version=2", "'version'; /api/v1/openapi.json takes no parameters."),
    ],
)
def test_a_parameter_that_a_path_does_not_take_is_refused(
    site: Site, query: str, said: str
) -> None:
    answer = site.get(query)
    assert answer.status_code == 400
    assert answer.text.startswith(f"Unknown parameter {said}")


def test_the_description_has_each_way_in_which_a_path_refuses(site: Site, tmp_path: Path) -> None:
    described = site.get("openapi.json").json()
    refused = {
        site.get("history?metric=mrr").status_code,
        site.get("metrics?metric=mrr").status_code,
        site.server.ask("GET", "/api/v1/metrics", content=b"{}").status_code,
    }
    site.server.snapshot = None
    refused.add(site.get("metrics").status_code)
    with guarded(tmp_path / "users.yml", users(ana="s3cret")) as closed:
        refused.add(closed.get("/api/v1/metrics").status_code)
    with guarded(tmp_path / "hosts.yml", hosts=["eval.example"]) as named:
        foreign = {"Host": "evil.example"}
        refused.add(named.get("/api/v1/metrics", headers=foreign).status_code)
    assert refused == {400, 401, 404, 413, 421, 503}
    for path, operations in described["paths"].items():
        codes = set(map(int, operations["get"]["responses"]))
        assert codes == refused - ({404} if path != "/api/v1/history" else set()) | {200, 304}
    (scheme,) = described["components"]["securitySchemes"].values()
    assert scheme == {"type": "http", "scheme": "basic"}
    assert described["security"] == [{}, {"password": []}]


def _objects(node: object) -> Iterator[dict[str, Any]]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    if isinstance(node, dict):
        yield node
    for child in children:
        yield from _objects(child)


def test_an_unchanged_document_is_not_sent_again(site: Site) -> None:
    tag = site.get("metrics").headers["etag"]
    for path in ("metrics", "catalogue", "changes", "history?metric=ndcg@10"):
        again = site.get(path, **{"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
    strong = tag.removeprefix("W/")
    for sent, status in {
        f'"x", {tag}': 304,
        strong: 304,
        "*": 304,
        f"x{tag}x": 200,
        strong.strip('"'): 200,
    }.items():
        assert site.get("metrics", **{"If-None-Match": sent}).status_code == status
    site.server.snapshot = full(2)
    later = site.get("metrics", **{"If-None-Match": tag})
    assert (later.status_code, later.json()["version"]) == (200, 2)


def test_changes_are_those_of_the_last_closed_day(site: Site) -> None:
    answer = site.get("changes").json()
    total, worse, young = answer["changes"]
    assert (answer["until"], worse["since"], worse["slice"]) == ("2026-03-08", "2026-03-03", "b")
    assert [row["verdict"] for row in (total, worse, young)] == [
        "no change seen",
        "worse",
        "history too short",
    ]
    assert worse["text"].startswith("ctr of b is worse than the others since 3 Mar")
    assert [day["day"] for day in worse["days"][-2:]] == ["2026-03-07", "2026-03-08"]
    assert (young["effect"], young["worse_days"]) == (None, None)
    site.server.snapshot = msgspec.structs.replace(full(), version=2, findings=())
    answer = site.get("changes").json()
    assert (answer["until"], answer["changes"]) == (None, [])


def test_fifty_concurrent_requests_share_one_rendering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: list[int] = []

    def recorded(snapshot: Snapshot, status: State) -> SnapshotAnswer:
        versions.append(snapshot.version)
        return snapshot_answer(snapshot, status)

    monkeypatch.setattr("streameval.exporters.web.api.snapshot_answer", recorded)
    with (
        guarded(tmp_path / "web.yml") as server,
        concurrent.futures.ThreadPoolExecutor(10) as pool,
    ):
        contents = list(pool.map(lambda _: server.get("/api/v1/metrics").content, range(50)))
    assert len(set(contents)) == 1
    assert versions == [1]


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The value of the segment of each chart whose points are computed."""
    values: list[str] = []

    def recorded(part: Excerpt, metric: str) -> Drawing:
        values.append(part.selection.value)
        return slices_now(part, metric)

    monkeypatch.setattr("streameval.exporters.web.api.slices_now", recorded)
    return values


POINTS = "/points?view=ndcg@10&segment=country&value="


def test_of_endless_selections_only_the_newest_renderings_are_kept(
    site: Site, charts: list[str]
) -> None:
    for value in ["first", "first", *map(str, range(200)), "first"]:
        assert site.server.get(f"{POINTS}{value}").status_code == 200
    assert charts.count("first") == 2


def test_points_are_computed_once_for_all_addresses_of_one_selection(
    site: Site, charts: list[str]
) -> None:
    same = "/points?value=nl&from=1&segment=country&view=ndcg%4010"
    for path in (f"{POINTS}nl", f"{POINTS}nl&from=1", same, f"{POINTS}de", f"{POINTS}nl"):
        assert site.server.get(path).status_code == 200
    assert charts == ["nl", "de"]


def test_a_page_is_rendered_once_for_all_addresses_of_one_selection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[str] = []

    def recorded(snapshot: Snapshot | None, status: State, selection: Selection, age: str) -> str:
        views.append(selection.view)
        return page(snapshot, status, selection, age)

    monkeypatch.setattr("streameval.exporters.web.api.page", recorded)
    with guarded(tmp_path / "web.yml") as server:
        pages = [server.get(f"/?{query}").text for query in ("", "from=1", "from=2")]
        other = server.get("/?view=ndcg@10").text
    assert pages == [pages[0]] * 3 != [other] * 3
    assert views == ["", "ndcg@10"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "Unknown metric ''; known: ndcg@10, item_coverage@10, capri:recall@5."),
        ("metric=mrr", "Unknown metric 'mrr'"),
        ("metric=ndcg@10&window=1h", "Unknown window '1h'; known: pane, 5m, lifetime."),
        ("metric=ndcg@10&segment=age", "Unknown segment 'age'; known: country."),
    ],
)
def test_an_unknown_history_lists_the_known_ones(site: Site, query: str, said: str) -> None:
    answer = site.get(f"history?{query}")
    assert answer.status_code == 404
    assert said in answer.text


def test_a_metric_over_time_follows_from_its_panes(site: Site) -> None:
    def points(window: str) -> list[list[list[float | None]]]:
        series = site.get(f"history?metric=ndcg@10&window={window}").json()["series"]
        assert [entry["labels"]["variant"] for entry in series] == ["control", "treatment"]
        return [entry["points"] for entry in series]

    control, treatment = points("pane")
    assert control == [[60.0 * minute, 0.5, 2] for minute in range(10)]
    assert treatment[0] == [0.0, None, 3]
    control, _ = points("5m")  # only where it is kept whole
    assert control == [[end, 0.5, 10] for end in (480.0, 540.0, 599.0)]
    control, _ = points("lifetime")  # back from now
    assert control[-2:] == [[540.0, (3.0 - 1.0) / 8, 8], [599.0, 0.3, 10]]
    assert control[0] == [300.0, None, 0]


def test_the_difference_is_to_the_control_with_the_same_other_labels(site: Site) -> None:
    answer = site.get("metrics").json()
    assert answer["comparison"] == {"label": "variant", "control": "control"}
    differences = {
        (entry["metric"], *entry["labels"].values(), entry["window"]): entry["difference"]
        for entry in answer["metrics"]
    }
    assert differences["ndcg@10", "treatment", "nl", "5m"] == pytest.approx(0.3)
    assert differences["ndcg@10", "control", "5m"] is None
    assert differences["capri:recall@5", "control", "lifetime"] is None


@pytest.mark.parametrize(
    ("variants", "control"),
    [
        (["b", "a"], None),
        (["b", "control", "a"], "control"),
        (["a", "baseline"], "baseline"),
        (["__other__", "x"], None),
        (["only"], None),
    ],
)
def test_only_a_variant_that_is_called_so_is_the_control(
    site: Site, variants: list[str], control: str | None
) -> None:
    shown = (mean("ndcg@10", (variant,), 1.0 + index, 2) for index, variant in enumerate(variants))
    site.server.snapshot = picture(*shown)
    comparison = site.get("metrics").json()["comparison"]
    assert (comparison and comparison["control"]) == control
    drawn = site.server.get("/").text
    assert drawn.count('class="difference"') == (len(variants) - 1 if control else 0)
    assert (f"Value, difference from {control}<" in drawn) == (control is not None)
    assert ("<fieldset" in drawn) == (comparison is not None)


def test_the_control_of_an_experiment_is_that_of_the_cards(site: Site) -> None:
    shown = [
        mean("ndcg@10", ("baseline", name), 1.0, 2) for name in ("control", "treatment", "other")
    ]
    names = ("variant", "arm")
    by_arm = report(experiment=Experiment(label="arm"))
    site.server.snapshot = msgspec.structs.replace(
        picture(*shown, label_names=names), findings=findings(by_arm)
    )
    assert site.get("metrics").json()["comparison"] == {"label": "arm", "control": "control"}


def test_the_label_variant_is_compared_wherever_it_stands(site: Site) -> None:
    site.server.snapshot = picture(
        *(mean("mrr", (model, variant), 1.0, 2) for model in "xy" for variant in "ab"),
        label_names=("model", "variant"),
    )
    assert site.get("metrics").json()["comparison"] == {"label": "variant", "control": None}
