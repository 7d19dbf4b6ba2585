"""`streameval check`: validity of a configuration, and the plan that it prints."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from streameval.checkpoints.store import folder_store
from streameval.testing.broker import Broker
from tests.cli.program import printed, run, terminal_of, write_file
from tests.daemon.running import running
from tests.daemon.test_daemon import FILE, KAFKA, SECRET, SIMULATOR
from tests.kafka.topics import filled
from tests.ports import free_port


def written(folder: Path, text: str) -> Path:
    return write_file(folder / "streameval.toml", text)


def kafka(folder: Path, address: str, topic: str) -> Path:
    source = f'type = "kafka", topics = ["{topic}"], kafka.bootstrap_servers = "{address}"'
    text = f'metrics = ["ctr"]\nsource = {{{source}}}\nweb = {{listen = "127.0.0.1:0"}}\n'
    return written(folder, text)


def test_check_prints_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    done = run("check", written(tmp_path, KAFKA.format(port=1)))
    assert done.returncode == 0, done.stderr
    assert "sasl_plain_password = ***" in done.stdout
    assert SECRET not in done.stdout


def _stored(path: str) -> str:
    return f'{SIMULATOR}[state]\npath = "{path}"\n'


def test_connect_tries_where_the_daemon_writes_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written(tmp_path, _stored("new/state"))
    text = printed("check", config, "--connect")
    assert "simulated traffic (its days begin on 2026-01-01) can be read." in text
    assert f"{tmp_path}/new/state can be created\n" in text
    assert [path.name for path in tmp_path.iterdir()] == [config.name]
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)
    done = run("check", config, "--connect")
    assert done.returncode == 1
    (state,) = done.stderr.splitlines()
    assert f"{tmp_path}/new/state: permission denied; let this user read and write" in state


def test_connect_reports_state_that_a_start_would_refuse(tmp_path: Path) -> None:
    folder_store(tmp_path / "foreign").claim("c9", "g9")
    done = run("check", written(tmp_path, _stored("foreign")), "--connect")
    assert done.returncode == 1
    assert "foreign: its state belongs to group 'g9', and this process reads" in done.stderr


def test_connect_passes_over_state_that_a_start_does_not_load(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        (tmp_path / name).write_bytes(b'{"recommendations": ["%d"]}\n' % number)
        config = f"""
metrics = ["ctr"]
labels = {["arm", "tenure"][number:]}
source = {{ type = "files", paths = ["{name}"] }}
state = {{ path = "state", on_recreated = "restart" }}
web = {{ listen = "127.0.0.1:0" }}
"""
        printed("check", written(tmp_path, config), "--connect")
        with running(config, tmp_path) as daemon:
            daemon.consumed(1)
            assert daemon.stop() == 0


def test_connect_reports_each_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        text = FILE.format(path="none.ndjson").replace("127.0.0.1:0", address)
        done = run("check", written(tmp_path, text), "--connect")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert "none.ndjson: no such file" in first
    assert f"cannot listen on {address}" in second


def test_connect_without_a_broker_is_one_sentence(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run("check", kafka(tmp_path, address, "t"), "--connect")
    assert done.returncode == 1
    assert f"cannot reach Kafka at {address}: connection refused" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.kafka
def test_connect_describes_the_topics_of_a_broker(broker: Broker, tmp_path: Path) -> None:
    topic = filled(broker, {0: [b"{}"] * 3, 1: [b"{}"] * 4})
    assert f"{topic}: 2 partitions, 7 offsets in use" in printed(
        "check", kafka(tmp_path, broker.bootstrap_servers, topic), "--connect"
    )
    absent = run("check", kafka(tmp_path, broker.bootstrap_servers, "absent"), "--connect")
    assert absent.returncode == 1
    assert "topic 'absent': not found on this cluster" in absent.stderr


def test_run_names_the_file_of_a_setting_that_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, 'metrics = ["ctr"]\nsource = { type = "kafka", topics = ["a b"] }\n')
    done = run("run", path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{path}: source.topics" in done.stderr


def test_check_prints_the_values_of_attributes(tmp_path: Path) -> None:
    (tmp_path / "genres.csv").write_text("item,genre\na,news\nb,drama\nb,news\n")
    providers = "".join(f"i{number},p{number}\n" for number in range(1_200))
    (tmp_path / "providers.csv").write_text(providers)
    config = """metrics = ["ndcg(among=genre:news)@5"]
source = { type = "simulator" }
attributes.genre = { path = "genres.csv" }
attributes.provider = { path = "providers.csv" }
"""
    lines = dict(
        line.split(maxsplit=1) for line in printed("check", written(tmp_path, config)).splitlines()
    )
    assert lines["attributes"] == "genre = drama, news; provider = 1,200 values"


JOINED = """
metrics = ["hit_rate@1", "ctr"]
labels = ["variant"]
intervals = {}
event = { time = "ts", time_unit = "ms" }
dead_letters = { max_run = 7 }
web = { listen = "127.0.0.1:0" }
experiment = { control = "a", primary = ["hit_rate@1"], guardrails = { ctr = -0.01 } }
source = { type = "files", paths = ["shown.ndjson", "clicks.ndjson"] }
[attribution]
impressions = "shown.ndjson"
window = "20m"
interactions = [{ source = "clicks.ndjson", types = { click = 1, buy = 5.5 } }]
"""


def test_run_prints_the_summary_of_check_on_a_terminal(tmp_path: Path) -> None:
    for name in ("shown", "clicks"):
        (tmp_path / f"{name}.ndjson").touch()
    config = written(tmp_path, JOINED)
    summary = run("check", config).stdout.splitlines()
    with terminal_of("run", config) as lines:
        actual = [next(lines) for _ in range(len(summary) + 1)]
    assert actual[:-1] == summary
    assert "event=started" in actual[-1]
    assert max(map(len, actual)) < 400
