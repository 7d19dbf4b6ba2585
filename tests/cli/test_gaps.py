"""`streameval gaps`: who is served worse, in files, tables and states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streameval import Accumulator, Intervals, gap
from tests.cli.program import from_csv, from_json, json_lines, printed, run
from tests.daemon.running import running
from tests.exposition import at

LEVELS = {"de": 3, "nl": 3, "fr": 1}
"""Of four lists of a user, those with a hit."""


def _events(users: int = 200) -> list[dict[str, Any]]:
    return [
        {
            "recommendations": ["a", "b"],
            "interactions": ["a"] if (number + user) % 4 < LEVELS[country] else ["c"],
            "user": f"{country}{user}",
            "variant": "control" if user % 2 else "new",
            "country": country,
        }
        for country in LEVELS
        for user in range(users)
        for number in range(4 if user % 3 else 1)
    ]


ASKED = ("-m", "ndcg@2", "--by", "country")


def _json(*arguments: str | Path) -> list[dict[str, Any]]:
    document = from_json("gaps", *arguments)
    assert document["by"] == "country"
    gaps: list[dict[str, Any]] = document["gaps"]
    return gaps


def test_files_have_the_gaps_of_accumulators(tmp_path: Path) -> None:
    events = _events()
    counted = {name: Accumulator("ndcg@2", intervals=Intervals()) for name in LEVELS}
    for event in events:
        counted[event["country"]].update(
            event["recommendations"], event["interactions"], user=event["user"]
        )
    expected = gap(counted, "ndcg@2")
    (shown,) = _json(json_lines(tmp_path / "events.ndjson", events), *ASKED)
    assert (shown["difference"], shown["low"], shown["ratio_high"]) == (
        expected.difference,
        expected.low,
        expected.ratio_high,
    )
    assert [entry["name"] for entry in shown["values"] if entry["worst"]] == ["fr"]
    assert shown["kind"] == "fixed"


def test_the_table_says_which_may_be_worst_and_by_how_much(tmp_path: Path) -> None:
    first, *rows = printed(
        "gaps", json_lines(tmp_path / "events.ndjson", _events()), *ASKED
    ).splitlines()
    assert first.startswith("ndcg@2 by country: difference 0.")
    assert first.endswith("The worst is fr.")
    assert sum("the worst" in row for row in rows) == 1


def test_csv_has_a_line_for_each_value(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "events.ndjson", [*_events(), {**_events(1)[0], "country": "xx"}])
    rows = from_csv("gaps", path, *ASKED)
    assert {row["country"]: row["worst"] for row in rows} == {
        "fr": "true",
        "de": "false",
        "nl": "false",
        "xx": "false",
    }
    assert [row["left_out"].split(":")[0] for row in rows if row["country"] == "xx"] == [
        "Too few users"
    ]


CONFIG = """
metrics = ["ndcg@2", "ctr"]
labels = ["variant"]
segments = ["country"]
event = { user = "user" }
intervals = {}
source = { type = "files", paths = ["events.ndjson"] }
state = { path = "state" }
web = { listen = "127.0.0.1:0" }
[[gap]]
by = "country"
metrics = ["ndcg@2"]
at_most = 0.1
"""


def test_a_daemon_serves_the_gaps_and_its_state_has_those_of_the_files(tmp_path: Path) -> None:
    events = _events()
    path = json_lines(tmp_path / "events.ndjson", events)
    with running(CONFIG, tmp_path) as daemon:
        served = daemon.consumed(len(events))["gaps"]
        samples = daemon.samples()
        assert daemon.stop() == 0
    assert {entry["labels"]["variant"] for entry in served} == {"control", "new"}
    assert {entry["gap"]["values"][0]["name"] for entry in served} == {"fr"}
    assert at(samples, "gap_at_most", by="country", metric="ndcg@2", variant="new") == 0.1
    state = tmp_path / "state"
    assert _json(state, *ASKED) == _json(path, *ASKED, "--method", "anytime")
    message = run("gaps", state, "--by", "contry").stderr
    assert "--by contry: neither a label nor a segment of the state: variant, country" in message


def test_a_metric_that_is_no_mean_is_left_out(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "events.ndjson", _events())
    gaps = _json(path, *ASKED, "-m", "gini@2")
    assert [entry["metric"] for entry in gaps] == ["ndcg@2"]
