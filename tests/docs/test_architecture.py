"""The page of the counting core names each of its files once, and none that is not there."""

from __future__ import annotations

import re

import pytest

from tests.house.checkout import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
ROOMS = ("events", "statistics", "catalogue", "metrics", "accumulator")
_ROOM = re.compile(r"^### `(\w+)`\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w/]+\.(?:py|c))`")


def _named() -> dict[str, list[str]]:
    """The files that the section of each room names."""
    sections = _ROOM.findall(PAGE.read_text(encoding="utf-8"))
    return {room: _FILE.findall(text) for room, text in sections}


@pytest.mark.parametrize("room", ROOMS)
def test_each_file_of_a_room_is_named_once_and_no_other(room: str) -> None:
    folder = ROOT / "streameval" / room
    sources = (*folder.rglob("*.py"), *folder.rglob("*.c"))
    assert sorted(_named()[room]) == sorted(str(path.relative_to(folder)) for path in sources)


def test_the_page_has_these_rooms_in_the_order_of_their_layers() -> None:
    assert tuple(_named()) == ROOMS
