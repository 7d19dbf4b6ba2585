"""Two real replicas: neither alarms alone, the shared state does, and so does who is left."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.changes.events import events
from tests.changes.test_command import report_rows
from tests.cli.program import json_lines
from tests.daemon.running import Running, kafka_source, running
from tests.daemon.test_topics import HASTY, PARTITIONS, owned, read
from tests.exposition import named
from tests.kafka.topics import create, send

CONFIG = """
metrics = ["ctr"]
labels = ["variant", "model"]
intervals = {{}}
event = {{ time = "ts", time_unit = "s" }}
changes = {{ label = "variant", rollouts = "model" }}
state = {{ path = "{store}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
"""


@pytest.mark.kafka
def test_neither_replica_alarms_alone_and_the_shared_state_does(
    broker: Broker, tmp_path: Path
) -> None:
    rows = sorted(events(), key=lambda row: row["ts"])
    log = json_lines(tmp_path / "events.ndjson", rows)
    topic = create(broker, partitions=PARTITIONS)
    folders = [tmp_path / member for member in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    config = CONFIG.format(store=tmp_path / "state")
    sources = [kafka_source(broker, topic, kafka=HASTY, member=path.name) for path in folders]
    alone = report_rows(log, "--config", _config(tmp_path, config))
    assert {row["slice"]: row["verdict"] for row in alone}["b"] == "worse"
    with (
        running(config + sources[0], folders[0]) as one,
        running(config + sources[1], folders[1]) as two,
    ):
        one.until(lambda: owned(one) == owned(two) == PARTITIONS // 2)
        send(broker, topic, [json.dumps(row).encode() for row in rows], "user")
        one.until(lambda: read(one) + read(two) == len(rows))
        for daemon in (one, two):
            part = daemon.until(partial(_changes, daemon))
            assert {change["verdict"] for change in part} == {"do not trust"}
            assert named(daemon.samples(), "change_evidence_days") == {}
        two.until(lambda: report_rows(tmp_path / "state") == alone)
        one.process.send_signal(signal.SIGKILL)
        last = two.until(lambda: _trusted(two))
        assert two.stop() == 0
    assert [_without_days(change) for change in last] == alone
    assert report_rows(tmp_path / "state") == alone


def _config(folder: Path, config: str) -> Path:
    """The configuration with files as its source."""
    path = folder / "files.toml"
    path.write_text(f'{config}source = {{ type = "files", paths = ["events.ndjson"] }}\n')
    return path


def _changes(daemon: Running) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = daemon.get("/api/v1/changes").json()["changes"]
    return changes


def _trusted(daemon: Running) -> list[dict[str, Any]]:
    changes = _changes(daemon)
    return [] if any(change["verdict"] == "do not trust" for change in changes) else changes


def _without_days(change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in change.items() if name != "days"}
