from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition

from streameval.sources.options import SimulatorOptions
from streameval.sources.simulator import records
from streameval.testing.broker import Broker
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.stage import PARTITIONS, Stage
from tests.chaos.truth import ends
from tests.cli.program import ran
from tests.effort import PATIENCE
from tests.kafka.topics import create
from tests.warm import started

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.timeout(600)]

_EVENTS = 2_000
_KILLS = 10
_START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_day_that_is_killed_ten_times_is_the_day_that_evaluate_reads(
    broker: Broker, tmp_path: Path
) -> None:
    setting = Setting(
        address=broker.bootstrap_servers,
        topic=create(broker, partitions=PARTITIONS),
        folder=tmp_path,
        member="one",
        spans='["5m", "1h", "24h"]',
        pane="1m",
    )
    _killed_while_a_day_comes(setting, broker)
    for number, lines in _partitions(setting).items():
        file = tmp_path / f"{number}.ndjson"
        file.write_bytes(b"".join(lines))
        chosen = ("--partition", f"{setting.topic}/{number}", "--format", "json")
        exported = _streameval("state", "export", setting.path, *chosen)
        config = ("--config", str(setting.written()), "--format", "json")
        evaluated = _streameval("evaluate", str(file), *config)
        assert _readings(exported) == _readings(evaluated)
        assert {"5m", "1h", "24h", "lifetime"} <= {each["window"] for each in _readings(exported)}


def _killed_while_a_day_comes(setting: Setting, broker: Broker) -> None:
    stage = Stage(broker=broker, folder=setting.folder, seed=1)
    draw = random.Random(1)
    lines = _day(draw)
    share = len(lines) // _KILLS
    for begin in range(0, len(lines), share):
        file = setting.folder / "part.ndjson"
        file.write_text("".join(lines[begin : begin + share]))
        with Daemon(setting) as daemon:
            daemon.until(daemon.ready)
            before = daemon.offsets()
            where = ("--bootstrap-servers", setting.address, "--topic", setting.topic)
            publishing = started("streameval", "publish", str(file), *where, streams=(0, 1, 2))
            daemon.until(lambda: daemon.offsets() != before)  # noqa: B023  asked at once
            time.sleep(draw.random())
        assert publishing.wait(PATIENCE) == 0
    with Daemon(setting) as daemon:
        stage.settled(setting, daemon)
        assert daemon.stop() == 0


def _day(draw: random.Random) -> Sequence[str]:
    """Simulated events, spread over a day, in disorder of some minutes."""
    lines = []
    for number, value in enumerate(records(SimulatorOptions(seed=1, events=_EVENTS))):
        event = msgspec.json.decode(value)
        late = draw.choices((0, 60, 600), weights=(80, 15, 5))[0] * draw.random()
        seconds = 86_400 * number / _EVENTS - late
        event["ts"] = (_START + timedelta(seconds=seconds)).timestamp()
        lines.append(json.dumps({**event, "id": event["event_id"]}) + "\n")
    return lines


def _partitions(setting: Setting) -> dict[int, list[bytes]]:
    """What is in the topic, by partition, as lines."""
    targets = ends(setting)
    found: dict[int, list[bytes]] = {}
    with closing(KafkaConsumer(bootstrap_servers=setting.address)) as consumer:
        for number, end in targets.items():
            place = TopicPartition(setting.topic, number)
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            lines = found[number] = []
            while consumer.position(place) < end:
                polled = consumer.poll(timeout_ms=200).get(place, ())
                lines += [record.value + b"\n" for record in polled]
    return found


def _readings(text: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(text)
    return found


def _streameval(*arguments: str) -> str:
    done = ran(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
