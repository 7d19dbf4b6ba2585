"""`streameval gaps`: who is served worse, in files, tables and states."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from streameval import Accumulator, Intervals, gap
from tests.cli.program import printed, run
from tests.daemon.running import running

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


def _lines(folder: Path, events: list[dict[str, Any]]) -> Path:
    path = folder / "events.ndjson"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


def _json(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("gaps", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["by"] == "country"
    gaps: list[dict[str, Any]] = document["gaps"]
    return gaps


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_files_have_the_gaps_of_accumulators(tmp_path: Path, form: str) -> None:
    events = _events()
    path = _lines(tmp_path, events)
    if form == "csv":
        path = tmp_path / "events.csv"
        with path.open("w", newline="") as file:
            rows = csv.DictWriter(file, [*events[0]])
            rows.writeheader()
            for event in events:
                lists = {
                    name: json.dumps(event[name]) for name in ("recommendations", "interactions")
                }
                rows.writerow(event | lists)
    counted = {name: Accumulator("ndcg@2", intervals=Intervals()) for name in LEVELS}
    for event in events:
        counted[event["country"]].update(
            event["recommendations"], event["interactions"], user=event["user"]
        )
    expected = gap(counted, "ndcg@2")
    (shown,) = _json(path, "-m", "ndcg@2", "--by", "country")
    assert (shown["difference"], shown["low"], shown["ratio_high"]) == (
        expected.difference,
        expected.low,
        expected.ratio_high,
    )
    assert [entry["name"] for entry in shown["values"] if entry["worst"]] == ["fr"]
    assert shown["kind"] == "fixed"


def test_the_table_says_which_may_be_worst_and_by_how_much(tmp_path: Path) -> None:
    first, *rows = printed(
        "gaps", _lines(tmp_path, _events()), "-m", "ndcg@2", "--by", "country"
    ).splitlines()
    assert first.startswith("ndcg@2 by country: difference 0.")
    assert first.endswith("The worst is fr.")
    assert sum("the worst" in row for row in rows) == 1


def test_csv_has_a_line_for_each_value(tmp_path: Path) -> None:
    path = _lines(tmp_path, [*_events(), {**_events(1)[0], "country": "xx"}])
    done = run("gaps", path, "-m", "ndcg@2", "--by", "country", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
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
    path = _lines(tmp_path, events)
    with running(CONFIG, tmp_path) as daemon:
        served = daemon.consumed(len(events))["gaps"]
        text = daemon.get("/metrics").text
        assert daemon.stop() == 0
    assert {entry["labels"]["variant"] for entry in served} == {"control", "new"}
    assert {entry["gap"]["values"][0]["name"] for entry in served} == {"fr"}
    assert 'streameval_gap_at_most{by="country",metric="ndcg@2",variant="new"} 0.1' in text
    state = tmp_path / "state"
    asked = ["-m", "ndcg@2", "--by", "country"]
    assert _json(state, *asked) == _json(path, *asked, "--method", "anytime")
    told = run("gaps", state, "--by", "contry").stderr
    assert "--by contry: neither a label nor a segment of the state: variant, country" in told


def test_a_metric_that_is_no_mean_is_left_out(tmp_path: Path) -> None:
    path = _lines(tmp_path, _events())
    gaps = _json(path, "-m", "ndcg@2", "-m", "gini@2", "--by", "country")
    assert [entry["metric"] for entry in gaps] == ["ndcg@2"]
