"""The lowest versions that pyproject.toml allows are versions that work."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tests.house.checkout import ROOT

_EXTRAS: Final = "daemon,fast,objectstore,otlp,schemas,tables"
_TOOLS: Final = (
    *(
        "cryptography",
        "jsonschema",
        "flask",
        "flask-cors",
        "httpx",
        "hypothesis",
        "moto",
        "pandas",
        "polars",
    ),
    *("psutil", "pytest", "pytest-randomly", "pytest-timeout", "pytest-xdist", "playwright"),
)
"""What tests need besides the project, in the versions that are installed here."""

_TESTS: Final = (
    *("tests/columnar", "tests/contract/test_law.py", "tests/decoding", "tests/engine"),
    *("tests/exporters", "tests/statistics", "tests/stores"),
)


@pytest.mark.nightly
def test_the_lowest_versions_pass_the_tests_of_what_uses_them(tmp_path: Path) -> None:
    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "VIRTUAL_ENV": str(tmp_path)}
        return subprocess.run(
            [*map(str, command)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    python = tmp_path / "bin" / "python"
    assert run(sys.executable, "-m", "venv", tmp_path).returncode == 0
    assert run(python, "-m", "pip", "install", "--quiet", "uv").returncode == 0
    tools = [f"{name}=={version(name)}" for name in _TOOLS]
    lowest = ("uv", "pip", "install", "--resolution", "lowest-direct", "--quiet")
    installed = run(python, "-m", *lowest, f".[{_EXTRAS}]", *tools)
    assert installed.returncode == 0, installed.stderr
    done = run(python, "-m", "pytest", "-q", "-W", "ignore::DeprecationWarning", *_TESTS)
    assert done.returncode == 0, done.stdout[-4_000:]
