"""A real Prometheus, started for one test and stopped after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.effort import PATIENCE
from tests.ports import WEB, free_port

_CONFIGURATION = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs:
  - job_name: streameval
    static_configs: [{{targets: ["{target}"]}}]
"""


def program(name: str) -> str:
    """Where a program is: as the variable of its name says, or on the PATH."""
    path = shutil.which(os.environ.get(name.upper(), name))
    if path is None:
        pytest.skip(f"there is no {name}: install the system's package `prometheus`")
    return path


class Prometheus:
    """What a test asks of it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def value(self, query: str) -> float | None:
        try:
            answer = WEB.get(f"{self._address}/api/v1/query", params={"query": query})
        except httpx.TransportError:
            return None
        return _only(answer.json()) if answer.status_code == httpx.codes.OK else None

    def data(self, path: str, **asked: str) -> Any:
        """What an address of the API answers; raises where it refuses."""
        address = f"{self._address}/api/v1/{path}"
        answer = WEB.get(address, params=asked)
        assert answer.status_code == httpx.codes.OK, f"{asked}: {answer.text}"
        return answer.json()["data"]

    def settled(self, query: str, expected: float) -> float | None:
        """The value once it is within a millionth of the expected one, or the last one seen."""
        end = time.monotonic() + PATIENCE
        value_now = self.value(query)
        # 0 / 0 is NaN, which is near to nothing.
        while time.monotonic() < end and not (
            value_now is not None and abs(value_now - expected) <= 1e-6
        ):
            time.sleep(0.2)
            value_now = self.value(query)
        return value_now


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """A server that scrapes the target four times a second."""
    with running(folder, _CONFIGURATION.format(target=target)) as server:
        yield server


@contextmanager
def running(folder: Path, configuration: str) -> Iterator[Prometheus]:
    """A server with its configuration and its data in the folder, those that are there included."""
    path = folder / "prometheus.yml"
    path.write_text(configuration, encoding="utf-8")
    listen = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={listen}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://{listen}")
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _only(answer: dict[str, Any]) -> float | None:
    results = answer["data"]["result"]
    return float(results[0]["value"][1]) if results else None
