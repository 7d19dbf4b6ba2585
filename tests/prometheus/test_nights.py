"""Real daemons that Kafka refuses: what the log says, and which alerts fire with which labels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.program import printed, write_file
from tests.daemon.running import Running, kafka_source, running
from tests.kafka.secured import PASSWORD, USER, Secured, refuse_group
from tests.kafka.topics import create
from tests.prometheus import server
from tests.prometheus.remembering import write_hasty

CONFIG = """
metrics = ["ctr"]
state = { path = "state" }
web = { listen = "127.0.0.1:0" }
"""
SCRAPES = """
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
"""
RUNBOOK = Path("docs/runbook.md").read_text(encoding="utf-8")
PASSWORDS: Mapping[str, str] = {"password": "wrong", "right": PASSWORD}
"""Name of a daemon, whose group the user may not join -> the password that it sends."""

SAID = {
    "password": "rejects the authentication of user 'alice' by SCRAM-SHA-256; correct the user, "
    "the password or sasl_mechanism in [source.kafka]; still trying.",
    "right": "GroupAuthorizationFailedError",
}
FIRING = {
    ("password", "StreamevalNotReady", None),
    ("password", "StreamevalKafkaFailing", "authentication"),
    ("right", "StreamevalNotReady", None),
}
"""Daemon, alert and its `reason`: with the right to connect, only /-/ready and the log have one."""


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.prometheus
def test_what_kafka_refuses_fires_with_the_reason_that_the_runbook_explains(
    safe: Secured, tmp_path: Path
) -> None:
    topic = create(safe.broker)
    refuse_group(safe.broker, USER, topic)
    with ExitStack() as stack:
        daemons = dict[str, Running]()
        for name, password in PASSWORDS.items():
            login = {
                "bootstrap_servers": safe.addresses["SASL_SSL"],
                "security_protocol": "SASL_SSL",
                "ssl_cafile": safe.authority,
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_plain_username": USER,
                "sasl_plain_password": password,
            }
            config = write_file(
                tmp_path / f"{name}.toml", CONFIG + kafka_source(safe.broker, topic, kafka=login)
            )
            daemons[name] = stack.enter_context(running(config, tmp_path))
        write_hasty(printed("rules", tmp_path / "right.toml"), tmp_path / "rules.yml")
        jobs = (
            f"  - {{job_name: {name}, static_configs: "
            f'[{{targets: ["{urlsplit(daemon.address).netloc}"]}}]}}\n'
            for name, daemon in daemons.items()
        )
        prometheus = stack.enter_context(server.running(tmp_path, SCRAPES + "".join(jobs)))
        for name, daemon in daemons.items():
            (problem, *_) = daemon.until(partial(daemon.logged, "source_trouble"))
            assert SAID[name] in problem
            assert SAID[name] in daemon.get("/-/ready").text
        firing = 'count(ALERTS{alertstate="firing",job=~"password|right"})'
        assert prometheus.settled(firing, len(FIRING)) == len(FIRING)
        labels = [alert["labels"] for alert in prometheus.data("alerts")["alerts"]]
    result = {(of["job"], of["alertname"], of.get("reason")) for of in labels}
    assert {alert for alert in result if alert[0] in PASSWORDS} == FIRING
    assert "| `authentication` |" in RUNBOOK.partition("## StreamevalKafkaFailing")[2]


SLOW = """
import time
right = time.time
time.time = lambda: right() - 600
"""


@pytest.mark.nightly
def test_states_of_a_writer_with_a_slow_clock_look_old_and_are_shown(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text('{"recommendations": ["a"], "interactions": []}\n')
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    config = CONFIG + '[source]\ntype = "files"\npaths = ["events.ndjson"]\n'
    with running(config, tmp_path, PYTHONPATH=str(tmp_path)) as writer:
        writer.consumed(1)
        assert writer.stop() == 0
    with running(config, tmp_path, command="serve") as reader:
        ready = reader.until(lambda: reader.sum_of("stored_newest"))
        written = reader.sum_of("stored_timestamp_seconds")
        answer = reader.get("/-/ready").text
    assert ready == 1
    assert written < (tmp_path / "events.ndjson").stat().st_mtime
    assert answer.startswith("Ready: everything that is stored has been read.")
    assert "its writer's time" in RUNBOOK.partition("## StreamevalStateOld")[2]
