"""Runs the pages whose files and commands are self-contained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import fences, label, pages
from tests.docs.page_runner import PageRunner
from tests.effort import every_case
from tests.house.checkout import ROOT

_FOLDERS = (ROOT / "docs" / "how-to", ROOT / "docs" / "explanation")
PAGES = [
    page
    for page in pages()
    if page.parent in _FOLDERS
    and any(block.language == "sh" for block in fences(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    with PageRunner(tmp_path) as runner:
        assert runner.run(page.read_text(encoding="utf-8")) == ""


@every_case("page", PAGES)
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
