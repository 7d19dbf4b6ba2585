"""Tests of a missing service are skipped, and fail with CI=true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.checkout import ROOT

_CONFTEST = """
from tests.real_parts import pytest_report_header, pytest_runtest_makereport
"""
_TESTS = """
import pytest

@pytest.fixture
def broker():
    pytest.skip("no real Kafka here")

@pytest.mark.kafka
def test_of_a_broker(broker): ...

@pytest.mark.kafka
@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail(): assert False

@pytest.mark.kafka
def test_of_data_that_is_elsewhere():
    pytest.skip("the data set is not beside the repository")
"""


def test_a_missing_service_fails_in_ci_and_the_header_lists_services(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = kafka: a broker\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_parts.py").write_text(_TESTS)
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "no real Kafka here" in result.stdout
    assert "1 skipped, 1 xfailed, 1 error" in result.stdout
    for part in ("kafka broker: ", "prometheus: ", "promtool: ", "browser: "):
        assert part in result.stdout


@pytest.mark.parametrize("script", ["tests/run", "tests/nightly", ".ci/run"])
def test_a_script_is_executable_and_valid_bash(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_ci_runs_the_command_in_the_readme_only() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set "))]
    assert len(commands) == 1
    assert commands[0].endswith('/../tests/run"')
    assert "\n    tests/run\n" in (ROOT / "README.md").read_text(encoding="utf-8")
