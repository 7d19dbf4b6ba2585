"""The experiment on the page: with scripts and without, on a desk and on a phone."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page, expect

from streameval.statistics.intervals import Interval
from tests.browser.site import Site, heard, moment
from tests.exporters.experiments import CONTROL, TREATMENT, report, variant
from tests.exporters.pictures import mean, picture

pytestmark = pytest.mark.browser


def test_verdicts_move_with_the_experiment(site: Site, page: Page) -> None:
    said = heard(page)
    site.snapshot = msgspec.structs.replace(moment(1), experiment=report())
    page.goto(site.address)
    better = page.locator("#experiment .verdict.better")
    expect(better).to_have_count(2)
    expect(better.first).to_contain_text("better: at least +")
    lost = {"control": variant(CONTROL), "treatment": variant(TREATMENT, users=15_000, seed=2)}
    site.snapshot = msgspec.structs.replace(moment(2), experiment=report(lost))
    expect(page.locator("#experiment .alarm")).to_contain_text("users are not split as planned")
    expect(better).to_have_count(0)
    expect(page.locator("#experiment")).to_have_count(1)
    assert said == []


def test_without_scripts_a_phone_shows_the_same(site: Site, plain_page: Page) -> None:
    site.snapshot = msgspec.structs.replace(moment(1), experiment=report())
    plain_page.set_viewport_size({"width": 390, "height": 844})
    plain_page.goto(site.address)
    rows = plain_page.locator("#experiment .forest tbody tr")
    expect(rows).to_have_count(4)
    row = rows.first
    expect(row.locator("th code")).to_have_text("ndcg@10")
    box = row.locator("strong.verdict").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    widths = plain_page.locator("#experiment").bounding_box()
    assert widths is not None
    assert widths["width"] <= 390


def test_evidence_by_day_stays_open_as_a_table_while_it_moves(site: Site, page: Page) -> None:
    site.snapshot = msgspec.structs.replace(moment(1), experiment=report())
    page.goto(site.address)
    table = page.locator("#experiment .days table")
    expect(page.locator("#experiment .days svg")).to_be_visible()
    expect(table).not_to_be_visible()
    page.locator("#experiment .days summary").click()
    expect(table.locator("tbody tr")).to_have_count(5)
    longer = {"control": variant(CONTROL, days=7), "treatment": variant(TREATMENT, seed=2, days=7)}
    site.snapshot = msgspec.structs.replace(moment(2), experiment=report(longer))
    expect(table.locator("tbody tr")).to_have_count(7)
    expect(table).to_be_visible()


@pytest.mark.parametrize(("window", "where"), [("page", "#live"), ("plain_page", "#plain")])
def test_a_value_stands_with_its_interval(
    site: Site, window: str, where: str, request: pytest.FixtureRequest
) -> None:
    sure = Interval(low=0.25, high=0.0625 + 0.5, confidence=0.95, kind="anytime", groups=99.0)
    series = [
        msgspec.structs.replace(each, reading=msgspec.structs.replace(each.reading, interval=sure))
        for each in (mean("ndcg@10", ("control",), 3.0, 8), mean("ndcg@10", ("treatment",), 4.0, 8))
    ]
    site.snapshot = picture(*series)
    page: Page = request.getfixturevalue(window)
    page.goto(site.address)
    told = page.locator(f"{where} small", has_text="95 % interval 0.2500 to 0.5625")
    expect(told).to_have_count(2)
