"""A process that alone uses its state is back at once; until then its checkpoints are shown."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config import Config
from streameval.config.tables import StateOptions
from streameval.daemon.assembly import assemble
from streameval.daemon.membership import FILE, MemberName
from streameval.sources.settings import KafkaOptions
from streameval.testing.broker import Broker
from tests.daemon.running import Running, kafka_source, running
from tests.kafka.topics import filled

_LONG = {"session_timeout_ms": 300_000, "heartbeat_interval_ms": 300}
"""Longer than any test waits: a killed member that is not static is in the group till the end."""

_CONFIG = """
metrics = ["ctr"]
labels = ["variant"]
state = {{ path = "{path}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0", first_exposure = "0s" }}
"""


def name_of(folder: Path) -> MemberName:
    return MemberName(StateOptions(path=str(folder)))


def test_a_name_is_kept_over_restarts(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = name_of(folder)
    first.close()
    again = name_of(folder)
    assert first.name is not None
    assert again.name == first.name
    assert name_of(tmp_path / "other").name not in (None, first.name)
    again.close()


def test_two_processes_with_one_folder_have_no_name_and_neither_has_the_next(
    tmp_path: Path,
) -> None:
    first, second = name_of(tmp_path), name_of(tmp_path)
    assert first.name is not None
    assert second.name is None
    first.close()
    second.close()
    assert name_of(tmp_path).name is None


def test_another_machine_has_no_name_and_makes_the_folder_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = name_of(tmp_path)
    here.close()
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert name_of(tmp_path).name is None
    monkeypatch.undo()
    assert name_of(tmp_path).name is None


@pytest.mark.parametrize("path", ["s3://bucket/state", "missing/parent/state"])
def test_a_bucket_and_a_folder_that_cannot_be_made_give_no_name(tmp_path: Path, path: str) -> None:
    where = path if path.startswith("s3") else str(tmp_path / path)
    assert MemberName(StateOptions(path=where)).name is None


def test_without_a_state_a_member_of_a_group_has_no_name() -> None:
    topic = KafkaOptions(topics=["events"], kafka={"bootstrap_servers": "127.0.0.1:1"})
    parts = assemble(Config(metrics=["ctr"], source=topic), {}, ProcessClock())
    assert parts.member is None
    parts.close()


def _event(number: int) -> bytes:
    lists = {"recommendations": ["a", "b"], "interactions": ["a"] * (number % 2)}
    return json.dumps({"variant": "x", **lists}).encode()


def _counted(daemon: Running) -> dict[str, Any]:
    """The document, once four lists are counted and saved."""
    document: dict[str, Any] = daemon.consumed(4)
    daemon.until(lambda: [partition["durable"] for partition in _partitions(daemon)] == [4])
    return document


def _partitions(daemon: Running) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = daemon.document()["health"]["partitions"]
    return entries


def _values(document: dict[str, Any]) -> list[tuple[float, int]]:
    return [(reading["value"], reading["count"]) for reading in document["metrics"]]


@pytest.mark.kafka
def test_a_killed_process_that_owns_its_state_alone_counts_at_once_again(
    broker: Broker, tmp_path: Path
) -> None:
    topic = filled(broker, {0: [_event(number) for number in range(4)]})
    config = _CONFIG.format(path=tmp_path / "state") + kafka_source(broker, topic, kafka=_LONG)
    with running(config, tmp_path) as daemon:
        before = _counted(daemon)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    with running(config, tmp_path) as daemon:
        daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
        document = daemon.until(lambda: _partitions(daemon) and daemon.document())
        assert document["stored_at"] is None
        assert _values(document) == _values(before)
        assert daemon.stop() == 0


@pytest.mark.kafka
def test_while_a_killed_member_is_awaited_the_page_has_the_values_of_the_checkpoint(
    broker: Broker, tmp_path: Path
) -> None:
    topic = filled(broker, {0: [_event(number) for number in range(4)]})
    state = tmp_path / "state"
    state.mkdir()
    (state / FILE).write_text("shared")
    config = _CONFIG.format(path=state) + kafka_source(broker, topic, kafka=_LONG)
    with running(config, tmp_path) as daemon:
        before = _counted(daemon)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    with running(config, tmp_path) as daemon:
        daemon.until(lambda: daemon.document().get("stored_at"))
        assert _values(daemon.document()) == _values(before)
        assert "These are the values of the checkpoint of " in daemon.get("/").text
        assert daemon.get("/-/ready").status_code == 503
        assert not [name for name, _ in daemon.samples() if name.startswith("streameval_ctr")]
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
