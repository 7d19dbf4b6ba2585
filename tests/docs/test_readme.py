"""README's record is an event under README's configuration."""

from __future__ import annotations

import re
from pathlib import Path

from streameval.config import load
from streameval.decoding.decode import Decoder
from streameval.events import Event
from tests.decoding.records import read

_README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_record_is_valid_under_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "streameval.toml"
    path.write_text(_block("toml"))
    config = load(path)
    event = read(Decoder(config.event, config.dimensions()), _block("json").encode())
    assert isinstance(event, Event)
    assert (event.labels, event.interactions) == (("a",), ["b"])
    assert event.ts is not None
