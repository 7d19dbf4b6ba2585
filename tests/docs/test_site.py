"""The documentation is built as a site without a warning; each public name has its page."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.site import PUBLIC, public_names
from tests.house.checkout import ROOT

NAMES = [(module, name) for module, names in public_names().items() for name in names]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    result = subprocess.run(
        [*command, "--config-file", ".mkdocs.yml", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_every_public_name_has_a_page_and_no_other_has(site: Path) -> None:
    pages = {path.parent.name for path in (site / "reference" / "python").glob("*/index.html")}
    assert pages == {f"{module}.{name}" for module, name in NAMES} | {"errors"}


def test_a_page_shows_its_example_as_code(site: Path) -> None:
    page = site / "reference" / "python" / "streameval.Accumulator" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "Counts events and gives the current value of every metric." in text
    assert "Examples:" in text
    assert "&gt;&gt;&gt; </span>" in text


def test_links_to_files_beside_the_documentation_lead_to_the_repository(site: Path) -> None:
    text = (site / "how-to" / "release" / "index.html").read_text(encoding="utf-8")
    assert 'href="https://git.example/streameval/blob/main/deploy/requirements.txt"' in text
    assert 'href="https://git.example/streameval/edit/main/docs/how-to/release.md"' in text


def test_a_public_name_is_what_its_module_says_and_has_an_example() -> None:
    lacking = [
        f"{module}.{name}"
        for module, name in NAMES
        if callable(public := getattr(import_module(module), name))
        and ">>>" not in (inspect.getdoc(public) or "")
    ]
    assert lacking == []


def test_every_module_that_contributing_lets_users_import_is_in_the_reference() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("Users also import"))
    for module in PUBLIC[1:]:
        assert module.removeprefix("streameval.") in line
