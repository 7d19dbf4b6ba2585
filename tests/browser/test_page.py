from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import (
    Site,
    heard,
    moment,
    panes,
    records_read,
    requests_of,
    values,
    with_windows,
)
from tests.exporters.pictures import mean, picture

pytestmark = pytest.mark.browser


def test_a_browser_shows_what_the_api_says_and_keeps_up_with_it(site: Site, page: Page) -> None:
    console, requests = heard(page), requests_of(page)
    page.goto(site.address)
    expect(page.locator("#live article")).to_have_count(3)
    assert values(page) == site.expected()
    assert page.locator("#live .undefined").inner_text().startswith("\N{EN DASH}")
    for version in (2, 3, 4):
        site.snapshot = moment(version)
        expect(records_read(page)).to_have_text(f"{8 * version}")
        assert values(page) == site.expected()
        assert page.locator("#live").get_attribute("data-version") == f"{version}"
    assert page.locator("#state .age").inner_text() == "4 s"
    assert console == []
    assert {url for url in requests if not url.startswith(site.address)} == set()


def test_an_update_leaves_the_reader_where_they_are(site: Site, page: Page) -> None:
    page.goto(site.address)
    expect(page.locator("#live article")).to_have_count(3)
    page.locator("#live article .scroll").nth(1).focus()
    page.evaluate("scrollTo(0, 100)")
    site.snapshot = moment(2)
    expect(records_read(page)).to_have_text("16")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "ctr, all time"
    assert page.evaluate("scrollY") == 100


def test_a_paused_page_stands_still_until_told_to_go_on(site: Site, own_page: Page) -> None:
    own_page.clock.install()
    own_page.goto(site.address)
    expect(own_page.locator("#live article")).to_have_count(3)
    own_page.get_by_role("button", name="Pause").click()
    own_page.wait_for_load_state("networkidle")
    site.snapshot = moment(2)
    requests = requests_of(own_page)
    own_page.clock.run_for(20_000)
    assert requests == []
    own_page.get_by_role("button", name="Resume").click()
    expect(records_read(own_page)).to_have_text("16")


def test_a_hidden_tab_asks_for_nothing(site: Site, own_page: Page) -> None:
    own_page.clock.install()
    own_page.goto(site.address)
    expect(own_page.locator("#live article")).to_have_count(3)
    # Requests of the first drawing may come after its cards.
    own_page.wait_for_load_state("networkidle")
    own_page.evaluate(_HIDE, arg=True)
    requests = requests_of(own_page)
    own_page.clock.run_for(20_000)
    assert requests == []
    site.snapshot = moment(2)
    own_page.evaluate(_HIDE, arg=False)
    expect(records_read(own_page)).to_have_text("16")


_HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_what_did_not_change_is_not_sent_again(site: Site, page: Page) -> None:
    with page.expect_response(f"{site.address}main") as first:
        page.goto(site.address)
    with page.expect_response(f"{site.address}main") as again:
        pass
    assert (first.value.status, again.value.status) == (200, 304)


def test_a_daemon_that_is_gone_is_said(site: Site, page: Page) -> None:
    page.goto(site.address)
    expect(page.locator("#live article")).to_have_count(3)
    site.server.stop()
    expect(page.get_by_role("status")).to_contain_text("does not respond")


def test_a_difference_has_a_sign_and_no_verdict(site: Site, page: Page) -> None:
    series = [mean("ndcg@10", ("control",), 2.0, 10), mean("ndcg@10", ("treatment",), 1.0, 10)]
    series += [mean("rmse", ("control",), 1.0, 10), mean("rmse", ("treatment",), 2.0, 10)]
    site.snapshot = picture(*series)
    page.goto(site.address)
    expect(page.locator("#live article")).to_have_count(2)
    lower, higher = page.locator("#live .difference").all()
    assert lower.inner_text() == "-0.100 (-50.0\N{NO-BREAK SPACE}%)"
    assert higher.inner_text() == "+0.100 (+100\N{NO-BREAK SPACE}%)"
    colour = "node => getComputedStyle(node).color"
    assert lower.evaluate(colour) == higher.evaluate(colour)


def test_charts_are_drawn_of_what_was_before(site: Site, page: Page) -> None:
    site.snapshot = with_windows(1)
    page.goto(site.address)
    expect(page.locator("#live .canvas canvas").first).to_be_visible()
    first = page.get_by_role("img", name="Over time: ndcg@10, last 5m.").first
    expect(first).to_have_attribute("aria-label", _said("0.01222", "0.02333"))
    site.snapshot = with_windows(2)
    expect(first).to_have_attribute("aria-label", _said("0.01333", "0.02444"))


def _said(control: str, treatment: str) -> re.Pattern[str]:
    return re.compile(f"control: now {control}.*treatment: now {treatment}")


_DRAWN = """
const draw = CanvasRenderingContext2D.prototype.fillText;
globalThis.drawn = new Set();
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  globalThis.drawn.add(text);
  return draw.call(this, text, ...rest);
};
"""


_TIMES = [f"00:0{seconds // 60}:{seconds % 60:02}" for seconds in range(30, 91, 10)]


def test_a_lone_tick_has_its_decimals(site: Site, own_page: Page) -> None:
    site.snapshot = panes(0.6)
    own_page.add_init_script(_DRAWN)
    own_page.goto(site.address)
    own_page.wait_for_function("() => drawn.size > 1")
    assert own_page.evaluate("[...drawn]") == [*_TIMES, "0.6"]
