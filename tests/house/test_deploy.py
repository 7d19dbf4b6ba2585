"""The examples that people copy are right."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from streameval.config import load
from streameval.events import Event
from streameval.pipeline.decode import Decoder
from tests.house.checkout import ROOT
from tests.house.checkout import files as tracked

DEPLOY = ROOT / "deploy"
CONFIGS = sorted((DEPLOY / "config").glob("*.toml"))


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool here")
    return found


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_example_of_a_configuration_loads(path: Path) -> None:
    config = load(path)
    named = [*config.metrics, *(each.name for each in config.metric)]
    assert [metric.text for metric in config.accumulator().metrics] == named


def test_there_is_an_example_for_every_source() -> None:
    kinds = {msgspec.to_builtins(load(path).source)["type"] for path in CONFIGS}
    assert kinds == {"kafka", "files", "simulator"}


def test_the_record_beside_the_nested_paths_is_read_by_them() -> None:
    path = DEPLOY / "config" / "nested-fields.toml"
    config = load(path)
    comment = [
        line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    ]
    record = "".join(comment[1:3]).encode()
    event = Decoder(config.event, config.labels).decode(record)
    assert isinstance(event, Event)
    assert (event.recommendations, event.interactions) == (["1", "2"], {"2": 19.5})
    assert (event.user, event.labels, event.ts) == ("7", ("b",), 1767225600000000)


@pytest.mark.prometheus
def test_prometheus_accepts_the_scrape_configuration_and_the_rules(promtool: str) -> None:
    command = [promtool, "check", "config", str(DEPLOY / "prometheus" / "prometheus.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUCCESS: 2 rule files found" in result.stdout


def test_the_service_runs_what_the_image_runs() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    unit.read(DEPLOY / "systemd" / "streameval.service")
    program, *arguments = unit["Service"]["ExecStart"].split()
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f'ENTRYPOINT ["{program}"]' in dockerfile
    assert f"CMD {json.dumps(arguments)}" in dockerfile


def test_the_index_names_every_file() -> None:
    index = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = [path for path in tracked() if path.is_relative_to(DEPLOY)]
    files = [path for path in files if path.name != "README.md"]
    assert [path.name for path in files if path.name not in index] == []
