"""The threat model names tests that are there."""

from __future__ import annotations

import re

from tests.house.checkout import ROOT

_PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_that_a_threat_is_answered_by_is_there() -> None:
    named = _NAMED.findall(_PAGE.read_text(encoding="utf-8"))
    gone = [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert named
    assert gone == []
