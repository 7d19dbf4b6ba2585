"""The files of the checkout, for the tests of the house rules."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "streameval"


@cache
def files() -> tuple[Path, ...]:
    """Every tracked or addable file; needs a git checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def texts() -> dict[Path, str]:
    contents = {path.relative_to(ROOT): path.read_bytes() for path in files()}
    return {path: text.decode() for path, text in contents.items() if b"\0" not in text}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))
