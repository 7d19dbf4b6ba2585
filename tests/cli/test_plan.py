"""`streameval plan` on files and states."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval import Accumulator, Intervals, plan
from streameval.config import load
from tests.cli.program import from_csv, from_json, run, write_file
from tests.cli.test_compare import CONFIG, TIME, as_counted, drawn, file_of
from tests.stores.received import write_state


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
    fixed, anytime = from_csv("plan", file_of(tmp_path), "-m", "ctr", *TIME)
    assert float(fixed["users"]) < float(anytime["users"])
    assert "600 users on 1 day." in run("plan", file_of(tmp_path), "-m", "ctr").stdout
    assert float(fixed["detectable"]) < float(anytime["detectable"])


def test_a_state_has_the_plan_of_its_files(tmp_path: Path) -> None:
    config = write_file(tmp_path / "streameval.toml", CONFIG.format().replace("iso8601", "s"))
    state = write_state(tmp_path / "state", load(config), drawn())
    options = ("-m", "ctr", "--precision", "0.02")
    planned = from_json("plan", state, *options)
    assert planned == from_json("plan", file_of(tmp_path), *options, *TIME) != []
