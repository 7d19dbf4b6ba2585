"""Runs the pages whose commands are self-contained, and the tutorial with its services."""

from __future__ import annotations

import re
import shutil
import tomllib
import uuid
from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.docs.markdown import fences, label, pages
from tests.docs.page_runner import PageRunner
from tests.house.checkout import ROOT
from tests.ports import free_port

_FOLDERS = (ROOT / "docs" / "how-to", ROOT / "docs" / "explanation")
PAGES = [
    page
    for page in pages()
    if page.parent in _FOLDERS
    and any(block.language == "sh" for block in fences(page.read_text(encoding="utf-8")))
]


_LONG = ("another-policy.md", "public-datasets.md")
"""Pages whose commands take as long as those of the others together; they run at night."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=label(page), marks=[pytest.mark.nightly] * (page.name in _LONG))
        for page in PAGES
    ],
)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    with PageRunner(tmp_path) as runner:
        assert runner.run(page.read_text(encoding="utf-8")) == ""


@pytest.mark.parametrize("page", PAGES)
def test_the_text_names_every_file_of_a_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [
        block.name for block in fences(text) if block.name and f"`{block.name}`" not in text
    ] == []


def test_pages_of_each_folder_are_run() -> None:
    assert {page.parent for page in PAGES} == set(_FOLDERS)


@pytest.mark.parametrize(
    "block", ["```sh\nfalse\n```\n", "```sh\necho no\n```\n\n```text\nyes\n```\n"]
)
def test_a_failing_command_or_another_output_is_reported(block: str, tmp_path: Path) -> None:
    assert PageRunner(tmp_path).run(block) != ""


TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.kafka
@pytest.mark.prometheus
def test_every_command_prints_what_the_tutorial_shows(broker: Broker, tmp_path: Path) -> None:
    for name in ("prometheus", "promtool", "curl"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not on the PATH")
    replacements = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (9877, 9090)}
    replacements["127.0.0.1:9092"] = broker.bootstrap_servers
    replacements["recommendation-events"] = f"tutorial-{uuid.uuid4().hex}"
    with PageRunner(tmp_path, replacements) as runner:
        assert runner.run(TEXT) == ""


def test_every_extra_in_the_tutorial_exists() -> None:
    shown = "".join(block.code for block in fences(TEXT) if block.language == "bash")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"pip install '\.\[([\w,]+)\]'", shown)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
