"""Imports of the sources."""

from __future__ import annotations

import subprocess
import sys

_HEAVY = {"kafka", "zstandard", "uvicorn", "starlette", "rich", "typer"}
_SCRIPT = """
import sys
from streameval.sources.options import *
print(*sys.modules)
SimulatorOptions().build({}), FilesOptions(paths=['x']).build({})
print(*sys.modules)
"""


def test_only_a_kafka_source_imports_the_kafka_client() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, check=True)
    options, built = (set(line.split()) for line in done.stdout.decode().splitlines())
    assert not _HEAVY & options
    assert "kafka" not in built
