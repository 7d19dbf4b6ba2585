from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site, records_read, values, with_windows

pytestmark = pytest.mark.browser

LINKS: dict[str, dict[str, object]] = {
    "?segment=country&window=24h": {"window": "24h", "segment": "country"},
    "?metric=ctr&variant=treatment": {
        "metric": "ctr",
        "window": "5m",
        "segment": None,
        "labels": {"variant": "treatment"},
    },
    "?view=ndcg@5&window=24h": {"metric": "ndcg@5", "window": "24h", "segment": None},
}


@pytest.fixture(autouse=True)
def windows(site: Site) -> None:
    site.snapshot = with_windows(1)


def test_a_window_a_metric_and_a_cutoff_are_picked_and_stand_in_the_address(
    site: Site, page: Page
) -> None:
    page.goto(site.address)
    expect(page.locator("#live article")).to_have_count(3)
    assert values(page) == site.expected(window="5m", segment=None)
    page.get_by_role("combobox", name="Window").select_option("24h")
    expect(page.get_by_role("region", name="ctr, last 24h")).to_be_visible()
    page.get_by_role("combobox", name="Metric").select_option("ndcg")
    expect(page.locator("#live article")).to_have_count(2)
    page.get_by_role("combobox", name="Cut-off").select_option("5")
    expect(page.locator("#live article")).to_have_count(1)
    assert values(page) == site.expected(window="24h", segment=None, metric="ndcg@5")
    assert page.url.endswith("?metric=ndcg&k=5&window=24h")


def test_a_link_shows_the_same(site: Site, page: Page) -> None:
    for version, (asked, wanted) in enumerate(LINKS.items(), 1):
        page.goto(site.address + asked)
        expect(page.locator("#live data").first).to_be_visible()
        assert values(page) == site.expected(**wanted), asked
        site.snapshot = with_windows(version + 1)
        expect(records_read(page)).to_have_text(f"{version * 8 + 8}")
        assert values(page) == site.expected(**wanted), asked


def test_a_variant_is_taken_out_and_put_back_with_the_keyboard(site: Site, page: Page) -> None:
    page.goto(site.address)
    box = page.get_by_role("checkbox", name="control")
    box.focus()
    page.keyboard.press("Space")
    expect(page.locator("#live tbody tr")).to_have_count(3)
    assert page.url.endswith("?variant=treatment")
    assert page.evaluate("document.activeElement.value") == "control"
    page.keyboard.press("Space")
    expect(page.locator("#live tbody tr")).to_have_count(6)
    assert page.url == site.address


def test_one_metric_is_opened_with_what_it_means_and_left_again(site: Site, page: Page) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="ndcg@10").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#live h3.large")).to_have_text("ndcg@10")
    assert "ndcg@k = mean over lists of" in page.locator("pre").inner_text()
    facts = page.locator(".facts").inner_text()
    assert "0 to 1" in facts
    assert "Higher is better." in facts
    assert "TOIS 2002" in facts
    titles = page.locator(".wide h4")
    expect(titles).to_have_text(
        [
            "Last 5m, side by side",
            "Each short span alone",
            "control, all windows",
            "treatment, all windows",
        ]
    )
    lines = page.locator(".wide article").nth(2).locator("li").all_inner_texts()
    assert [line.strip().rpartition(" ")[0] for line in lines] == [
        "last 5m",
        "last 24h",
        "all time",
    ]
    page.get_by_text("Values over time as a table").click()
    expect(page.locator("details tbody tr").first).to_contain_text("UTC")
    page.go_back()
    expect(page.locator("#live article")).to_have_count(3)
