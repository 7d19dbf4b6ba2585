"""Daemons as processes of their own, and the counters that they showed before they died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.configuration import Setting

PATIENCE = 120.0
"""Seconds after which waiting for a daemon counts as hanging."""

_ROOT = Path(__file__).parents[2]
_OFFSET = re.compile(r"streameval_checkpoint_offset\[\('partition', '(\d+)'\)")


class Daemon:
    """One process of `streameval run`.

    Args:
        setting: what it reads and where it keeps its state.
        trick: what is wrong with it, see `tests.chaos.victim`; by default nothing.

    Attributes:
        shown: the counters of its last scrape, by sample.
        path: of its log.
    """

    def __init__(self, setting: Setting, trick: str = "") -> None:
        program = ["tests.chaos.victim", trick] if trick else ["streameval", "run"]
        self.shown: Mapping[str, float] = {}
        self.path = setting.folder / f"daemon-{len(list(setting.folder.glob('*.log'))):03}.log"
        self._address = ""
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program, str(setting.written())],
                stderr=log,
                cwd=_ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._words = setting.folder / f"words-{self.process.pid}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """What it wrote to standard error."""
        return self.path.read_text(errors="replace")

    def until(self, condition: Callable[[], object], *, alive: bool = True) -> None:
        """Wait for something, as long as the process lives.

        Raises:
            TimeoutError: it does not come.
            ChildProcessError: the process ended, and should not have.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if alive and not self.running:
                raise ChildProcessError(f"{self.path.name} ended: {self._end()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.path.name} went on for {PATIENCE:g} s: {self._end()}")
            time.sleep(0.05)

    def ready(self) -> bool:
        """Whether it has its partitions, or knows that it has none."""
        return self._get("/-/ready") is not None

    def offsets(self) -> dict[int, int]:
        """What its checkpoints cover, by number of the partition."""
        found = ((_OFFSET.match(name), value) for name, value in self.scrape().items())
        return {int(match[1]): int(value) for match, value in found if match is not None}

    def scrape(self) -> Mapping[str, float]:
        """What /metrics says, by sample; nothing where it does not answer."""
        body = self._get("/metrics")
        if body is None:
            return {}
        found = samples(body)
        self.shown = counters(found)
        return found

    def failures(self) -> float:
        """Checkpoints that failed."""
        return self.scrape().get("streameval_checkpoint_failures_total[]", 0.0)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.scrape()
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def refused(self) -> int:
        """Wait for it to end by itself; its exit status.

        Raises:
            TimeoutError: it does not.
        """
        self.until(lambda: not self.running, alive=False)
        return self._ended()

    def _ended(self) -> int:
        status = self.process.wait(PATIENCE)
        if self._words.exists():
            self.shown = counters(samples(self._words.read_text()))
        return status

    def _end(self) -> str:
        return " | ".join(self.log.splitlines()[-5:])

    def _get(self, path: str) -> str | None:
        if not self._address:
            found = re.search(r'event=started .*?address="?(http://[^\s"]+)', self.log)
            if found is None:
                return None
            self._address = found[1]
        try:
            answer = httpx.get(f"{self._address}{path}", timeout=5.0)
        except httpx.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None


def samples(body: str) -> dict[str, float]:
    """An exposition as sample -> value."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def counters(samples: Mapping[str, float]) -> dict[str, float]:
    """Those of them that count evidence."""
    return {
        name: value
        for name, value in samples.items()
        if name.split("[", 1)[0].endswith(("_sum", "_count"))
    }
