"""`streameval plan` on files and states."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from streameval import Accumulator, Intervals, plan
from tests.cli.program import from_json, run
from tests.cli.test_compare import CONFIG, as_counted, drawn, file_of
from tests.daemon.running import running

TIME = ("--time", "ts", "--time-unit", "s")


def test_a_plan_of_files_is_that_of_an_accumulator(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    options = ("--lift", "5%", "--shares", "90:10", "--power", "0.9")
    (planned,) = from_json("plan", path, "-m", "ctr", *TIME, *options)
    counted = Accumulator("ctr", intervals=Intervals())
    counted.update_many(map(as_counted, drawn()))
    expected = plan(counted, "ctr", lift=0.05, shares=(90, 10), power=0.9)
    assert planned["efforts"][0]["users"] == pytest.approx(expected.efforts[0].users)
    assert planned["efforts"][1]["detectable"] == pytest.approx(expected.efforts[1].detectable)
    assert (planned["users"], planned["days"]) == (600, 4)


def test_a_table_says_what_is_needed_by_both_methods(tmp_path: Path) -> None:
    done = run("plan", file_of(tmp_path), "-m", "ctr", *TIME)
    assert done.stdout.startswith("To find a lift of 2.0 % in 80.0 % of experiments, with 95 %")
    assert "Counted so far: 600 users on 4 days." in done.stdout
    text = run("plan", file_of(tmp_path), "-m", "ctr", *TIME, "--format", "csv").stdout
    fixed, anytime = csv.DictReader(io.StringIO(text))
    assert float(fixed["users"]) < float(anytime["users"])
    assert "600 users on 1 day." in run("plan", file_of(tmp_path), "-m", "ctr").stdout
    assert float(fixed["detectable"]) < float(anytime["detectable"])


def test_a_state_has_the_plan_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text(run("simulate", "--events", "1500").stdout)
    with running(CONFIG.format(), tmp_path) as daemon:
        daemon.consumed(1_500)
        assert daemon.stop() == 0
    options = ("-m", "ctr", "--precision", "0.02", "--format", "json")
    saved = run("plan", tmp_path / "state", *options)
    time = ("--time", "ts", "--time-unit", "iso8601")
    files = run("plan", tmp_path / "events.ndjson", *options, *time)
    assert saved.stdout == files.stdout != ""
