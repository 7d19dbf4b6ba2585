"""Runs the real daemon as a process, and queries it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx

from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.exposition import Samples, named, samples_of
from tests.ports import WEB
from tests.processes import RunningProgram, start

_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.3
"""Seconds between polls of a daemon; each poll costs about 20 ms on both sides."""


def kafka_source(
    broker: Broker, *topics: str, kafka: Mapping[str, object] | None = None, **settings: str
) -> str:
    """The last tables of a configuration: these topics, read by a group."""
    source = {"type": "kafka", "topics": topics, "group": topics[0]} | settings
    client = {"bootstrap_servers": broker.bootstrap_servers} | dict(kafka or {})
    return _table("source", source) + _table("source.kafka", client)


def _table(name: str, keys: Mapping[str, object]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(keys[key])}\n" for key in keys)


class Running:
    """A running daemon, its log, and its HTTP responses."""

    def __init__(self, process: RunningProgram | subprocess.Popen[str], log: IO[str]) -> None:
        self.process = process
        self._log = log
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = ""

    def _read(self) -> None:
        self.log.extend(iter(self._log.readline, ""))

    def logged(self, event: str) -> list[str]:
        """Log lines of an event."""
        return [line for line in list(self.log) if f" event={event} " in f"{line.strip()} "]

    def until(self, condition: Callable[[], object]) -> Any:
        """The value of a condition, once it is true."""
        deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
        while time.monotonic() < deadline:
            outcome = condition()
            if outcome:
                return outcome
            assert self.process.poll() is None, self.log
            time.sleep(pause)
            pause = min(_LAST_PAUSE, 1.5 * pause)
        message = f"awaited for {PATIENCE} s; {self.log}"
        raise TimeoutError(message)

    def get(self, path: str) -> httpx.Response:
        return WEB.get(f"{self.address}{path}")

    def sum_of(self, name: str) -> float:
        """The sum of the samples of ours in /metrics with this name."""
        return sum(named(self.samples(), name).values())

    def samples(self) -> Samples:
        """The samples in /metrics."""
        return samples_of(self.get("/metrics").text)

    def document(self) -> dict[str, Any]:
        """The document at /api/v1/metrics; empty before the first snapshot."""
        answer = self.get("/api/v1/metrics")
        document: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return document

    def consumed(self, count: int) -> dict[str, Any]:
        """The document, once this many records have been read."""

        def enough() -> dict[str, Any]:
            shown = self.document()
            return shown if shown and shown["health"]["consumed"] >= count else {}

        document: dict[str, Any] = self.until(enough)
        return document

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; returns the exit status."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)


@contextmanager
def running(
    config: Path | str, folder: Path, *options: str, command: str = "run", **environment: str
) -> Iterator[Running]:
    """A daemon with this configuration, listening; killed in the end if it still runs.

    Args:
        config: the file, or its content.
        folder: where the content is written.
        options: of the command.
        command: `run` or `serve`.
        environment: in addition to none at all.
    """
    if isinstance(config, str):
        (folder / "streameval.toml").write_text(config)
        config = folder / "streameval.toml"
    process, log = _start(command, str(config), *options, environment=environment)
    with log:
        daemon = Running(process, log)
        try:
            daemon.until(lambda: daemon.logged("started"))
            match = re.search(r'address=\S*?(https?://[^\s"\\]+)', daemon.logged("started")[0])
            assert match is not None
            daemon.address = match[1]
            yield daemon
        finally:
            daemon.end()


def _start(
    *arguments: str, environment: dict[str, str]
) -> tuple[RunningProgram | subprocess.Popen[str], IO[str]]:
    if "PYTHONPATH" in environment:
        # Python reads it when it starts, so this process is no copy of another.
        new = subprocess.Popen(
            [sys.executable, "-m", "streameval", *arguments],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert new.stderr is not None
        return new, new.stderr
    read, write = os.pipe()
    try:
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno(), nothing.fileno(), write]
            process = start("streameval", *arguments, streams=streams, environment=environment)
    finally:
        os.close(write)
    return process, os.fdopen(read, encoding="utf-8")


def readings(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The readings in the document that `streameval evaluate` also has."""
    keys = ("metric", "labels", "value", "count")
    return [{name: reading[name] for name in keys} for reading in document["metrics"]]


def exact(readings_: list[dict[str, Any]]) -> str:
    """As text that is different for different doubles."""
    return json.dumps(readings_, sort_keys=True)
