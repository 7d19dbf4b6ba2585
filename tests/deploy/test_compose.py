"""compose.yaml: one command for everything, of parts that fit together."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streameval.config import load
from streameval.testing.broker import ENDPOINT, Broker
from tests.daemon.running import Running, running
from tests.deploy.examples import (
    DEPLOY,
    changed,
    compose,
    document,
    instruction,
    of_the_environment,
    of_the_system,
)
from tests.house.checkout import ROOT, files
from tests.processes import finished

FILE = DEPLOY / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = compose()["services"]


def test_it_is_what_the_specification_allows() -> None:
    tool = of_the_environment("check-jsonschema")
    done = finished([tool, "--builtin-schema", "vendor.compose-spec", FILE])
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n")


def test_all_that_belongs_to_it_is_there() -> None:
    assert set(SERVICES) == {"kafka", "traffic", "streameval", "prometheus", "grafana"}
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_every_file_that_is_mounted_is_in_the_repository() -> None:
    tracked = set(files())
    for _, source, target, how in _mounts():
        if source.startswith("."):
            path = (DEPLOY / source).resolve()
            assert path in tracked or any(file.is_relative_to(path) for file in tracked), source
            assert (target[0], how) == ("/", "ro")


def test_every_volume_is_declared_and_used() -> None:
    used = [source for _, source, _, _ in _mounts() if not source.startswith(".")]
    assert sorted(used) == sorted(compose()["volumes"])


def test_nothing_can_be_reached_from_outside() -> None:
    ports = [port for service_ in SERVICES.values() for port in service_.get("ports", ())]
    assert len(ports) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)


def test_images_of_others_are_pinned_by_digest_and_ours_by_version() -> None:
    for name, service in SERVICES.items():
        ours = service["image"].startswith("streameval:")
        end = r"(\.dev0)?" if ours else r"@sha256:[0-9a-f]{64}"
        assert re.fullmatch(rf"[\w/-]+:v?\d+\.\d+\.\d+{end}", service["image"]), name


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_can_change_nothing_but_its_data(name: str) -> None:
    service = SERVICES[name]
    hardened = (service["read_only"], service["cap_drop"], service["security_opt"])
    assert hardened == (True, ["ALL"], ["no-new-privileges:true"])
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    # The image of streameval has a user of its own.
    assert service["image"].startswith("streameval:") or service["user"] not in {"root", "0"}
    assert not {"privileged", "cap_add"} & {*service}


def test_nobody_can_change_grafana() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert environment["GF_AUTH_BASIC_ENABLED"] == "false"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"


def test_the_versions_are_those_that_the_tests_use() -> None:
    broker = re.search(r"kafka_2\.13:([\d.]+)", ENDPOINT)
    assert broker is not None
    assert SERVICES["kafka"]["image"].startswith(f"apache/kafka:{broker[1]}@")
    page = (ROOT / "docs" / "reference" / "prometheus.md").read_text(encoding="utf-8")
    oldest = re.search(r"Grafana ([\d.]+) or newer", page)
    assert oldest is not None
    assert SERVICES["grafana"]["image"].startswith(f"grafana/grafana:{oldest[1]}.")


def test_everything_asks_the_broker_where_it_listens() -> None:
    broker = SERVICES["kafka"]["environment"]
    address = broker["KAFKA_ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://")
    host, port = address.split(":")
    assert host in SERVICES
    assert f"PLAINTEXT://:{port}" in broker["KAFKA_LISTENERS"]
    assert SERVICES["kafka"]["healthcheck"]["test"][-1] == address
    for name in ("traffic", "streameval"):
        assert SERVICES[name]["environment"]["BROKERS"] == address


def test_the_state_is_on_the_volume() -> None:
    state = load(DEPLOY / "compose" / "streameval.toml").state
    (volume,) = [m.target for m in _mounts() if (m.service, m.source) == ("streameval", "state")]
    assert state is not None
    assert Path(state.path).is_relative_to(volume)
    # A volume takes its owner from the folder of the image.
    assert f" {volume}" in instruction("RUN")


@pytest.mark.prometheus
def test_prometheus_reads_what_is_mounted_into_it(tmp_path: Path) -> None:
    for service, source, target, _ in _mounts():
        if service == "prometheus" and source.startswith("."):
            path = tmp_path / target.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DEPLOY / source, path)
    config = tmp_path / "etc" / "prometheus" / "prometheus.yml"
    done = finished([of_the_system("promtool"), "check", "config", config])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS: 1 rule files found" in done.stdout


def test_prometheus_scrapes_the_daemon_under_the_name_that_alerts_look_for() -> None:
    (job,) = document(DEPLOY / "compose" / "prometheus.yml")["scrape_configs"]
    assert job["job_name"] == "streameval"
    ((target,),) = [target_config["targets"] for target_config in job["static_configs"]]
    assert target == f"streameval:{_port('streameval')}"
    assert _port("streameval") == instruction("EXPOSE")


def test_grafana_asks_prometheus_as_often_as_it_scrapes() -> None:
    (source,) = document(DEPLOY / "compose" / "grafana" / "datasources.yaml")["datasources"]
    assert source["url"] == f"http://prometheus:{_port('prometheus')}"
    assert source["type"] == "prometheus"
    scrape = document(DEPLOY / "compose" / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape


def test_grafana_finds_the_dashboards() -> None:
    (provider,) = document(DEPLOY / "compose" / "grafana" / "dashboards.yaml")["providers"]
    folder = provider["options"]["path"]
    (source,) = [m.source for m in _mounts() if m.target == folder]
    assert (DEPLOY / source).resolve() == DEPLOY / "grafana"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / source / Path(home).relative_to(folder)).is_file()


def _port(service: str) -> str:
    (published,) = SERVICES[service]["ports"]
    return str(published.rpartition(":")[2])


class _Mount(NamedTuple):
    service: str
    source: str
    target: str
    how: str


def _mounts() -> list[_Mount]:
    return [
        _Mount(name, *[*volume.split(":"), "rw"][:3])
        for name, service in SERVICES.items()
        for volume in service.get("volumes", ())
    ]


TOPIC = "recommendation-events"


@pytest.mark.kafka
def test_simulated_traffic_becomes_metrics(broker: Broker, tmp_path: Path) -> None:
    topic = f"{TOPIC}-{uuid.uuid4().hex[:8]}"
    config = _configuration(topic, tmp_path / "state")
    address = broker.bootstrap_servers
    with (
        _traffic(topic, address) as traffic,
        running(config, tmp_path, "--listen", "127.0.0.1:0", BROKERS=address) as daemon,
    ):
        daemon.until(lambda: _consumed(daemon, traffic) >= 20)
        daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
        daemon.until(lambda: _variants(daemon) == {"control", "placebo", "treatment"})
        assert not any(daemon.document()["health"]["invalid"].values())
        assert daemon.stop() == 0
    assert [*(tmp_path / "state" / "rounds").rglob("*.round")] != []


def _configuration(topic: str, state: Path) -> str:
    """As it is, with a topic, a group and a folder of the test's own."""
    changes = {
        f'"{TOPIC}"': f'"{topic}"',
        'group = "streameval"': f'group = "{topic}"',
        "/var/lib/streameval/state": str(state),
    }
    return changed(DEPLOY / "compose" / "streameval.toml", changes)


@contextmanager
def _traffic(topic: str, brokers: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command of the service, as the shell of its container gets it."""
    service = compose()["services"]["traffic"]
    (command,) = service["command"]
    script = command.replace("$$", "$").replace(TOPIC, topic)
    programs = str(of_the_environment("streameval").parent)
    environment = {"BROKERS": brokers, "PATH": f"{programs}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [*service["entrypoint"], script], env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _consumed(daemon: Running, traffic: subprocess.Popen[bytes]) -> int:
    assert traffic.poll() is None, "the traffic has ended by itself"
    consumed: int = daemon.document().get("health", {}).get("consumed", 0)
    return consumed


def _variants(daemon: Running) -> set[str]:
    return {reading["labels"].get("variant") for reading in daemon.document().get("metrics", ())}
