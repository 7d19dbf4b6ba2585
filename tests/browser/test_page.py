from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright

from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from streameval.pipeline.snapshot import Snapshot
from tests.exporters.pictures import (
    health,
    mean,
    partition,
    picture,
    property_of_all,
    windowed,
)

pytestmark = pytest.mark.browser

_QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
_VALUES = "nodes => nodes.map(node => node.value)"


class Site:
    """A server whose snapshot the test sets."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = moment(1)
        app = application(lambda: self.snapshot, PrometheusExporter(version="1"))
        self.server = Server(app, "127.0.0.1:0")


def moment(version: int) -> Snapshot:
    slices = [(variant, campaign) for variant in ("a<b>", "b") for campaign in ("men", "women")]
    series = [
        mean("ndcg@10", each, version * (1 / 3 + number), version * 7)
        for number, each in enumerate(slices)
    ]
    series += [mean("ctr", (f"v{number}", "all"), version, 900) for number in range(6)]
    series += [property_of_all("item_coverage@10", slices[0], float("nan"))]
    parts = (partition(0, version * 5, 99, 1_760_000_000_000_000), partition(1, 3, None))
    state = health(consumed=version * 8, invalid={"not_json": 1}, partitions=parts)
    return picture(*series, version=version, label_names=("variant", "campaign"), state=state)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with site.server:
        yield site


@pytest.fixture
def page() -> Iterator[Page]:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *names))), None)
    if found is None:
        pytest.skip("there is no browser: install the system's package `chromium`")
    with sync_playwright() as playwright:
        expect.set_options(timeout=60_000)
        browser = playwright.chromium.launch(executable_path=found, args=_QUIET.split())
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def values(page: Page) -> list[float]:
    """Every value and count of the metrics, as the page has them, to the last digit."""
    return [float(text) for text in page.eval_on_selector_all("article data", _VALUES)]


def records_read(page: Page) -> Locator:
    return page.locator(".totals dd").first


def expected(site: Site) -> list[float]:
    answer = httpx.get(f"{site.server.address}/api/v1/metrics", timeout=30, trust_env=False).json()
    names = ("value", "count")
    return [entry[name] for entry in answer["metrics"] for name in names if entry[name] is not None]


def test_a_browser_shows_what_the_api_says_and_keeps_up_with_it(site: Site, page: Page) -> None:
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.server.address}/")
    assert sorted(values(page)) == sorted(expected(site))
    assert page.locator(".undefined").inner_text() == "\N{EN DASH}"
    site.snapshot = moment(2)
    expect(records_read(page)).to_have_text("16")
    assert sorted(values(page)) == sorted(expected(site))
    assert said == []
    assert {url for url in asked if not url.startswith(f"{site.server.address}/")} == set()


def test_an_update_leaves_the_reader_where_they_are(site: Site, page: Page) -> None:
    page.goto(f"{site.server.address}/")
    page.locator("article .scroll").nth(1).focus()
    page.evaluate("scrollTo(0, 100)")
    site.snapshot = moment(2)
    expect(records_read(page)).to_have_text("16")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "ctr"
    assert page.evaluate("scrollY") == 100


def test_a_paused_page_stands_still_until_told_to_go_on(site: Site, page: Page) -> None:
    page.clock.install()
    page.goto(f"{site.server.address}/")
    page.get_by_role("button", name="Pause").click()
    site.snapshot = moment(2)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    assert asked == []
    page.get_by_role("button", name="Go on").click()
    page.clock.run_for(2_000)
    expect(records_read(page)).to_have_text("16")


def test_a_daemon_that_is_gone_is_said(site: Site, page: Page) -> None:
    page.goto(f"{site.server.address}/")
    site.server.stop()
    expect(page.get_by_role("status")).to_contain_text("does not answer")


@pytest.mark.parametrize("width", [390, 1280])
def test_two_slices_side_by_side_are_never_cut_off(site: Site, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    texts, variants = ("ndcg@10", "recall@10", "map@10"), ("control", "treatment")
    series = (mean(text, (each,), 3_300.0, 10_000) for text in texts for each in variants)
    site.snapshot = picture(*series)
    page.goto(f"{site.server.address}/")
    cut = "each => each.filter(t => t.scrollWidth > t.parentElement.clientWidth).length"
    assert page.locator(".few table").count() == len(texts)
    assert page.locator(".few table").evaluate_all(cut) == 0


@pytest.mark.parametrize("width", [320, 1280])
def test_windows_and_segments_are_shown_whole_and_kept_up_to_date(
    site: Site, page: Page, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    site.snapshot = with_windows(1)
    page.goto(f"{site.server.address}/")
    assert sorted(values(page)) == sorted(expected(site))
    heads = page.locator("article").first.locator("thead th").all_inner_texts()
    assert heads == ["variant", "5m", "24h", "lifetime"]
    assert page.get_by_role("heading", name="By country", exact=True).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == width
    site.snapshot = with_windows(2)
    expect(records_read(page)).to_have_text("16")
    assert sorted(values(page)) == sorted(expected(site))


def with_windows(version: int) -> Snapshot:
    series = [
        windowed(mean(text, (*slice_, *country), version * 9.0, 900 * version), window, family)
        for family, country in enumerate([(), ("nl",)])
        for text in ("ndcg@10", "ctr")
        for slice_ in (("control",), ("treatment",))
        for window in ("5m", "24h", "lifetime")
    ]
    state = health(consumed=version * 8)
    windows, segments = ("5m", "24h"), ("country",)
    return picture(*series, version=version, windows=windows, segments=segments, state=state)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_never_scrolls_sideways(site: Site, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{site.server.address}/")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_without_scripts_the_page_is_whole(site: Site, page: Page) -> None:
    context = page.context.browser
    assert context is not None
    plain = context.new_context(java_script_enabled=False).new_page()
    plain.goto(f"{site.server.address}/")
    assert plain.locator("article data").count() == len(expected(site))
    assert plain.get_by_role("heading", name="ndcg@10").count() == 1
