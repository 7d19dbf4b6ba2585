"""The program itself, as a process; and the data beside the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 120
"""Seconds after which a process counts as hanging."""

_DATASETS = Path(__file__).resolve().parents[3] / "shared" / "datasets"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "streameval", *map(str, arguments)]


def ran(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """The program, run to its end."""
    done = subprocess.run(
        command(*arguments), input=stdin, capture_output=True, timeout=PATIENCE, check=False
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def dataset(name: str) -> Path:
    """The folder of a data set; skips where it is not beside the repository."""
    if not (_DATASETS / name).is_dir():
        pytest.skip(f"the data set {name} is not beside the repository")
    return _DATASETS / name
