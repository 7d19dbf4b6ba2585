"""The Dockerfile, as far as it can be judged where no image can be pulled; the unit of systemd."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from streameval.daemon.loop import STALL_SECONDS
from tests.daemon.running import Running, running
from tests.deploy.examples import (
    DEPLOY,
    compose,
    image_arguments,
    image_script,
    instruction,
    instructions,
    of_the_environment,
    of_the_system,
)
from tests.house.checkout import ROOT, files
from tests.ports import free_port
from tests.processes import finished

DOCKERFILE = DEPLOY / "Dockerfile"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = DEPLOY / "config" / "simulator.toml"
    with running(
        config, tmp_path_factory.mktemp("run"), "--listen", "127.0.0.1:0"
    ) as running_daemon:
        yield running_daemon


def test_the_linter_warns_of_nothing() -> None:
    done = finished([of_the_environment("hadolint"), "--failure-threshold", "warning", DOCKERFILE])
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_base_is_a_stage_or_pinned_by_digest() -> None:
    stages: set[str] = set()
    for rest in (rest for word, rest in instructions() if word == "FROM"):
        base, *name = rest.split(" AS ")
        assert base in stages or base == "${PYTHON}", base
        stages.update(name)
    assert stages == {"base", "build"}
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", instruction("ARG"))


def test_the_image_has_a_python_that_the_project_allows() -> None:
    match = re.search(
        r"^ARG PYTHON=python:(3\.\d+)-", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert match is not None
    project = _project()
    assert f"Programming Language :: Python :: {match[1]}" in project["classifiers"]


def test_its_label_is_the_version_of_the_project() -> None:
    labels = dict(part.split("=", 1) for part in shlex.split(instruction("LABEL")))
    assert labels["org.opencontainers.image.version"] == _project()["version"]
    assert labels["org.opencontainers.image.licenses"] == _project()["license"]


def test_what_it_writes_is_private_and_its_arguments_arrive_whole() -> None:
    script = image_script().replace(image_arguments()[0], 'sh -c \'umask; printf "%s|" "$@"\' sh')
    done = finished(["/bin/sh", "-c", script, "streameval", "run", "a file.toml"])
    assert done.stdout.split() == ["0077", "run|a", "file.toml|"]
    assert _service()["UMask"] == "0077"


def test_it_runs_as_somebody_who_is_not_root_and_whose_number_is_known() -> None:
    user, group = instruction("USER").split(":")
    assert int(user) > 0 < int(group)
    made = [rest for word, rest in instructions() if word == "RUN"][-1]
    assert f"--uid {user} --gid {group}" in made
    assert f"install -d -m 0700 -o {user} -g {group} /var/lib/streameval" in made
    words = [word for word, _ in instructions()]
    assert words.index("USER") > max(n for n, word in enumerate(words) if word == "RUN")


def test_the_health_check_passes_where_the_daemon_is_and_fails_where_it_is_not(
    daemon: Running,
) -> None:
    assert _checked_health(f"{daemon.address}/-/healthy") == 0
    assert _checked_health(f"{daemon.address}/nowhere") == 1
    assert _checked_health(f"http://127.0.0.1:{free_port()}/-/healthy") == 1


def test_the_health_check_asks_where_the_command_listens() -> None:
    address = re.search(r'STREAMEVAL_HEALTHY="([^"]+)"', instruction("ENV"))
    assert address is not None
    assert address[1] == f"http://127.0.0.1:{instruction('EXPOSE')}/-/healthy"
    assert image_arguments()[-2:] == ["--listen", f"0.0.0.0:{instruction('EXPOSE')}"]


def test_what_is_copied_is_let_in_and_nothing_else_is() -> None:
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY"]
    sources = {source_.rstrip("/").removeprefix("./") for part in copied for source_ in part}
    sources = {source_ for source_ in sources if not source_.startswith(("-", "/"))}
    first, *rules = _ignored()
    assert first == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources


def test_all_that_a_wheel_is_made_of_is_let_in() -> None:
    closed = [rule.removeprefix("**/") for rule in _ignored()[1:] if not rule.startswith("!")]
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("streameval/"):
            parts = [name, *Path(name).parts, *(p.as_posix() for p in Path(name).parents)]
            assert not any(fnmatch(part, rule) for rule in closed for part in parts), name


def test_compose_builds_the_image_once_and_runs_it_twice() -> None:
    ours = f"streameval:{_project()['version']}"
    running_it = [service for service in compose()["services"].values() if service["image"] == ours]
    assert len(running_it) == 2
    (build,) = [
        service["build"] for service in compose()["services"].values() if "build" in service
    ]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert ROOT / build["dockerfile"] == DOCKERFILE


def _checked_health(address: str) -> int:
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert check[0] == "/opt/streameval/bin/python"
    environment = {**os.environ, "STREAMEVAL_HEALTHY": address}
    command = [sys.executable, *check[1:]]
    return subprocess.run(
        command, env=environment, stderr=subprocess.DEVNULL, check=False
    ).returncode


def _ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _project() -> dict[str, str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, str] = tomllib.load(file)["project"]
        return project


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
    done = finished([*command])
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
    done = finished([of_the_system("systemd-analyze"), "verify", unit])
    message = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in message if UNIT.name in line)
