"""`streameval changes` on files and saved states."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.changes.events import estimates, events
from tests.cli.program import from_csv, json_lines, run, usage_error
from tests.daemon.running import running
from tests.exposition import Samples, at, named, samples_of

TIME = ("--time", "ts", "--time-unit", "s")


@cache
def records() -> list[dict[str, Any]]:
    return list(events())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return json_lines(tmp_path_factory.mktemp("changes") / "events.ndjson", records())


def report_rows(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("changes", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    rows: list[dict[str, Any]] = content["changes"]
    return rows


def test_a_table_says_it_and_the_status_tells(log: Path) -> None:
    arguments = ("changes", log, "-m", "ctr", "--label", "variant", "--against", "a", *TIME)
    done = run(*arguments, "--fail-on", "worse")
    assert done.returncode == 1, done.stderr
    assert "worse than a" in done.stdout
    assert "ctr of b is worse than a since" in done.stdout
    assert "at most once in 91 days" in done.stdout
    assert run(*arguments, "--once-in", "9999d", "--tolerate", "0.9").returncode == 0


def test_the_open_day_counts_only_where_it_is_named(log: Path) -> None:
    rows = report_rows(log, "-m", "ctr", "--until", "2026-02-05", *TIME)
    assert rows[0]["until"] == "2026-02-05"
    assert "up to 2026-02-05" in usage_error(
        "changes", str(log), "-m", "ctr", "--until", "2026-02-06", *TIME
    )


def test_files_that_are_counted_side_by_side_change_no_bit(log: Path, tmp_path: Path) -> None:
    rows, options = records(), ("-m", "ctr", "--label", "variant", *TIME)
    later = json_lines(tmp_path / "later.ndjson", rows[len(rows) // 3 :])
    earlier = json_lines(tmp_path / "earlier.ndjson", rows[: len(rows) // 3])
    assert report_rows(later, earlier, *options, "--processes", "2") == report_rows(log, *options)


def test_replay_shows_the_turns(log: Path) -> None:
    rows = report_rows(log, "-m", "ctr", "--label", "variant", "--replay", *TIME)
    latest = report_rows(log, "-m", "ctr", "--label", "variant", *TIME)
    assert rows[-3:] == latest
    days = [row["until"] for row in rows if row["slice"] == "b"]
    assert len(days) > 10
    assert days == sorted(days)
    earlier = report_rows(log, "-m", "ctr", "--label", "variant", "--until", days[-4], *TIME)
    assert [row for row in rows if row["until"] == days[-4]] == earlier
    table = run("changes", log, "-m", "ctr", "--label", "variant", "--replay", *TIME).stdout
    assert table.count("worse than the others") >= 1
    assert len(table.splitlines()) < len(rows)


def test_csv_has_every_series(log: Path) -> None:
    rows = from_csv("changes", log, "-m", "ctr", "--label", "variant", *TIME)
    assert [row["slice"] for row in rows] == ["", "a", "b"]


def test_an_objection_to_an_estimate_leaves_no_change_to_fail_on(tmp_path: Path) -> None:
    paths = {
        scale: json_lines(tmp_path / f"{scale}.ndjson", estimates(scale)) for scale in (1.0, 0.7)
    }
    chances = [f"--column=per_item.{name}={name}" for name in ("propensity", "target")]
    options = ("-m", "ips", "-m", "snips", *chances, *TIME, "--fail-on")
    good = run("changes", paths[1.0], *options, "worse", "--format", "json")
    bad = run("changes", paths[0.7], *options, "worse", "--format", "json")
    assert (good.returncode, bad.returncode) == (1, 0), bad.stderr
    assert [row["verdict"] for row in json.loads(good.stdout)["changes"]] == ["worse", "worse"]
    for row in json.loads(bad.stdout)["changes"]:
        assert (row["verdict"], row["worse_days"], row["since"]) == ("do not trust", None, None)
        assert "the mean weight is 0.7" in row["reason"]
    table = run("changes", paths[0.7], *options, "untrusted")
    assert table.returncode == 1
    assert "No series is judged" in table.stdout
    assert "at most once in" not in table.stdout


CONFIG = """
metrics = ["ctr"]
labels = ["variant", "model"]
segments = ["country"]
intervals = {}
web = { listen = "127.0.0.1:0" }

[source]
type = "files"
paths = ["events.ndjson"]

[event]
time = "ts"
time_unit = "s"

[state]
path = "state"

[changes]
label = "variant"
rollouts = "model"
mix = "country"
"""


def test_a_state_and_a_daemon_say_what_their_log_says(log: Path, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(log.read_bytes())
    with running(CONFIG, tmp_path) as daemon:
        daemon.consumed(len(records()))
        exposed = daemon.until(lambda: _exposed(daemon.get("/metrics").text))
        assert daemon.stop() == 0
    of_state = report_rows(tmp_path / "state")
    config = tmp_path / "streameval.toml"
    assert of_state == report_rows(tmp_path / "events.ndjson", "--config", config)
    assert {row["slice"]: row["verdict"] for row in of_state}["b"] == "worse"
    open_day = date.fromisoformat(of_state[0]["until"]) + timedelta(days=1)
    assert f"{open_day}: give a day up to {of_state[0]['until']}" in usage_error(
        "changes", tmp_path / "state", "--until", str(open_day)
    )
    for row in of_state:
        labels = {"metric": row["metric"], "against": row["against"]}
        labels |= {} if row["slice"] is None else {"variant": row["slice"]}
        assert at(exposed, "change_ratio", **labels) == row["effect"]
        assert at(exposed, "change_verdict", **labels, verdict=row["verdict"]) == 1
        end = datetime.fromisoformat(row["until"]).replace(tzinfo=UTC) + timedelta(days=1)
        assert at(exposed, "change_until_timestamp_seconds") == end.timestamp()


def _exposed(text: str) -> Samples:
    samples = samples_of(text)
    return samples if named(samples, "change_evidence_days") else {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "ctr", "--label", "variant", "--against", "c", *TIME], "choose one of"),
        (["-m", "ctr", "--against", "a", *TIME], "--label"),
        (["-m", "ctr"], "--time"),
        (["-m", "ctr", "--once-in", "1d", *TIME], "once_in"),
        (["-m", "ctr", "--accepted", "2027-01-01", *TIME], "in the future"),
        (["-m", "distinct_items@1", *TIME], "no metric that can be watched"),
        (["-m", "ctr", "--label", "lost", *TIME], "has the field 'lost'"),
        (["-m", "ctr", "--mix", "lost", *TIME], "name the field with --mix"),
        (["-m", "ctr", "--rollouts", "lost", *TIME], "name the field with --rollouts"),
    ],
)
def test_what_is_not_there_is_refused(log: Path, arguments: list[str], words: str) -> None:
    done = run("changes", str(log), *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
