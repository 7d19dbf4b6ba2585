"""The unit of systemd."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

import pytest

from streameval.daemon.loop import STALL_SECONDS
from tests.deploy.examples import DEPLOY, image_arguments, of_the_system, ran

UNIT = DEPLOY / "systemd" / "streameval.service"


def test_the_service_runs_what_the_image_runs() -> None:
    service = _service()["ExecStart"].split()
    assert service == image_arguments()[: len(service)]


def test_what_needs_a_decision_is_not_started_again() -> None:
    service = _service()
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")


def test_a_daemon_that_makes_no_progress_is_started_again_as_in_kubernetes() -> None:
    service = _service()
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    # /-/healthy fails first, so that a person sees it before the restart.
    assert int(service["WatchdogSec"]) > STALL_SECONDS


def test_the_name_of_a_member_is_there_as_in_the_image() -> None:
    assert _service()["Environment"] == "HOSTNAME=%H"


@pytest.mark.systemd
def test_systemd_understands_every_line_and_would_say_otherwise(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert _verified(tmp_path, text) == ""
    assert "Unknown key" in _verified(tmp_path, text.replace("RestartSec=", "RestartSecs="))


@pytest.mark.systemd
def test_the_service_is_exposed_to_little() -> None:
    analyze = of_the_system("systemd-analyze")
    # In tenths: 1.4 when this was written, of the 10.0 of a unit that says nothing.
    command = (analyze, "security", "--offline=true", "--no-pager", "--threshold=20", UNIT)
    done = ran(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def _service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    unit.read(UNIT)
    return unit["Service"]


def _verified(folder: Path, text: str) -> str:
    """What systemd says of this unit (and not of others here), with a program that is here."""
    unit = folder / UNIT.name
    unit.write_text(text.replace("/opt/streameval/bin/streameval", sys.executable))
    done = ran(of_the_system("systemd-analyze"), "verify", unit)
    said = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in said if UNIT.name in line)
