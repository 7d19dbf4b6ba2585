"""Items that no list shows any more are removed, without any other effect."""

from __future__ import annotations

import pytest

from streameval.join import impression_buffer as module
from tests.join.test_limits import DONE, SHOWN, click, fed_with, shown


def test_unused_items_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 20)
    fed, plain = fed_with(), fed_with()
    for minute in range(40):
        lists = [
            {**shown(60 * minute + at, f"r{minute}-{at}"), "shown": [f"i{minute}", f"j{at}"]}
            for at in range(3)
        ]
        for each in (fed, plain):
            each.feed(SHOWN, lists)
            each.feed(DONE, [click(60 * minute + 3, f"r{minute}-1")])
    kept = fed.state.joiner.impressions
    assert len(kept._items) < 30
    assert fed.counted == plain.counted > 100
    assert fed.content() == plain.content()
    monkeypatch.setattr(module, "_MANY", 10**9)
    fed.restart()


def test_open_lists_keep_their_items_when_items_are_renumbered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MANY", 20)
    fed, plain = fed_with(), fed_with()
    shows = [{**shown(minute * 60, f"r{minute}"), "shown": [f"i{minute}"]} for minute in range(40)]
    clicks = [click(minute * 60 + 3, f"r{minute}") for minute in range(40)]
    for each in (fed, plain):
        for start in (0, 30):
            each.feed(SHOWN, shows[start : start + 30])
    for minute in range(40):
        fed.feed(DONE, clicks[minute : minute + 1])
    assert len(fed.state.joiner.impressions._items) < 20
    monkeypatch.setattr(module, "_MANY", 10**9)
    for minute in range(40):
        plain.feed(DONE, clicks[minute : minute + 1])
    assert fed.counted == plain.counted > 0
    assert fed.content() == plain.content()
