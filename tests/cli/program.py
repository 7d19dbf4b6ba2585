"""The program itself, as a process; and the data beside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.warm import started

PATIENCE = 120
"""Seconds after which a process counts as hanging."""

_DATASETS = Path(__file__).resolve().parents[3] / "shared" / "datasets"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "streameval", *map(str, arguments)]


def ran(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, run to its end."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        streams = [given.fileno(), out.fileno(), err.fileno()]
        process = started("streameval", *map(str, arguments), streams=streams)
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
        texts = [os.pread(file.fileno(), 1 << 30, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(arguments, status, *texts)


def dataset(name: str) -> Path:
    """The folder of a data set; skips where it is not beside the repository."""
    if not (_DATASETS / name).is_dir():
        pytest.skip(f"the data set {name} is not beside the repository")
    return _DATASETS / name
