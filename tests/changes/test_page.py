"""The part of the page about changes."""

from __future__ import annotations

import re

import msgspec

from streameval.analyses.changes.analysis import CHANGES, section
from streameval.analyses.changes.words import sentence
from streameval.engine.analysis import Finding
from streameval.exporters.page.charts import DAY_SECONDS, at_day
from streameval.exporters.page.page import body
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import State
from streameval.exporters.page.templates import keep_percent_together
from tests.exporters.changing import SINCE, changes_report
from tests.exporters.pictures import charts, picture


def test_a_change_is_drawn_with_its_days_its_band_and_the_rollout() -> None:
    report = changes_report()
    html = section(report)
    worse, total = charts(html)
    change = report.changes[1]
    assert change.since is not None
    assert [worse["title"], total["title"]] == ["ctr of b by day", "ctr by day"]
    assert worse["span"] == [at_day(SINCE) - 1.5 * DAY_SECONDS, at_day(SINCE) + 1.5 * DAY_SECONDS]
    assert worse["marks"] == [at_day(SINCE)]
    assert worse["note"] == "model 7 began on 3 Mar."
    assert worse["label"] == f"ctr of b by day: {sentence(change)}"
    assert worse["lines"][0]["points"] == [[at_day(day.day), day.value] for day in change.days]
    assert worse["band"] == [
        [at_day(day.day), day.low, day.high] for day in change.days if day.low is not None
    ]
    assert keep_percent_together(sentence(change)) in html
    assert re.findall(r'<strong class="verdict (.*?)">(.*?)</strong>', html) == [
        ("worse", "worse than the others")
    ]
    assert "it needs 22 days" in html
    assert "1e6" not in html


def test_without_a_change_only_the_total_is_drawn() -> None:
    html = section(changes_report(fallen=False))
    (total,) = charts(html)
    assert "span" not in total
    assert "no change seen" in html


def test_the_page_has_it_only_where_changes_are_watched() -> None:
    plain = picture()
    watched = msgspec.structs.replace(plain, findings=(Finding(CHANGES, changes_report()),))
    state = State(ready=True, word="Ready", why="")
    pages = [body(shown, state, Selection()) for shown in (plain, watched)]
    assert ["Watched series" in page for page in pages] == [False, True]
