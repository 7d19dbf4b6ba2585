"""The documentation is built as a site without a warning; each public name has its page."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from tests.docs.site import PUBLIC, on_page_markdown, public_names
from tests.house.checkout import ROOT
from tests.house.extras import run_with_extras

NAMES = [(module, name) for module, names in public_names().items() for name in names]


_BUILD: Final = "from mkdocs.__main__ import cli; cli()"


def _build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("build", "--strict", "--config-file", str(config), "--site-dir", str(folder))
    return run_with_extras("docs", code=_BUILD, arguments=arguments)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = _build(ROOT / ".mkdocs.yml", folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](nowhere.md)\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    config.write_text("site_name: a dead link\n", encoding="utf-8")
    result = _build(config, tmp_path / "site")
    assert result.returncode == 1
    assert result.stdout.strip() == "Aborted with 1 warnings in strict mode!"


def test_every_public_name_has_a_page_and_no_other_has(site: Path) -> None:
    pages = {path.parent.name for path in (site / "reference" / "python").glob("*/index.html")}
    assert pages == {f"{module}.{name}" for module, name in NAMES} | {"errors"}


_SEARCHES: Final = {
    **dict.fromkeys(("Flink", "Beam"), "how-to/distribute/"),
    "Airflow": "how-to/in-your-stack/",
    "BigQuery": "how-to/warehouse-and-bi/",
    **dict.fromkeys(("privacy", "GDPR"), "how-to/privacy/"),
    "late clicks": "how-to/late-clicks/",
    "user group": "how-to/files-and-columns/",
    "confidence interval": "explanation/is-it-real/",
    "refund": "how-to/different-events/",
    "time zone": "explanation/windows/",
}


def test_a_search_for_a_word_of_the_field_finds_its_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    result = {
        word: any(
            entry["location"].startswith(page)
            and word.lower() in f"{entry['title']} {entry['text']}".lower()
            for entry in index["docs"]
        )
        for word, page in _SEARCHES.items()
    }
    assert [word for word, is_there in result.items() if not is_there] == []


def test_a_page_shows_its_example_as_code(site: Path) -> None:
    page = site / "reference" / "python" / "streameval.Accumulator" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "Counts events and gives the current value of every metric." in text
    assert "Examples:" in text
    assert "&gt;&gt;&gt; </span>" in text


@pytest.mark.parametrize(
    ("repository", "linked"),
    [("https://x/y", "[it](https://x/y/blob/main/LICENSE#a)"), (None, "it")],
)
def test_links_to_files_beside_the_documentation_lead_to_the_repository_if_there_is_one(
    repository: str | None, linked: str
) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/release.md"))
    config = SimpleNamespace(repo_url=repository)
    actual = on_page_markdown("[it](../../LICENSE#a) [b](b.md#c)", page=page, config=config)
    assert actual == f"{linked} [b](b.md#c)"


def test_no_link_leads_to_a_host_that_nobody_has(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    hosts = {
        host for page in pages for host in re.findall(r'(?:href|src)="https?://([^/":]+)', page)
    }
    assert {host for host in hosts if host.endswith((".example", "example.com"))} == set()


def test_a_public_name_is_what_its_module_says_and_has_an_example() -> None:
    lacking = [
        f"{module}.{name}"
        for module, name in NAMES
        if callable(public := getattr(import_module(module), name))
        and ">>>" not in (inspect.getdoc(public) or "")
    ]
    assert lacking == []


def test_every_door_that_contributing_names_is_in_the_reference() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.endswith("the package does not."))
    doors = {f"streameval.{name}" for name in re.findall(r"`(\w+)\.py`", line)}
    assert doors == {*PUBLIC[1:], "streameval.errors"} - {"streameval.testing"}
