from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

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
    found = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *names))), None)
    if found is None:
        pytest.skip("there is no browser: install the system's package `chromium`")
    with sync_playwright() as playwright:
        expect.set_options(timeout=60_000)
        browser = playwright.chromium.launch(executable_path=found, args=_QUIET.split())
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that knows nothing of those before it."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield context.new_page()
