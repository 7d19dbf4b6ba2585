"""A daemon whose metric raises for some records makes dead letters of them, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streameval.config import Config, load
from streameval.daemon import ProcessClock
from streameval.daemon.assembly import assemble
from streameval.daemon.loop import Loop
from streameval.engine.snapshot import Snapshot
from streameval.testing.broker import Broker
from tests.cli.program import run
from tests.daemon.running import kafka_source
from tests.dead_letters.samples import records_in
from tests.engine.picky import PICKY
from tests.kafka.topics import create, fill

pytestmark = pytest.mark.kafka

HASTY = {"fetch_max_wait_ms": 50}
AT = 20


def _run(config: Config, until: Callable[[Snapshot], bool]) -> Snapshot:
    """Run a daemon until a snapshot meets a condition; returns the last snapshot."""
    shown: list[Snapshot] = []
    loop = Loop(assemble(config, {}, ProcessClock()), shown.append, ProcessClock(), lambda: None)
    loop.run(lambda: bool(shown) and until(shown[-1]))
    return shown[-1]


def _config(folder: Path, text: str) -> tuple[Path, Config]:
    path = folder / "streameval.toml"
    metrics = f'metrics = ["hit_rate@1", "{PICKY}"]\nstate = {{ path = "state" }}\n'
    path.write_text(metrics + text)
    return path, load(path)


def test_a_record_on_which_a_metric_raises_is_a_letter_and_the_daemon_goes_on(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    records = [b'{"recommendations": ["a", "b"], "interactions": ["b"]}'] * 41
    records[AT] = b'{"recommendations": ["a", "poison"], "interactions": ["b"]}'
    fill(broker, topic, {0: records})
    _, config = _config(tmp_path, kafka_source(broker, topic, kafka=HASTY))
    health = _run(config, lambda shown: shown.health.consumed >= 41).health
    assert (health.invalid["uncountable"], health.dead_lettered) == (1, 1)
    (dead_letter,) = records_in(broker, f"{topic}.dlq")
    headers = {name: value.decode() for name, value in dead_letter.headers}
    assert dead_letter.value == records[AT]
    assert headers["streameval.dlq.offset"] == str(AT)
    assert headers["streameval.dlq.stage"] == "process"
    assert headers["streameval.dlq.reason"] == "uncountable"
    assert headers["streameval.dlq.message"].startswith("ZeroDivisionError: by zero, picky.py")
    assert _run(config, lambda shown: shown.health.ready).health.invalid["uncountable"] == 0


JOIN = """
windows = {{ spans = ["5m"] }}
event = {{ time = "ts", time_unit = "s" }}
[attribution]
impressions = "{shown}"
window = "5s"
lateness = "1s"
interactions = [{{ source = "{clicked}" }}]
"""


def test_the_letter_of_a_list_that_closed_is_replayed_with_the_bytes_of_its_log(
    broker: Broker, tmp_path: Path
) -> None:
    topics = {name: create(broker) for name in ("shown", "clicked")}
    lists = [{"ts": n, "request_id": n, "recommendations": ["a", "b"]} for n in range(60)]
    lists[AT]["recommendations"] = ["a", "poison"]
    clicks = [{"ts": n + 2, "request_id": n, "item": "ab"[n % 2]} for n in range(60)]
    source = kafka_source(broker, topics["shown"], topics["clicked"], kafka=HASTY)
    path, config = _config(tmp_path, JOIN.format(**topics) + source)
    logs = {
        topics["shown"]: [json.dumps(impression).encode() for impression in lists],
        topics["clicked"]: [json.dumps(click).encode() for click in clicks],
    }
    for topic, log in logs.items():
        fill(broker, topic, {0: log})
    health = _run(config, lambda output: output.health.invalid["uncountable"] > 0).health
    assert health.dead_lettered == 1
    (dead_letter,) = records_in(broker, f"{topics['shown']}.dlq")
    assert (dead_letter.value, dict(dead_letter.headers)["streameval.dlq.offset"]) == (
        b"",
        b"%d" % AT,
    )
    output = run("dlq", path)
    assert "(truncated: no bytes)" in output.stdout
    replayed = run("dlq", "replay", path)
    assert replayed.stdout.startswith("1 record of topic "), replayed.stderr
    log = [record.value for record in records_in(broker, topics["shown"])]
    assert log == [*logs[topics["shown"]], logs[topics["shown"]][AT]]
