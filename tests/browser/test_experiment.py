"""The experiment on the page: with scripts and without, on a desk and on a phone."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import Site, moment
from tests.exporters.experiments import CONTROL, TREATMENT, report, variant

pytestmark = pytest.mark.browser


def test_verdicts_move_with_the_experiment(site: Site, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
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


def test_without_scripts_a_phone_shows_the_same(site: Site, browser: Browser) -> None:
    site.snapshot = msgspec.structs.replace(moment(1), experiment=report())
    with browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 844}
    ) as context:
        page = context.new_page()
        page.goto(site.address)
        expect(page.locator("#experiment tbody tr")).to_have_count(4)
        row = page.locator("#experiment tbody tr").first
        expect(row.locator("th code")).to_have_text("ndcg@10")
        box = row.locator("strong.verdict").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
        widths = page.locator("#experiment").bounding_box()
        assert widths is not None
        assert widths["width"] <= 390
