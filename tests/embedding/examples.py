"""Runs the examples of the documentation like a user."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import httpx

from tests.effort import PATIENCE
from tests.embedding.lists import samples
from tests.house.checkout import ROOT
from tests.ports import WEB

EXAMPLES = ROOT / "docs" / "examples"
_AT_ONCE = {"FIRST_EXPOSURE": "0"}


def imported(name: str) -> ModuleType:
    """An example as a module, anew."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with patch.dict(os.environ, _AT_ONCE):
        spec.loader.exec_module(module)
    return module


@contextmanager
def started(name: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An example that runs by itself; ended with SIGTERM where it has not ended by then."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    pipe, env = subprocess.PIPE, os.environ | _AT_ONCE
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def awaited(port: int, sample: str, expected: float) -> dict[str, float]:
    """Every sample once one of them is as expected, or as they last were."""
    end, found = time.monotonic() + PATIENCE, dict[str, float]()
    while time.monotonic() < end and found.get(sample) != expected:
        try:
            answer = WEB.get(f"http://127.0.0.1:{port}/metrics")
            found = samples(answer.text)
        except httpx.TransportError:
            time.sleep(0.05)
    return found
