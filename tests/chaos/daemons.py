"""Daemons as processes of their own, and the counters that they showed before they died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.configuration import Setting

PATIENCE = 90.0
"""Seconds after which waiting for a daemon counts as hanging."""


class Daemon:
    """One process of `streameval run`.

    Args:
        setting: what it reads and where it keeps its state.
        point: where to die, see `tests.chaos.victim`; None lets it live.

    Attributes:
        log: lines of its standard error.
        shown: the counters of its last scrape, by sample.
    """

    def __init__(self, setting: Setting, point: str | None = None) -> None:
        program = ["streameval", "run"] if point is None else ["tests.chaos.victim", point]
        self.log: list[str] = []
        self.shown: dict[str, float] = {}
        self._address = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", *program, str(setting.written())],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def until(self, condition: Callable[[], object], *, alive: bool = True) -> None:
        """Wait for something, as long as the process lives.

        Raises:
            TimeoutError: it does not come.
            ChildProcessError: the process ended, and should not have.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if alive and not self.running:
                raise ChildProcessError("\n".join(["the daemon ended:", *self.log[-20:]]))
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join([f"awaited for {PATIENCE} s:", *self.log[-20:]]))
            time.sleep(0.02)

    def ready(self) -> bool:
        """Whether it has its partitions, or knows that it has none."""
        return self._get("/-/ready") is not None

    def lag(self) -> float | None:
        """Records that it has not read yet, of all its partitions; None where it does not say."""
        lag = "streameval_kafka_consumer_lag"
        lags = [value for name, value in self.scrape().items() if name.startswith(lag)]
        return sum(lags) if lags else None

    def scrape(self) -> dict[str, float]:
        """What /metrics says, by sample; nothing where it does not answer."""
        body = self._get("/metrics")
        if body is None:
            return {}
        samples = {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }
        self.shown = {name: value for name, value in samples.items() if _counts(name)}
        return samples

    def failures(self) -> float:
        """Checkpoints that failed."""
        return self.scrape().get("streameval_checkpoint_failures_total[]", 0.0)

    def kill(self) -> None:
        """End it at once, after a last look at its counters."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.scrape()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def _get(self, path: str) -> str | None:
        if not self._address:
            started = [line for line in list(self.log) if "event=started" in line]
            found = re.search(r'address="?(http://[^\s"]+)', started[0]) if started else None
            if found is None:
                return None
            self._address = found[1]
        try:
            answer = httpx.get(f"{self._address}{path}", timeout=PATIENCE)
        except httpx.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(line.rstrip() for line in self.process.stderr)


def _counts(sample: str) -> bool:
    return sample.split("[", 1)[0].endswith(("_sum", "_count"))
