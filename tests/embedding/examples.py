"""Runs the examples of the documentation like a user; lists for them, and samples of scrapes."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import httpx
from prometheus_client import CollectorRegistry, generate_latest

from tests.effort import PATIENCE
from tests.exposition import samples_of
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
def start_example(name: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
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
    end, scraped_samples = time.monotonic() + PATIENCE, dict[str, float]()
    while time.monotonic() < end and scraped_samples.get(sample) != expected:
        try:
            answer = WEB.get(f"http://127.0.0.1:{port}/metrics")
            scraped_samples = samples(answer.text)
        except httpx.TransportError:
            time.sleep(0.05)
    return scraped_samples


List = tuple[list[str], set[str]]


def lists(count: int, seed: int = 0) -> Iterator[List]:
    """So many, of ten items with none to three clicks."""
    dice = random.Random(seed)
    for _ in range(count):
        recommended = [f"item-{number}" for number in dice.sample(range(50), 10)]
        yield recommended, set(dice.sample(recommended, dice.randrange(4)))


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample by its name and labels."""
    return samples(generate_latest(registry).decode())


def samples(text: str) -> dict[str, float]:
    """Every sample of an exposition by its name and labels."""
    return {_named(name, dict(labels)): value for (name, labels), value in samples_of(text).items()}


def _named(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name
