"""The page of the counting core names no file that is not there."""

from __future__ import annotations

import re

from tests.house.checkout import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
_ROOM = re.compile(r"^### `(\w+)`\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w/]+\.(?:py|c))`")


def test_each_file_that_the_section_of_a_room_names_is_there() -> None:
    named = [
        ROOT / "streameval" / room / file
        for room, text in _ROOM.findall(PAGE.read_text(encoding="utf-8"))
        for file in _FILE.findall(text)
    ]
    assert len(named) > 40
    assert [path for path in named if not path.is_file()] == []
