"""Usage errors: status 2 and one line with a remedy; the help, and the catalogue as printed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from streameval.catalogue import catalogue
from streameval.checkpoints.checkpointer import unsaved_error
from streameval.cli.app import COMMANDS, app
from streameval.engine.dead_letters import LimitExceeded, too_many_invalid
from streameval.engine.ingest import uncountable
from streameval.evaluation.shell.exits import status_of
from streameval.events.errors import (
    RefusedMemberError,
    RefusedStateError,
    SourceError,
)
from streameval.join.frontend import uneven_streams
from streameval.join.open_records import too_many_open
from streameval.statistics.kernel import KERNEL
from tests.cli.program import command, from_json, printed, run
from tests.effort import PATIENCE


def test_version_prints_the_version_of_the_package_and_the_kernel_in_use() -> None:
    assert run("--version").stdout == f"streameval {version('streameval')} (kernel: {KERNEL})\n"


def test_without_a_command_the_help_is_printed() -> None:
    done = run()
    assert done.returncode == 0
    assert [name for name in COMMANDS if name not in done.stdout] == []


@pytest.mark.parametrize(
    "name", [*COMMANDS, *(f"state {name}" for name in ("show", "verify", "export", "merge"))]
)
def test_the_help_of_every_command_has_examples_on_separate_lines(name: str) -> None:
    lines = printed(*name.split(), "--help").split("Usage")[1].splitlines()[1:]
    examples = [line.strip() for line in lines if line.strip().startswith("streameval ")]
    assert examples
    assert [line for line in examples if line.count("streameval ") > 1 + line.count("|")] == []


def test_the_help_imports_no_heavy_module() -> None:
    heavy = "{'kafka', 'starlette', 'uvicorn', 'prometheus_client', 'streameval.config'}"
    code = (
        "import sys; from streameval.cli.app import status; status(['--help']); "
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.stderr == b"[]\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_their_help(name: str) -> None:
    program: Any = typer.main.get_command(app)
    _, command, _ = program.resolve_command(typer.Context(program), [name])
    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name]


def test_a_closed_pipe_is_not_an_error() -> None:
    with subprocess.Popen(
        command("simulate", "--events", "1000000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""


def test_errors_that_need_a_decision_exit_with_2_and_temporary_ones_with_1() -> None:
    decided = [
        RefusedMemberError("kafka", "another process has joined as the same `member`", "rename it"),
        too_many_open("max_open", 11, 10),
        uneven_streams(1, {"shown": 2, "clicks": 3}, []),
        too_many_invalid(LimitExceeded(51, 1_000, "5 %"), "events[0] offset 7"),
        RefusedStateError("text", where="state", problem="it has", owner=("group", "g1", "g2")),
    ]
    assert [status_of(error) for error in decided] == [2] * len(decided)
    assert status_of(SourceError("kafka", "no answer", "check the broker")) == 1
    assert status_of(uncountable([("events[0]", 14, 14)], KeyError("x"))) == 1
    assert status_of(unsaved_error({"events[0]": True}, "no space left")) == 1


def test_the_table_has_every_metric_with_its_summary() -> None:
    output = run("metrics").stdout
    for definition in catalogue().values():
        assert definition.name in output
        assert definition.summary in output


def test_one_metric_is_documented_in_full() -> None:
    done = run("metrics", "ndcg@10")
    definition = catalogue()["ndcg"]
    assert done.returncode == 0
    for part in (definition.documentation, definition.source, "0 to 1", "gain = linear", "exp2"):
        assert part in done.stdout


def test_json_has_every_metric_with_its_parameters() -> None:
    metrics = {metric["name"]: metric for metric in from_json("metrics")}
    assert list(metrics) == list(catalogue())
    assert metrics["ndcg"]["parameters"]["gain"] == {
        "default": "linear",
        "choices": ["linear", "exp2", "binary"],
    }
    assert (metrics["dcg"]["bounds"], metrics["novelty"]["bounds"]) == ([0, None], [None, None])
    assert metrics["novelty"]["needs"] == ["popularity"]
    assert from_json("metrics", "ctr") == metrics["ctr"]


def test_a_metric_is_explained_under_its_convention() -> None:
    output = run("metrics", "recbole:gauc").stdout
    for part in ("as in RecBole 0.2.1, recbole:gauc means:", "single = true", "reads:", "memory:"):
        assert part in output
    assert "recbole:gauc" in run("metrics", "gauc").stdout
    assert "also called: group_auc" in run("metrics", "gauc").stdout


def test_a_shared_parameter_is_described_with_its_metric() -> None:
    (by,) = (line for line in run("metrics", "gini").stdout.splitlines() if "by = " in line)
    assert by == (
        "  by = item (an attribute of items): the attribute whose values are counted instead of "
        "items"
    )
    assert "per = list (list, user): whether it is a mean" in run("metrics", "ndcg").stdout


def test_a_spelling_of_the_system_leads_to_the_same_page() -> None:
    assert run("metrics", "replay:HitRate@10").stdout == run("metrics", "replay:hit_rate@10").stdout


_COMPLETE = """
eval "$(streameval --show-completion bash)"
COMP_WORDS=({words} "{begun}")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_streameval_completion streameval
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        ("streameval", "eva", ["evaluate"]),
        ("streameval state", "sh", ["show"]),
        ("streameval compare", "--met", ["--metric", "--method"]),
        ("streameval evaluate --format", "h", ["html"]),
    ],
)
def test_a_shell_completes_commands_options_and_choices(
    words: str, begun: str, offered: list[str]
) -> None:
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", _COMPLETE.format(words=words, begun=begun)],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.splitlines(), done.stderr) == (offered, "")
