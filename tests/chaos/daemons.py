"""Configurations of daemons, daemons as separate processes, and their last counters."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import httpx
import msgspec

from streameval.checkpoints.store import Store, store_of
from tests.effort import PATIENCE
from tests.exposition import samples_of
from tests.ports import WEB
from tests.processes import start
from tests.stores import s3

_TEXT = """
metrics = ["ndcg@10", "recall@5", "mrr", "ctr@10", "item_coverage@10"]
labels = ["variant"]
segments = ["country"]
catalog = 200
dedup = "10m"
max_ahead = "9999d"

[event]
time = "ts"
time_unit = "s"
event_id = "id"

[windows]
spans = {spans}
pane = "1m"

[source]
type = "kafka"
topics = ["{topic}"]
group = "{group}"
{member}

[source.kafka]
client = "{client}"
bootstrap_servers = "{broker}"
session_timeout_ms = {session}
heartbeat_interval_ms = 300
{kafka}

[state]
path = "{store}"
{connection}
interval = "{interval}"
{policies}

[dead_letters]
max_ratio = 0.5

[web]
listen = "127.0.0.1:0"
first_exposure = "0s"
"""


class DaemonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The variable parts of a daemon's configuration.

    Attributes:
        proxy: address of a proxy before the broker that the daemons use, or None.
        folder: of the configuration, and of the store unless it is in a bucket.
        bucket: URL of the store's prefix; empty: the store is in the folder.
        endpoint: of the S3 server; None: the server without a proxy.
        member: name of a static member; None for a dynamic one.
        session: session timeout in milliseconds.
        interval: least time between checkpoints.
        policies: further lines of [state].
        kafka: further lines of [source.kafka].
    """

    address: str
    topic: str
    folder: Path
    bucket: str = ""
    endpoint: str | None = None
    proxy: str | None = None
    group: str = "chaos"
    member: str | None = None
    client: str = "kafka-python"
    session: int = 3_000
    interval: str = "1s"
    spans: str = '["5m", "1h", "24h"]'
    policies: str = ""
    kafka: str = ""

    @property
    def path(self) -> str:
        """The folder of checkpoints, or the URL of a prefix in a bucket."""
        return self.bucket or str(self.folder / "state")

    @property
    def store(self) -> Store:
        return store_of(self.path, s3.options()) if self.bucket else store_of(self.path)

    def written(self) -> Path:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["store"] = self.path
        values["connection"] = self._connection()
        values["broker"] = self.proxy or self.address
        values["member"] = f'member = "{self.member}"' if self.member else ""
        path = self.folder / f"{self.member or 'dynamic'}.toml"
        # Several daemons share the file, so another one may be reading it.
        fresh = path.with_suffix(".new")
        fresh.write_text(_TEXT.format(**values))
        return fresh.replace(path)

    def _connection(self) -> str:
        if not self.bucket:
            return ""
        options = s3.options(self.endpoint, timeout=5.0)
        return (
            f'endpoint = "{options.endpoint}"\nregion = "{options.region}"\n'
            f'allow_http = true\ntimeout = "{options.timeout:.0f}s"'
        )


_ROOT = Path(__file__).parents[2]
_PAUSE = 0.2
"""Seconds between scrapes; parsing one costs more CPU than the daemon itself."""

_OFFSET = re.compile(
    r'^streameval_checkpoint_offset\{.*?partition="(\d+)".*?\} (\S+)$', re.MULTILINE
)
_FAILURES = re.compile(r"^streameval_checkpoint_failures_total\{.*\} (\S+)$", re.MULTILINE)


class Daemon:
    """One process of `streameval run`, which leaves a last scrape unless it is killed.

    For its faults, see `tests.chaos.faulty_daemon`; `path` is that of its log.
    """

    def __init__(self, config: DaemonConfig, fault: str = "") -> None:
        self.path = config.folder / f"daemon-{len(list(config.folder.glob('*.log'))):03}.log"
        self._address = self._body = ""
        with self.path.open("wb") as log, Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno(), nothing.fileno(), log.fileno()]
            called = ("tests.chaos.faulty_daemon", fault, str(config.written()))
            self.process = start(*called, streams=streams, folder=_ROOT)
        self._last_scrape = config.folder / f"last-scrape-{self.process.pid}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return self.path.read_text(errors="replace")

    def logged(self, sentence: str) -> int:
        """How often the log has this message or event."""
        log = self.log
        return log.count(sentence) + log.count(f"event={sentence.replace(' ', '_')} ")

    def wait_for(self, condition: Callable[[], object], *, alive: bool = True) -> None:
        """Wait for a condition; ChildProcessError if the process exits before."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if alive and not self.running:
                raise ChildProcessError(f"{self.path.name} ended: {self._end()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.path.name} ran for {PATIENCE:g} s: {self._end()}")
            time.sleep(_PAUSE)

    def ready(self) -> bool:
        """Whether the daemon is ready: it has its partitions, if any."""
        return self._get("/-/ready") is not None

    @property
    def shown(self) -> dict[str, float]:
        """The counters of its last scrape, by sample."""
        return counters(samples(self._body))

    def offsets(self) -> dict[int, int]:
        if not self.scrape():
            return {}
        return {int(number): int(float(value)) for number, value in _OFFSET.findall(self._body)}

    def scrape(self) -> bool:
        body = self._get("/metrics")
        self._body = self._body if body is None else body
        return body is not None

    def failures(self) -> float:
        self.scrape()
        return sum(map(float, _FAILURES.findall(self._body)))

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        self.scrape()
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def wait_for_exit(self) -> int:
        """Wait until the process exits by itself, and return its status."""
        self.wait_for(lambda: not self.running, alive=False)
        return self._ended()

    def _ended(self) -> int:
        status = self.process.wait(PATIENCE)
        if self._last_scrape.exists():
            self._body = self._last_scrape.read_text()
        return status

    def _end(self) -> str:
        return " | ".join(self.log.splitlines()[-5:])

    def _get(self, path: str) -> str | None:
        if not self.running:
            return None
        if not self._address:
            match = re.search(r'event=started .*?address="?(http://[^\s"]+)', self.log)
            if match is None:
                return None
            self._address = match[1]
        try:
            answer = WEB.get(f"{self._address}{path}", timeout=5.0)
        except httpx.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None


def samples(body: str) -> dict[str, float]:
    return {f"{name}{sorted(labels)}": value for (name, labels), value in samples_of(body).items()}


def counters(samples: Mapping[str, float]) -> dict[str, float]:
    """The samples that count evidence."""
    return {
        name: value
        for name, value in samples.items()
        if name.split("[", 1)[0].endswith(("_sum", "_count"))
    }
