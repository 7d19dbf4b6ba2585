"""On Windows, files are evaluated; what needs more says so in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from streameval.evaluation.shell.exits import USAGE_ERROR
from tests.house.checkout import ROOT
from tests.house.extras import HIDE
from tests.processes import finished

# What Python lacks on Windows, as far as anything here might ask for it.
_MODULES = ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"]
_WINDOWS = """
import os, signal
for name in Absent.names:
    sys.modules.pop(name, None)
for module, names in {
    os: ("O_DIRECTORY", "fchmod", "fchown", "fork", "getuid", "killpg", "register_at_fork"),
    signal: ("SIGHUP", "SIGKILL", "SIGUSR1"),
}.items():
    for name in names:
        delattr(module, name)
"""
_COMMAND = "import streameval_start; streameval_start.main()"


def _on_windows(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return finished(
        [sys.executable, "-c", HIDE + _WINDOWS + code, json.dumps(_MODULES), *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_python_and_the_command_evaluate(tmp_path: Path) -> None:
    events = tmp_path / "events.ndjson"
    events.write_text('{"recommendations": ["a", "b"], "interactions": ["b"]}\n', encoding="utf-8")
    python = """
import streameval.asgi, streameval.plot, streameval.prometheus, streameval.testing
found = streameval.evaluate([["a", "b"]], [["b"]], "mrr")
print(found["mrr"].value)
"""
    done = _on_windows(python)
    assert (done.returncode, done.stdout) == (0, "0.5\n"), done.stderr
    done = _on_windows(_COMMAND, "evaluate", events, "-m", "mrr", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("mrr,0.5,")


def test_the_daemon_says_what_it_needs() -> None:
    done = _on_windows(_COMMAND, "run", "deploy/config/simulator.toml")
    assert (done.returncode, done.stdout) == (USAGE_ERROR, "")
    assert done.stderr.startswith("streameval: the daemon needs Linux or macOS (no module ")
    assert done.stderr.count("\n") == 1
