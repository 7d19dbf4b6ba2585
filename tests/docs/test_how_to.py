"""Pages whose files and commands stand on their own are played: they print what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import fences, label, pages
from tests.docs.playing import Player, player
from tests.effort import every_case
from tests.house.checkout import ROOT

_FOLDERS = (ROOT / "docs" / "how-to", ROOT / "docs" / "explanation")
PLAYED = [
    page
    for page in pages()
    if page.parent in _FOLDERS
    and any(block.language == "sh" for block in fences(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("page", PLAYED, ids=label)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    with player(Player(tmp_path)) as playing:
        assert playing.play(page.read_text(encoding="utf-8")) == ""


@every_case("page", PLAYED)
def test_files_are_named_where_their_reader_sees_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [
        block.name for block in fences(text) if block.name and f"`{block.name}`" not in text
    ] == []


def test_there_are_pages_to_be_played() -> None:
    assert {page.parent for page in PLAYED} == set(_FOLDERS)


@pytest.mark.parametrize(
    "block", ["```sh\nfalse\n```\n", "```sh\necho no\n```\n\n```text\nyes\n```\n"]
)
def test_a_command_that_does_something_else_is_found(block: str, tmp_path: Path) -> None:
    assert Player(tmp_path).play(block) != ""
