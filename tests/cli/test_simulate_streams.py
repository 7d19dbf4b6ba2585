"""Two simulated streams in a folder, with what must come of them and a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from streameval.cli.app import app, status
from streameval.sources.streams import StreamOptions
from tests.cli.program import ran

_FILES = {"impressions.ndjson", "interactions.ndjson", "truth.json", "streameval.toml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it writes unless asked for something else."""
    made = tmp_path_factory.mktemp("streams") / "a" / "b"
    done = ran("simulate", "--streams", made)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"evaluate --config {made / 'streameval.toml'}" in done.stdout
    return made


@pytest.fixture(scope="module")
def truth(folder: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((folder / "truth.json").read_bytes())
    return found


def _written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    for name, seed in (("first", "4"), ("again", "4"), ("other", "5")):
        asked = ["--streams", str(tmp_path / name), "--seed", seed, "--events", "60"]
        assert status(["simulate", *asked]) == 0
    first, again, other = (_written(tmp_path / name) for name in ("first", "again", "other"))
    assert set(first) == _FILES
    assert first == again
    assert {name for name in _FILES if other[name] == first[name]} == {"streameval.toml"}


@pytest.mark.parametrize("name", ["impressions", "interactions"])
def test_truth_tells_of_every_line(folder: Path, truth: Mapping[str, Any], name: str) -> None:
    counts = dict(truth[name])
    assert counts.pop("outside") <= counts["counted"]
    records = counts.pop("records")
    assert sum(counts.values()) == records
    assert (folder / f"{name}.ndjson").read_bytes().count(b"\n") == records


def test_an_option_changes_what_it_says(tmp_path: Path) -> None:
    calm = ["--late", "0", "--invalid", "0", "--views", "0", "--events", "40"]
    assert status(["simulate", "--streams", str(tmp_path), *calm]) == 0
    found = json.loads((tmp_path / "truth.json").read_bytes())
    for counts in (found["impressions"], found["interactions"]):
        assert counts["late"] == counts["invalid"] == counts["ignored"] == 0
        assert counts["duplicate"] == 1
    assert found["impressions"]["counted"] == 40


def test_check_accepts_the_configuration(folder: Path) -> None:
    assert status(["check", str(folder / "streameval.toml"), "--connect"]) == 0


def test_evaluate_finds_the_truth(
    folder: Path, truth: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(folder / "streameval.toml")
    assert status(["evaluate", "--config", config, "--format", "json"]) == 0
    captured = capsys.readouterr()
    found = {
        (each["metric"], each["labels"]["variant"]): (each["value"], each["count"])
        for each in json.loads(captured.out)
    }
    for name, known in truth["variants"].items():
        lists = known["lists"]
        assert found["hit_rate", name] == (known["hits"] / lists, lists)
        assert found["hit_rate(type=purchase)", name] == (known["purchases"] / lists, lists)
        assert found["value_per_list", name] == (known["gain"] / lists, lists)
    invalid = truth["impressions"]["invalid"] + truth["interactions"]["invalid"]
    assert f"{invalid} of " in captured.err


def test_files_that_are_there_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "truth.json").write_text("mine")
    assert status(["simulate", "--streams", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{tmp_path}: truth.json is there already; name a folder" in said
    assert _written(tmp_path) == {"truth.json": b"mine"}


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert status(["simulate", "--streams", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"--streams {tmp_path / 'file'}: " in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--late", "0.1", "--views", "1"], "--views, --late: this is for streams"),
        (["--streams", "x", "--events-per-second", "5"], "--events-per-second: this is for"),
        (["--streams", "x", "--late", "1.1"], "--late"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert (captured.out, list(tmp_path.iterdir())) == ("", [])


def test_the_help_tells_the_defaults() -> None:
    commands: Any = typer.main.get_command(app)
    told = {
        each.name: float(each.show_default)
        for each in commands.commands["simulate"].params
        if isinstance(each.show_default, str)
    }
    usual = msgspec.to_builtins(StreamOptions())
    assert told == {name: usual[name] for name in usual if name not in ("lists", "seed")}
