"""`streameval evaluate` on JSON lines."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from streameval import Event, metric
from streameval.statistics.hitrows import HitsView
from tests.cli.program import (
    from_csv,
    from_json,
    json_lines,
    readings,
    run,
    usage_error,
    write_file,
)

EVENTS = [
    {"recommendations": ["a", "b", "c"], "interactions": ["b"], "variant": "x", "arm": 1},
    {"recommendations": ["a", "b", "c"], "interactions": [], "variant": "x", "arm": 2},
    {"recommendations": ["c"], "interactions": ["a", "c"], "variant": "y", "arm": 1},
]
CONFIG = """
metrics = ["mrr"]
labels = ["group"]
catalog = 6
[source]
type = "simulator"
[event]
recommendations = "shown"
[event.labels]
group = "arm"
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return json_lines(tmp_path / "events.ndjson", EVENTS)


def test_html_is_one_file_with_the_values_and_nothing_from_elsewhere(events: Path) -> None:
    done = run("evaluate", events, "-m", "ctr", "-m", "recall@3", "--by", "arm", "--format", "html")
    assert (done.stderr, done.stdout[:15]) == ("", "<!DOCTYPE html>")
    assert all(text in done.stdout for text in ("recall@3", "0.7500", "0.5000"))
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", done.stdout)


def test_files_standard_input_and_compressed_files_are_read_alike(
    events: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "events.ndjson.gz"
    packed.write_bytes(gzip.compress(events.read_bytes()))
    plain = readings(events, "-m", "map")
    for mark in (b"", b"\xef\xbb\xbf"):
        assert readings("-", "-m", "map", stdin=mark + events.read_bytes()) == plain
    assert readings(packed, "-m", "map") == plain


def clicked(items: object) -> dict[str, object]:
    return {"recommendations": ["a"], "interactions": items}


@pytest.mark.parametrize("written_as", ["table", "json", "csv"])
def test_values_that_miss_interactions_are_printed_though_they_fail(
    tmp_path: Path, written_as: str
) -> None:
    clicks = [[{"item": "a"}]] * 20 + [[]] * 80
    path = json_lines(tmp_path / "events.ndjson", map(clicked, clicks))
    call = ("evaluate", path, "-m", "hit_rate@1", "--format", written_as)
    done, anyway = run(*call), run(*call, "--allow-invalid")
    assert (done.returncode, anyway.returncode) == (1, 0)
    assert done.stdout == anyway.stdout != ""


def test_an_estimate_says_so_in_every_format(tmp_path: Path) -> None:
    events = ({"recommendations": [f"i{number}"], "interactions": []} for number in range(500))
    path, config = json_lines(tmp_path / "events.ndjson", events), tmp_path / "streameval.toml"
    config.write_text('metrics = ["distinct_items", "gini", "ctr"]\nmax_items = 100\n')
    call = ("evaluate", path, "--config", config)
    distinct, gini, ctr = from_json(*call)
    assert distinct["estimated"]
    assert distinct["low"] < 500 < distinct["high"]
    assert gini["estimated"]
    assert gini["low"] <= 0.0 < gini["high"] < 1.0
    assert "estimated" not in ctr
    rows = from_csv(*call)
    assert [row["estimated"] for row in rows] == ["true", "true", ""]
    assert [float(rows[0][end]) for end in ("low", "high")] == [distinct["low"], distinct["high"]]
    table = " ".join(run(*call).stdout.split())
    assert table.count("(estimated, between ") == 2


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_a_failing_metric_of_a_users_own_is_named_with_its_event(tmp_path: Path, form: str) -> None:
    """Programs import the metric from the module of this test."""
    event = {"recommendations": [], "interactions": ["clicked"]}
    path = json_lines(tmp_path / "events.ndjson", [event])
    if form == "csv":
        path = write_file(tmp_path / "events.csv", "recommendations,interactions\n,clicked\n")
    done = run("evaluate", path, "-m", f"{__name__}:share_of_none")
    # The record is left out, as by the daemon; no other one is left here.
    assert done.returncode == 1
    message = done.stderr
    assert "ZeroDivisionError: division by zero" in message
    assert f"Correct share_of_none in {__name__}" in message
    assert "Report" not in message
    if form == "csv":
        assert '{"recommendations":[],"interactions":["clicked"]' in message
        assert "events.csv, row 1: " in message
    message = usage_error("evaluate", path, "-m", f"{__name__}:sum_of_none")
    assert f"metric '{__name__}:sum_of_none' failed (ZeroDivisionError: " in message


@metric(bounds=(0, 1), source="this test")
def share_of_none(event: Event) -> float:
    """Fails for an event without recommendations."""
    return 1 / len(event.recommendations)


@metric(bounds=(0, 1), source="this test")
def sum_of_none(hits: HitsView) -> float:
    """Fails for every sum."""
    return 1 / (len(hits.__class__.__name__) * 0)
