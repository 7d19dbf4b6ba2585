from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.browser.site import Site

_QUIET = (
    "--headless --no-sandbox --disable-gpu --in-process-gpu --no-zygote --disable-quic "
    "--no-first-run --disable-background-networking --disable-component-update --disable-sync"
)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with site.server:
        yield site


# Not of the session: Playwright's loop runs as long as the browser, and other tests have their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(
        filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *names))), None
    )
    if executable is None:
        pytest.skip("there is no browser: install the system's package `chromium`")
    with sync_playwright() as playwright:
        expect.set_options(timeout=60_000)
        browser = playwright.chromium.launch(executable_path=executable, args=_QUIET.split())
        yield browser
        browser.close()


_SIZE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="package")
def _tab(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=_SIZE) as context:
        yield context.new_page()


@pytest.fixture
def page(_tab: Page) -> Iterator[Page]:
    """The one window of all: to open one costs more than a test. Each site is an origin anew."""
    _tab.set_viewport_size(_SIZE)
    yield _tab
    _tab.goto("about:blank")


@pytest.fixture(scope="package")
def _plain_tab(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=_SIZE, java_script_enabled=False) as context:
        yield context.new_page()


@pytest.fixture
def plain_page(_plain_tab: Page) -> Iterator[Page]:
    _plain_tab.set_viewport_size(_SIZE)
    yield _plain_tab
    _plain_tab.goto("about:blank")


@pytest.fixture
def own_page(browser: Browser) -> Iterator[Page]:
    """For a test that leaves its clock, scripts or listeners behind."""
    with browser.new_context(viewport=_SIZE) as context:
        yield context.new_page()
