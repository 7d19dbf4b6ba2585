"""The import contracts bite: each kind of forbidden import breaks its contract."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.house.checkout import PACKAGE, ROOT
from tests.processes import finished

FORBIDDEN = {
    "engine/snapshot.py": ("analyses.gaps.analysis", "The core knows no analysis"),
    "analyses/gaps/command.py": ("analyses.changes.words", "An analysis never imports an analysis"),
    "analyses/gaps/words.py": ("analyses.gaps.analysis", "Imports of gaps run downward"),
    "analyses/experiments/course.py": (
        "analyses.experiments.page",
        "Imports of experiments run downward",
    ),
    "events/ids.py": ("config.tables", "Imports run downward"),
    "metrics/hits.py": ("metrics.recall", "A metric never imports a metric"),
}
"""File -> a module that it must not import, and the contract that says so."""


def test_a_forbidden_import_breaks_its_contract(tmp_path: Path) -> None:
    copy = tmp_path / "streameval"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, (module, _) in FORBIDDEN.items():
        path = copy / name
        path.write_text(f"{path.read_text(encoding='utf-8')}\nimport streameval.{module}\n")
    done = finished(
        ["lint-imports", "--no-cache"], cwd=tmp_path, env={**os.environ, "COLUMNS": "200"}
    )
    assert done.returncode == 1
    imports = set(re.findall(r"(streameval[\w.]+) -> (streameval[\w.]+) \(l\.\d+\)", done.stdout))
    for name, (module, contract) in FORBIDDEN.items():
        importer = f"streameval.{name.removesuffix('.py').replace('/', '.')}"
        assert (importer, f"streameval.{module}") in imports
        assert re.search(rf"^{contract} BROKEN", done.stdout, re.MULTILINE)
