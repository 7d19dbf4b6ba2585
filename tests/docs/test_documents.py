"""Code in the documents runs, and their tables are complete."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from streameval.catalogue import catalogue
from streameval.config import load
from streameval.decoding.decode import Decoder
from streameval.events import Event
from streameval.sources.kafka.connections import REASONS as CONNECTION_REASONS
from tests.decoding.records import read
from tests.docs.markdown import fences, label, pages
from tests.effort import every_case
from tests.house.checkout import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
_THREATS = ROOT / "docs" / "explanation" / "threat-model.md"


def _blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{label(page)}-{number}", block.code)
        for page in pages()
        for number, block in enumerate(fences(page.read_text(encoding="utf-8")), 1)
        if block.language == language and not block.name
    ]


def _table(page: str, heading: str) -> dict[str, str]:
    """First column, without its quotes -> the rest of each row below a heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text.partition(f"{heading}\n")[2]
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE))


@pytest.mark.parametrize(("name", "code"), _blocks("python"))
def test_a_script_in_the_documents_runs(name: str, code: str, tmp_path: Path) -> None:
    script = tmp_path / f"{name.replace('/', '_').replace('.', '_')}.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    promised = re.findall(r"print\(.*# ([0-9.]+)", code)
    assert result.stdout.split() == promised


def test_the_documents_have_a_script_of_several_processes() -> None:
    assert any("ProcessPoolExecutor" in code and "merge" in code for _, code in _blocks("python"))


@every_case(("name", "code"), _blocks("toml"))
def test_a_configuration_in_the_documents_loads(name: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "streameval.toml"
    metrics = "" if "metrics" in tomllib.loads(code) else 'metrics = ["mrr"]\n'
    path.write_text(metrics + code, encoding="utf-8")
    assert load(path).metrics, name


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 120


def test_the_record_of_the_readme_is_valid_under_its_configuration(tmp_path: Path) -> None:
    block = {each.language: each.code for each in fences(README)}
    path = tmp_path / "streameval.toml"
    path.write_text(block["toml"])
    config = load(path)
    event = read(Decoder(config.event, config.dimensions()), block["json"].encode())
    assert isinstance(event, Event)
    assert (event.labels, event.interactions) == (("a",), ["b"])
    assert event.ts is not None


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", _THREATS.read_text(encoding="utf-8"))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    assert named
    assert [each for each in named if f"def {each[1]}(" not in texts[each[0]]] == []


def test_the_runbook_has_every_reason_of_a_failed_connection() -> None:
    assert set(_table("runbook.md", "## StreamevalNotReady")) == set(CONNECTION_REASONS)


def test_the_documents_list_the_whole_catalogue() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    section = page.partition("\n## The catalogue\n")[2].partition("\n## ")[0]
    assert re.findall(r"^- \[`(\w+)`\]", section, re.MULTILINE) == list(catalogue())


CONTRIBUTING = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
_FILE = re.compile(r"`([a-z_/]+/(?:[a-z_]+|<\w+>)\.(?:py|js|md))`")
_GROUP = re.compile(r"`([a-z]+)/` \(([^)]+)\)")


def _named(text: str) -> set[str]:
    """Files that a text names, singly or grouped by folder."""
    groups = {
        f"{folder}/{name}.py"
        for folder, modules in _GROUP.findall(text)
        for name in re.findall(r"`(\w+)`", modules)
    }
    return groups | set(_FILE.findall(text))


def test_every_file_that_contributing_names_exists() -> None:
    named = {path for path in _named(CONTRIBUTING) if "<" not in path}
    roots = (ROOT, ROOT / "streameval")
    assert named
    assert [path for path in named if not any((each / path).is_file() for each in roots)] == []


def test_the_paths_of_a_record_and_a_checkpoint_have_the_stated_number_of_files() -> None:
    rest = CONTRIBUTING.partition("A record becomes a sample")[2]
    record, _, checkpoint = rest.partition("A checkpoint is written")
    for way in (record, checkpoint):
        (said,) = re.findall(r"^ (?:in|by) (\d+)", way)
        assert len(_named(way)) == int(said)
