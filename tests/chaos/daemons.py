"""Daemons as processes of their own, and the counters that they showed before they died."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.configuration import Setting
from tests.effort import PATIENCE
from tests.ports import WEB
from tests.warm import started

_ROOT = Path(__file__).parents[2]
_PAUSE = 0.2
"""Seconds between looks at a daemon; parsing what it shows costs more than the daemon itself."""

_OFFSET = re.compile(
    r'^streameval_checkpoint_offset\{.*?partition="(\d+)".*?\} (\S+)$', re.MULTILINE
)
_FAILURES = re.compile(r"^streameval_checkpoint_failures_total\{.*\} (\S+)$", re.MULTILINE)


class Daemon:
    """One process of `streameval run`, which leaves its last words unless it is killed.

    Args:
        setting: what it reads and where it keeps its state.
        trick: what is wrong with it, see `tests.chaos.victim`; by default nothing.

    Attributes:
        path: of its log.
    """

    def __init__(self, setting: Setting, trick: str = "") -> None:
        self.path = setting.folder / f"daemon-{len(list(setting.folder.glob('*.log'))):03}.log"
        self._address = self._body = ""
        with self.path.open("wb") as log, Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno(), nothing.fileno(), log.fileno()]
            called = ("tests.chaos.victim", trick, str(setting.written()))
            self.process = started(*called, streams=streams, folder=_ROOT)
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

    def said(self, sentence: str) -> int:
        """How often it said so; events are logged as one word."""
        log = self.log
        return log.count(sentence) + log.count(f"event={sentence.replace(' ', '_')} ")

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
            time.sleep(_PAUSE)

    def ready(self) -> bool:
        """Whether it has its partitions, or knows that it has none."""
        return self._get("/-/ready") is not None

    @property
    def shown(self) -> dict[str, float]:
        """The counters of its last scrape, by sample."""
        return counters(samples(self._body))

    def offsets(self) -> dict[int, int]:
        """What its checkpoints cover, by number of the partition."""
        if not self.scrape():
            return {}
        return {int(number): int(float(value)) for number, value in _OFFSET.findall(self._body)}

    def scrape(self) -> bool:
        """Look at /metrics; whether it answers."""
        body = self._get("/metrics")
        self._body = self._body if body is None else body
        return body is not None

    def failures(self) -> float:
        """Checkpoints that failed."""
        self.scrape()
        return sum(map(float, _FAILURES.findall(self._body)))

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
            self._body = self._words.read_text()
        return status

    def _end(self) -> str:
        return " | ".join(self.log.splitlines()[-5:])

    def _get(self, path: str) -> str | None:
        if not self.running:
            return None
        if not self._address:
            found = re.search(r'event=started .*?address="?(http://[^\s"]+)', self.log)
            if found is None:
                return None
            self._address = found[1]
        try:
            answer = WEB.get(f"{self._address}{path}", timeout=5.0)
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
