"""CPU and memory of replicas in one group, and the effect of a kill, for the page of sizing."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from streameval.sources.options import SimulatorOptions
from streameval.sources.simulator import records
from streameval.sources.topics import Destination, publish_records
from streameval.testing.broker import Broker
from tests.benchmarks.sizing import daemon, work
from tests.ports import free_port

RECORDS = 240_000
"""Records of the log, over a day."""
PARTITIONS = 8
COUNTS = (1, 2, 3)
TOPIC = "recommendation-events"
LIVE, RATE, SECONDS = "live-events", 1_000, 20
"""Records per second, and seconds, of the topic written before a replica is killed."""
CONFIG = """
metrics = ["ctr", "hit_rate@10", "ndcg@10"]
labels = ["variant", "country"]
event = {{ time = "ts", time_unit = "iso8601" }}
windows = {{ spans = ["5m", "1h", "24h"] }}
source = {{ type = "kafka", topics = ["{topic}"], group = "{group}", start = "{start}", \
kafka = {{ bootstrap_servers = "{servers}" }} }}
state = {{ path = "{state}" }}
web = {{ listen = "{address}" }}
"""


def main() -> None:
    """Print CPU and memory of one to three replicas, and the cost of kills and restarts."""
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        kafka = {"bootstrap_servers": broker.bootstrap_servers}
        destination = Destination(topic=TOPIC, kafka=kafka, partitions=PARTITIONS)
        publish_records(_log(RECORDS), destination, {})
        print(f"{RECORDS:,} records of a day, {PARTITIONS} partitions, 3 metrics, 2 labels")
        world = _World(broker.bootstrap_servers, Path(folder))
        began = _began(world)
        print(f"{'a start with nothing to read':>30}: {began.cpu:.1f} s of CPU")
        for count in COUNTS:
            _caught_up(world, count, began.cpu)
        for count in COUNTS[1:]:
            _died(world, count)


def _log(events: int) -> Iterator[bytes]:
    begin = datetime.now(UTC) - timedelta(hours=24)
    for number, record in enumerate(records(SimulatorOptions(events=events))):
        moment = begin + timedelta(hours=24) * (number / events)
        yield json.dumps(json.loads(record) | {"ts": moment.isoformat()}).encode()


class _World(NamedTuple):
    servers: str
    folder: Path


class _Replica(NamedTuple):
    process: psutil.Process
    address: str

    def health(self) -> dict[str, Any]:
        """The state in its API; empty before it answers."""
        try:
            answer = httpx.get(f"http://{self.address}/api/v1/metrics", timeout=60)
        except httpx.TransportError:
            return {}
        health: dict[str, Any] = answer.json()["health"] if answer.is_success else {}
        return health

    def partitions(self) -> list[dict[str, Any]]:
        assigned: list[dict[str, Any]] = self.health().get("partitions", [])
        return assigned

    def consumed(self) -> int:
        return int(self.health().get("consumed", 0))


class _Cost(NamedTuple):
    """Elapsed and CPU seconds."""

    wall: float
    cpu: float


@contextmanager
def _replicas(
    world: _World, group: str, count: int, start: str = "earliest", topic: str = TOPIC
) -> Iterator[list[_Replica]]:
    """Processes of one group that share a folder of state."""
    with ExitStack() as stack:
        started_replicas = []
        for number in range(count):
            address = f"127.0.0.1:{free_port()}"
            path = world.folder / f"{group}-{number}.toml"
            state = world.folder / f"{group}-state"
            given = {"servers": world.servers, "group": group, "state": state, "start": start}
            path.write_text(CONFIG.format(topic=topic, address=address, **given), encoding="utf-8")
            started_replicas.append(_Replica(stack.enter_context(daemon(path)), address))
        yield started_replicas


def _until(condition: Callable[[], object]) -> float:
    begun = time.monotonic()
    while not condition():
        time.sleep(0.2)
    return time.monotonic() - begun


def _have_all(replicas: Sequence[_Replica], lag: int | None = None) -> bool:
    """Whether they own all partitions, each with at most this lag."""
    assigned = [partition for replica in replicas for partition in replica.partitions()]
    near = lag is None or all(
        partition["lag"] is not None and partition["lag"] <= lag for partition in assigned
    )
    return len(assigned) == PARTITIONS and near


def _began(world: _World, group: str = "idle", start: str = "latest") -> _Cost:
    """Cost of a process from its start to the end of the log."""
    with _replicas(world, group, 1, start) as replicas:
        wall = _until(lambda: _have_all(replicas, lag=0))
        return _Cost(wall, work(replicas[0].process))


def _caught_up(world: _World, count: int, start: float) -> None:
    """Several replicas read a fixed log; then one restores all of it."""
    group = f"group-{count}"
    with _replicas(world, group, count) as replicas:
        _until(lambda: _have_all(replicas, lag=0))
        cpu = [work(replica.process) - start for replica in replicas]
        memory = [replica.process.memory_info().rss / 1e6 for replica in replicas]
        shares = [replica.consumed() / RECORDS for replica in replicas]
    label = f"{count} replica{'s' if count > 1 else ''}"
    print(f"{label:>30}: {RECORDS / sum(cpu):,.0f} records per CPU second")
    for figures in zip(cpu, memory, shares, strict=True):
        print("{:>30}  {:.1f} s of CPU, {:.0f} MB, {:.0%} of the records".format("", *figures))
    restored = _began(world, group)
    print(f"{'one restores all its state':>30}: {restored.cpu - start:.1f} s of CPU more")


def _died(world: _World, count: int) -> None:
    """Kill one replica as soon as all have read the topic to its end."""
    topic, written = f"{LIVE}-{count}", RATE * SECONDS
    kafka = {"bootstrap_servers": world.servers}
    live = Destination(topic=topic, kafka=kafka, partitions=PARTITIONS)
    publish_records([], live, {})
    with _replicas(world, f"death-{count}", count, topic=topic) as replicas:
        victim, *others = replicas
        _until(
            lambda: _have_all(replicas, lag=0) and all(replica.partitions() for replica in replicas)
        )
        publish_records(_paced(written), live, {})
        _until(lambda: _read(replicas) == written)
        before = victim.consumed()
        victim.process.kill()
        wall = _until(lambda: _have_all(others))
        _until(lambda: _have_all(others, lag=0))
        again = before + _read(others) - written
    print(f"{f'one of {count} is killed':>30}: the others own its partitions after {wall:.0f} s,")
    print(f"{'':>30}  {again:,} of {before:,} records are read again, {RATE:,} a second in all")


def _paced(events: int) -> Iterator[bytes]:
    begin = time.monotonic()
    for number, record in enumerate(_log(events)):
        time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
        yield record


def _read(replicas: Sequence[_Replica]) -> int:
    return sum(replica.consumed() for replica in replicas)
