"""Runs the whole tutorial, with its Kafka, daemon and Prometheus."""

from __future__ import annotations

import re
import shutil
import tomllib
import uuid
from collections.abc import Iterator

import httpx
import pytest

from streameval.testing.broker import Broker
from tests.docs.markdown import fences
from tests.docs.page_runner import PageRunner
from tests.house.checkout import ROOT
from tests.ports import WEB, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.prometheus]

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tutorial(
    tmp_path_factory: pytest.TempPathFactory, _session_broker: Broker
) -> Iterator[tuple[PageRunner, str]]:
    for name in ("prometheus", "promtool", "curl"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not on the PATH")
    _session_broker.start()
    replacements = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (9877, 9090)}
    replacements["127.0.0.1:9092"] = _session_broker.bootstrap_servers
    replacements["recommendation-events"] = f"tutorial-{uuid.uuid4().hex}"
    with PageRunner(tmp_path_factory.mktemp("tutorial"), replacements) as runner:
        yield runner, runner.run(TEXT)


def test_every_command_prints_what_the_tutorial_shows(tutorial: tuple[PageRunner, str]) -> None:
    assert tutorial[1] == ""


def test_the_page_is_served(tutorial: tuple[PageRunner, str]) -> None:
    address = tutorial[0].replaced("http://127.0.0.1:9877/")
    response = WEB.get(address)
    assert response.status_code == httpx.codes.OK
    assert "hit_rate@10" in response.text


def test_every_extra_in_the_tutorial_exists() -> None:
    shown = "".join(block.code for block in fences(TEXT) if block.language == "bash")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"pip install '\.\[([\w,]+)\]'", shown)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
