"""What importing the sources costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = {"kafka", "zstandard", "uvicorn", "starlette", "rich", "typer"}


_USES = {
    "pass": _HEAVY,
    "SimulatorOptions().build({})": {"kafka"},
    "FilesOptions(paths=['x']).build({})": {"kafka"},
}


@pytest.mark.parametrize("use", _USES)
def test_only_a_kafka_source_imports_the_kafka_client(use: str) -> None:
    script = f"import sys\nfrom streameval.sources.options import *\n{use}\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert not _USES[use] & set(found.stdout.decode().split())
