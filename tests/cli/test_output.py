"""Standard output that is full, closed, or lacks characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from streameval.cli.app import status
from tests.cli.program import command, run
from tests.effort import PATIENCE, sampled
from tests.house.checkout import ROOT

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
START = str(ROOT / "streameval" / "cli" / "start.py")
CTR = ("-m", "ctr", "--by", "variant")
EVENT = {"recommendations": ["é"], "interactions": ["é"], "variant": "ü€"}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_text(json.dumps(EVENT, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def shown(*arguments: str | Path) -> str:
    """The output where only ASCII can be written."""
    call, environment = command(*arguments), os.environ | ASCII
    done = subprocess.run(call, capture_output=True, timeout=PATIENCE, check=True, env=environment)
    return done.stdout.decode("ascii")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "call",
    sampled(
        [
            ["metrics"],
            ["simulate"],
            ["metrics", "--help"],
            ["demo", "--seconds", "1", "--listen", "127.0.0.1:0"],
        ],
        4,
    ),
)
def test_a_full_disk_is_one_sentence(call: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(*call), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"streameval: cannot write to standard output: no space left")
    assert done.stderr.count(b"\n") == 1


def test_a_pipe_closed_before_an_explanation_is_not_an_error(tmp_path: Path) -> None:
    run("simulate", "--streams", tmp_path / "two", "--events", "5")
    first = (tmp_path / "two" / "impressions.ndjson").read_text().splitlines()[0]
    key = json.loads(first)["request_id"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone, redirect_stdout(gone):
        assert status(["explain", key, "--config", str(tmp_path / "two" / "streameval.toml")]) == 0


@pytest.mark.parametrize("closed", sampled([">&- 2>&-", ">&-"], 2))
def test_closed_streams_are_not_an_error(closed: str) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command("simulate", "--events", "3")]
    done = subprocess.run(shell, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_table_escapes_what_an_encoding_lacks_and_draws_its_lines_with_what_it_has(
    events: Path,
) -> None:
    table = shown("evaluate", events, *CTR)
    assert r"\u20ac" in table
    assert "+----" in table


def test_json_stays_json_in_every_encoding(events: Path) -> None:
    (reading,) = json.loads(shown("evaluate", events, *CTR, "--format", "json"))
    assert reading["labels"] == {"variant": "ü€"}


@pytest.mark.parametrize("module", ["numpy", "streameval.cli.app"])
def test_an_interrupt_while_the_program_starts_is_quiet(module: str) -> None:
    # The interrupt comes where this module is looked for.
    program = f"""
import runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
runpy.run_path({START!r})["main"]()
"""
    call = [sys.executable, "-c", program]
    done = subprocess.run(call, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_result_goes_to_the_file_that_is_named(events: Path, tmp_path: Path, form: str) -> None:
    call = ("evaluate", events, *CTR, "--format", form)
    named = run(*call, "-o", tmp_path / "result")
    assert (named.returncode, named.stdout) == (0, "")
    assert (tmp_path / "result").read_text(encoding="utf-8") == run(*call).stdout


@pytest.mark.parametrize(
    ("short", "long"), [(["-V"], ["--version"]), (["help", "gaps"], ["gaps", "--help"])]
)
def test_a_habit_has_the_answer_of_the_option(short: list[str], long: list[str]) -> None:
    assert run(*short).stdout == run(*long).stdout != ""


def test_help_says_what_a_value_is_and_not_its_type_in_python() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert "`-m, --metric METRIC`" in text
    options = [line.partition(":")[0] for line in text.splitlines() if line.startswith("* `-")]
    assert [option for option in options if "<" in option] == []
    assert "<bool>" not in run("state", "--help").stdout + run("state", "show", "-h").stdout


def test_an_answer_is_written_to_a_file(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    done = run("metrics", "ndcg", "--format", "json", "-o", answer)
    assert done.stdout == ""
    assert json.loads(answer.read_text())["name"] == "ndcg"
