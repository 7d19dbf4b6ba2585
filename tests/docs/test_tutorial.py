"""The tutorial is played as it stands: its Kafka, its daemon, its Prometheus."""

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
from tests.docs.playing import Player, player
from tests.house.checkout import ROOT
from tests.ports import WEB, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.prometheus]

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tutorial(
    tmp_path_factory: pytest.TempPathFactory, _session_broker: Broker
) -> Iterator[tuple[Player, str]]:
    for name in ("prometheus", "promtool", "curl"):
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} on the PATH")
    _session_broker.start()
    changed = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (9877, 9090)}
    changed["127.0.0.1:9092"] = _session_broker.bootstrap_servers
    changed["recommendation-events"] = f"tutorial-{uuid.uuid4().hex}"
    with player(Player(tmp_path_factory.mktemp("tutorial"), changed)) as playing:
        yield playing, playing.play(TEXT)


def test_every_command_does_what_the_page_says(tutorial: tuple[Player, str]) -> None:
    assert tutorial[1] == ""


def test_the_page_is_served(tutorial: tuple[Player, str]) -> None:
    address = tutorial[0].as_here("http://127.0.0.1:9877/")
    answer = WEB.get(address)
    assert answer.status_code == httpx.codes.OK
    assert "hit_rate@10" in answer.text


def test_what_it_installs_is_there_to_be_installed() -> None:
    shown = "".join(block.code for block in fences(TEXT) if block.language == "bash")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"pip install '\.\[([\w,]+)\]'", shown)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
