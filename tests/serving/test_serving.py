"""Two real readers and a single daemon beside two replicas: equal to the bit, whatever happens."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from streameval.testing.broker import Broker
from tests.changes.events import events
from tests.cli.program import run
from tests.daemon.running import Running, kafka_source, running
from tests.daemon.test_topics import HASTY, PARTITIONS, owned, read
from tests.kafka.topics import create, fill, filled, removed, send
from tests.stores import s3

CONFIG: Final = """
metrics = ["ctr", "ndcg@3", "distinct_items@2"]
labels = ["variant", "model"]
segments = ["country"]
intervals = {{}}
event = {{ time = "ts", time_unit = "s" }}
changes = {{ label = "variant", rollouts = "model" }}
experiment = {{ label = "variant", control = "a" }}
gap = [{{ by = "country" }}]
windows = {{ spans = ["1h", "24h"] }}
web = {{ listen = "127.0.0.1:0", first_exposure = "0s" }}
[state]
interval = "1s"
{store}
"""
_OF_THE_PROCESS: Final = (
    "build_info",
    "checkpoint_",
    "kafka_consumer_position",
    "ready",
    "snapshot_age_seconds",
    "stored_",
    "web_config_",
)
"""Gauges that are not of the values."""


def bucket(folder: Path) -> dict[str, str]:
    """A bucket of a real S3 server."""
    del folder
    options = s3.options()
    return {
        "path": s3.new_path(),
        "endpoint": str(options.endpoint),
        "region": str(options.region),
    }


def folder_of(folder: Path) -> dict[str, str]:
    return {"path": str(folder / "state")}


Store = Callable[[Path], Mapping[str, str]]


def config_of(store: Mapping[str, str]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in store.items()]
    if "endpoint" in store:
        lines.append("allow_http = true")
    return CONFIG.format(store="\n".join(lines))


def shown(daemon: Running) -> dict[str, Any]:
    """All values of a process, and its verdicts."""
    document = daemon.document()
    keys = ("metrics", "families", "comparison", "experiment", "gaps")
    values = {name: document[name] for name in keys}
    return values | {"changes": daemon.get("/api/v1/changes").json()}


def gauges(daemon: Running) -> dict[str, float]:
    lines = daemon.get("/metrics").text.splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    samples = (line.rpartition(" ") for line in lines if line.startswith("streameval_"))
    return {
        name: float(value)
        for name, _, value in samples
        if kinds.get(name.partition("{")[0]) == "gauge"
        and not name.removeprefix("streameval_").startswith(_OF_THE_PROCESS)
    }


def stored(reader: Running) -> dict[int, dict[str, Any]]:
    return {entry["partition"]: entry for entry in reader.document().get("stored", ())}


def covered(reader: Running, records: int) -> bool:
    return sum(entry["offset"] or 0 for entry in stored(reader).values()) == records


class Beside:
    """Replicas, readers of their store, and a daemon that counts everything alone."""

    def __init__(
        self, stack: ExitStack, broker: Broker, topic: str, folder: Path, store: Store
    ) -> None:
        self._stack, self._folder = stack, folder
        self._config = config_of(store(folder))
        self._broker, self._topic = broker, topic
        self.replicas = [self._start(name, member=name) for name in ("one", "two")]
        self.readers = [self._start(name, command="serve") for name in ("reader", "other")]
        alone = config_of(folder_of(folder / "alone"))
        self.alone = self._start("alone", alone, group=f"{topic}-alone")

    def _start(
        self, name: str, config: str | None = None, command: str = "run", **source: str
    ) -> Running:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        text = config or self._config
        text += kafka_source(self._broker, self._topic, kafka=HASTY, **source)
        retained = {name: os.environ[name] for name in os.environ if name.startswith("AWS_")}
        return self._stack.enter_context(running(text, folder, command=command, **retained))

    def agree(self, records: int) -> dict[str, Any]:
        """What all show, once both readers have checkpoints of all records."""
        self.alone.until(lambda: read(self.alone) == records)
        for reader in self.readers:
            reader.until(partial(covered, reader, records))
        everything: dict[str, Any] = {}

        def equal() -> bool:
            # The series of [changes] are judged a few at each snapshot.
            everything.update(shown(self.alone))
            return all(shown(reader) == everything for reader in self.readers)

        self.alone.until(equal)
        for reader in self.readers:
            assert gauges(reader) == gauges(self.alone)
        return everything


@contextmanager
def beside(broker: Broker, topic: str, folder: Path, store: Store) -> Iterator[Beside]:
    with ExitStack() as stack:
        yield Beside(stack, broker, topic, folder, store)


@pytest.mark.kafka
@pytest.mark.parametrize("store", [folder_of, pytest.param(bucket, marks=pytest.mark.nightly)])
def test_readers_show_what_one_daemon_shows_also_after_a_kill_and_a_takeover(
    broker: Broker, tmp_path: Path, store: Store
) -> None:
    rows = sorted(events(days=30, lists=200), key=lambda row: row["ts"])
    lines = [json.dumps(row).encode() for row in rows]
    topic = create(broker, partitions=PARTITIONS)
    half = len(lines) // 2
    with beside(broker, topic, tmp_path, store) as site:
        first, second = site.replicas
        reader, _ = site.readers
        first.until(lambda: owned(first) == owned(second) == PARTITIONS // 2)
        send(broker, topic, lines[:half], "user")
        before = site.agree(half)
        assert before["experiment"]["checks"]["trouble"] == []
        assert {row["verdict"] for row in before["changes"]["changes"]} != {"do not trust"}

        first.process.send_signal(signal.SIGKILL)
        send(broker, topic, lines[half:], "user")
        assert "records that no checkpoint covers yet; the oldest checkpoint, of" in reader.until(
            partial(_waiting, reader)
        )
        assert reader.sum_of("kafka_consumer_lag") > 0
        assert site.agree(len(lines))["changes"] != before["changes"]
        assert "_total{" not in _own(reader.get("/metrics").text)
        page = reader.get("/").text
        assert "Values are those of everything that is stored" in page
        for process in (*site.readers, site.alone, second):
            assert process.stop() == 0


def _waiting(reader: Running) -> str | None:
    why: str = reader.document()["state"]["why"]
    return why if "no checkpoint covers" in why else None


def _own(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("streameval_"))


def test_a_reader_waits_for_a_store_and_shows_joined_streams_as_the_daemon_does(
    tmp_path: Path,
) -> None:
    done = run("simulate", "--streams", tmp_path, "--events", "400")
    assert done.returncode == 0, done.stderr
    simulated = tmp_path / "streameval.toml"
    state = f'[state]\npath = "{tmp_path / "state"}"\ninterval = "1s"\n'
    text = f'intervals = {{}}\n{simulated.read_text()}{state}[web]\nlisten = "127.0.0.1:0"\n'
    simulated.write_text(text)
    with running(simulated, tmp_path, command="serve") as reader:
        answer = reader.until(lambda: _unready(reader))
        assert "store.json is missing" in answer
        assert reader.get("/-/healthy").status_code == 200
        with running(simulated, tmp_path) as daemon:
            records = 400 + 400
            daemon.until(lambda: daemon.document().get("health", {}).get("valid", 0) > records)
            counted = daemon.until(lambda: _saved(daemon))
            reader.until(lambda: shown(reader) == shown(daemon))
            progress = reader.document()["health"]["partitions"]
            assert daemon.stop() == 0
        keys = ("topic", "partition", "position", "event_time")
        assert [{name: log[name] for name in keys} for log in progress] == [
            {name: log[name] for name in keys} for log in counted
        ]
        assert reader.stop() == 0


def _saved(daemon: Running) -> list[dict[str, Any]]:
    """The progress of all logs, once all of it is saved and each has ended."""
    logs: list[dict[str, Any]] = daemon.document()["health"]["partitions"]
    saved = all(log["durable"] == log["position"] > 0 for log in logs)
    return logs if saved and len(logs) == 2 else []


def _unready(reader: Running) -> str:
    answer = reader.get("/-/ready")
    return answer.text if answer.status_code == 503 and reader.document() else ""


@pytest.mark.kafka
@pytest.mark.nightly
def test_the_ends_of_a_topic_that_is_created_again_are_those_of_the_new_one(
    broker: Broker, tmp_path: Path
) -> None:
    """Its state is that of the former one until a replica begins anew.

    The file of a secret is absent meanwhile, as while it is replaced.
    """
    row = json.dumps(next(events(days=1, lists=1))).encode()
    topic = filled(broker, {0: [row] * 3})
    secret = tmp_path / "secret"
    secret.write_text("me")
    client = {"client_id": f"${{file:{secret}}}"}
    config = config_of(folder_of(tmp_path)) + kafka_source(broker, topic, kafka=client)
    folders = [tmp_path / name for name in ("reader", "replica")]
    for folder in folders:
        folder.mkdir()
    with running(config, folders[1]) as replica:
        replica.until(lambda: replica.sum_of("checkpoint_offset") == 3)
        assert replica.stop() == 0
    with running(config, folders[0], command="serve") as reader:
        reader.until(lambda: _lag(reader) == 0)
        secret.unlink()
        removed(broker, topic)
        create(broker, name=topic)
        fill(broker, topic, {0: [row] * 9})
        reader.until(lambda: str(secret) in reader.document()["state"]["why"])
        assert _lag(reader) is None
        secret.write_text("me")
        reader.until(lambda: _lag(reader) == 6)
        assert reader.stop() == 0


def _lag(reader: Running) -> int | None:
    lags: list[int | None] = [entry["lag"] for entry in stored(reader).values()]
    return lags[0] if lags else None
