"""The import contracts refuse wrong imports, and the core has few dependencies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.effort import every_case
from tests.house.checkout import ROOT

# msgspec imports typing_extensions if it is installed.
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


@every_case(
    ("module", "imported", "said"),
    [
        (
            "events/event.py",
            "streameval.accumulator",
            "streameval.events is not allowed to import streameval.accumulator",
        ),
        ("metrics/mrr.py", "streameval.metrics.ndcg", "streameval.metrics.mrr"),
    ],
)
def test_an_upward_import_or_one_between_metrics_is_refused(
    tmp_path: Path, module: str, imported: str, said: str
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    copy, ignored = tmp_path / "streameval", shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "streameval", copy, ignore=ignored, dirs_exist_ok=True)
    with (copy / module).open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")
    result = _lint_imports(tmp_path)
    assert result.returncode != 0
    assert said in result.stdout


def test_the_package_imports_numpy_and_msgspec_only() -> None:
    command = [sys.executable, "-I", "-c", _WHICH]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(json.loads(result.stdout)) <= ALLOWED
