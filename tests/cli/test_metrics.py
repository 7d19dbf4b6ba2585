"""`streameval metrics`: the catalogue and its documentation."""

from __future__ import annotations

import json

from streameval.catalogue import catalogue
from tests.cli.program import ran


def test_the_table_has_every_metric_with_its_summary() -> None:
    shown = ran("metrics").stdout
    for definition in catalogue().values():
        assert definition.name in shown
        assert definition.summary in shown


def test_one_metric_is_documented_in_full() -> None:
    done = ran("metrics", "ndcg@10")
    definition = catalogue()["ndcg"]
    assert done.returncode == 0
    for part in (definition.documentation, definition.source, "0 to 1", "gain = linear", "exp2"):
        assert part in done.stdout


def test_json_has_every_metric_with_its_parameters() -> None:
    found = {each["name"]: each for each in json.loads(ran("metrics", "--format", "json").stdout)}
    assert list(found) == list(catalogue())
    assert found["ndcg"]["parameters"]["gain"] == {
        "default": "linear",
        "choices": ["linear", "exp2", "binary"],
    }
    assert (found["dcg"]["bounds"], found["novelty"]["bounds"]) == ([0, None], [None, None])
    assert found["novelty"]["needs"] == ["popularity"]
    assert json.loads(ran("metrics", "ctr", "--format", "json").stdout) == found["ctr"]


def test_a_metric_is_explained_under_its_convention() -> None:
    shown = ran("metrics", "recbole:gauc").stdout
    for part in ("as in RecBole 0.2.1, recbole:gauc means:", "single = true", "reads:", "memory:"):
        assert part in shown
    assert "recbole:gauc" in ran("metrics", "gauc").stdout
    assert "also called: group_auc" in ran("metrics", "gauc").stdout


def test_a_spelling_of_the_system_leads_to_the_same_page() -> None:
    assert ran("metrics", "replay:HitRate@10").stdout == ran("metrics", "replay:hit_rate@10").stdout
