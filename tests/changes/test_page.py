"""The part of the page about changes."""

from __future__ import annotations

import re

import msgspec

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.changes.page import section
from streameval.engine.analysis import Finding
from streameval.exporters.page.page import body
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import State
from tests.exporters.changing import changes_report
from tests.exporters.pictures import picture


def test_a_change_is_drawn_with_its_day_its_band_and_the_rollout() -> None:
    html = section(changes_report())
    assert html.count("<svg") == 2
    assert html.count('class="usual"') == 2
    assert html.count('class="began"') == 1
    assert "model 7 began on 3 Mar" in html
    assert "ctr of b is worse than the others since 3 Mar (2 to 4 Mar)" in html
    assert "come from another audience" in html
    assert re.findall(r"<strong>(.*?)</strong>", html) == ["worse than the others"]
    assert "it needs 22 days" in html
    assert "at most once in more than a million days" in html
    assert "1e6" not in html


def test_without_a_change_only_the_total_is_drawn() -> None:
    html = section(changes_report(fallen=False))
    assert (html.count("<svg"), html.count('class="began"')) == (1, 0)
    assert "no change seen" in html


def test_the_page_has_it_only_where_changes_are_watched() -> None:
    plain = picture()
    watched = msgspec.structs.replace(plain, findings=(Finding(CHANGES, changes_report()),))
    state = State(ready=True, word="Ready", why="")
    pages = [body(shown, state, Selection()) for shown in (plain, watched)]
    assert ["Watched series" in page for page in pages] == [False, True]
