"""Memory and CPU of a daemon process, for docs/explanation/sizing.md."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil

from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulator import records
from streameval.sources.topics import Destination, publish_records
from streameval.testing.broker import Broker
from tests.ports import free_port

DAY = 100_000
"""Records that fill the windows of a day."""
BUSY = 700_000
"""Records after it, at 1,000 per second of event time, which fill the memory of `dedup`."""
LIVE = 500
SECONDS = 20
TOPIC = "recommendation-events"
BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "streameval.toml"
CASES = {
    "as it is": "",
    "with intervals": "intervals = {}\n",
    "with dedup": 'dedup = "10m"\n',
    "with dedup and a segment": 'dedup = "10m"\nsegments = ["country"]\n',
}


def main() -> None:
    """Print the cost of each configuration for a backlog and for live traffic."""
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        kafka = {"bootstrap_servers": broker.bootstrap_servers}
        publish_records(_backlog(), Destination(topic=TOPIC, kafka=kafka, partitions=4), {})
        print(f"{DAY + BUSY:,} records over a day, 4 partitions; then {LIVE} a second")
        for number, (name, more) in enumerate(CASES.items()):
            state = Path(folder) / str(number)
            state.mkdir()
            config = _written(state, more, broker.bootstrap_servers, f"sizing-{number}")
            _measure(name, config, broker.bootstrap_servers)


def _backlog() -> Iterator[bytes]:
    """Simulated records of the last day."""
    begin = datetime.now(UTC) - timedelta(hours=24, seconds=BUSY / 1_000)
    for number, record in enumerate(records(SimulatorOptions(events=DAY + BUSY))):
        day = timedelta(hours=24) * min(number / DAY, 1)
        moment = begin + day + timedelta(milliseconds=max(0, number - DAY))
        event = json.loads(record) | {"ts": moment.isoformat(), "event_id": f"e-{number:020}"}
        yield json.dumps(event).encode()


def _written(folder: Path, more: str, servers: str, group: str) -> Path:
    """Write the pods' configuration for this broker, without passwords."""
    text = BASE.read_text(encoding="utf-8")
    retained = [
        line for line in text.splitlines() if not line.startswith(("sasl_", "ssl_", "secur"))
    ]
    text = "\n".join(retained).replace(
        'group = "streameval"', f'group = "{group}"\nstart = "earliest"'
    )
    text = text.replace("events-kafka-bootstrap.kafka.svc:9093", servers)
    text = text.replace("/var/lib/streameval/state", str(folder / "state"))
    text = text.replace('allowed_hosts = ["*.streameval"]', f'listen = "127.0.0.1:{free_port()}"')
    path = folder / "streameval.toml"
    path.write_text(more + text.replace("${POD_NAME}", group), encoding="utf-8")
    return path


def _measure(name: str, config: Path, servers: str) -> None:
    address = config.read_text(encoding="utf-8").rpartition('listen = "')[2].partition('"')[0]
    most = 0
    with daemon(config) as process:
        while (count := _consumed(address)) < DAY + BUSY:
            time.sleep(0.5)
            most = max(most, process.memory_info().rss)
        rate = count / work(process)
        with _traffic(servers):
            while _consumed(address) < count + LIVE:
                time.sleep(0.5)
            before = work(process)
            time.sleep(SECONDS)
            live = (work(process) - before) / SECONDS
    print(f"{name:>26}: {most / 1e6:4.0f} MB, {rate:7,.0f} records/CPU s, {live:.2f} cores live")


def _consumed(address: str) -> int:
    """The number of records read; 0 before the daemon answers."""
    try:
        answer = httpx.get(f"http://{address}/api/v1/metrics", timeout=60)
    except httpx.TransportError:
        return 0
    return int(answer.json()["health"]["consumed"]) if answer.is_success else 0


def work(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


@contextmanager
def daemon(config: Path) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "streameval", "run", str(config)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


@contextmanager
def _traffic(servers: str) -> Iterator[None]:
    program = [sys.executable, "-m", "streameval"]
    made = [*program, "simulate", "--events-per-second", str(LIVE)]
    sent = [*program, "publish", "-", "--bootstrap-servers", servers, "--topic", TOPIC]
    with (
        subprocess.Popen(made, stdout=subprocess.PIPE) as maker,
        subprocess.Popen(sent, stdin=maker.stdout, stdout=subprocess.DEVNULL) as sender,
    ):
        try:
            yield
        finally:
            maker.terminate()
            sender.terminate()
