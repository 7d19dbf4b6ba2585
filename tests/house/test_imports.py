"""Imports run downward (`lint-imports` of tests/run; here that it bites); the core is light."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.house.checkout import ROOT

# msgspec looks for typing_extensions itself, and does without where there is none.
ALLOWED = {"numpy", "msgspec", "streameval", "typing_extensions"}
_WHICH = """
import json, sys
before = set(sys.modules)
import streameval
streameval.Accumulator
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(new - set(sys.stdlib_module_names))))
"""


def _lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [*command, "--no-cache", "--no-logo"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "streameval", tmp_path / "streameval", ignore=ignored)
    return tmp_path


def test_an_import_that_runs_upward_is_seen(tmp_path: Path) -> None:
    broken = _copy(tmp_path) / "streameval" / "events" / "event.py"
    with broken.open("a", encoding="utf-8") as file:
        file.write("\nimport streameval.accumulator\n")
    result = _lint_imports(tmp_path)
    assert result.returncode != 0
    assert "streameval.events is not allowed to import streameval.accumulator" in result.stdout


def test_a_metric_that_imports_a_metric_is_seen(tmp_path: Path) -> None:
    broken = _copy(tmp_path) / "streameval" / "metrics" / "mrr.py"
    with broken.open("a", encoding="utf-8") as file:
        file.write("\nimport streameval.metrics.ndcg\n")
    result = _lint_imports(tmp_path)
    assert result.returncode != 0
    assert "streameval.metrics.mrr" in result.stdout


def test_importing_the_package_brings_numpy_and_msgspec_only() -> None:
    command = [sys.executable, "-I", "-c", _WHICH]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(json.loads(result.stdout)) <= ALLOWED
