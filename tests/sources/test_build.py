"""What importing the sources costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = {"kafka", "zstandard", "uvicorn", "starlette", "rich", "typer"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [("streameval.sources.options", _HEAVY), ("streameval.sources.build", _HEAVY & {"kafka"})],
)
def test_only_a_kafka_source_imports_the_kafka_client(module: str, unwanted: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert not unwanted & set(found.stdout.decode().split())
