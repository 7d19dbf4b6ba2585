"""The page fits every width, works without scripts, is small, and is accessible."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from streameval.exporters.web.charts.hook import FILES, ChartsError, fetch
from tests.browser.site import Site, moment, values, with_windows
from tests.exporters.experiments import report
from tests.exporters.pictures import mean, picture
from tests.house.checkout import PACKAGE

pytestmark = pytest.mark.browser

_UPLOT = PACKAGE / "exporters" / "web" / "static" / "uplot"
_LARGEST = 150_000


def test_two_variants_are_never_cut_off(site: Site, page: Page) -> None:
    texts, variants = ("ndcg@10", "recall@10", "map@10"), ("control", "treatment")
    series = (mean(text, (each,), 3_300.0, 10_000) for text in texts for each in variants)
    site.snapshot = picture(*series)
    page.goto(site.address)
    expect(page.locator("#live table")).to_have_count(len(texts))
    cut = "each => each.filter(t => t.scrollWidth > t.parentElement.clientWidth).length"
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator("#live table").evaluate_all(cut) == 0, width


def test_the_page_never_scrolls_sideways(site: Site, page: Page) -> None:
    site.snapshot = with_windows(1)
    for path in ("", "?view=ndcg@10", "?segment=country"):
        page.goto(site.address + path)
        expect(page.locator("#live data").first).to_be_visible()
        for width in (320, 390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width, path


@pytest.mark.parametrize("make", [moment, with_windows])
def test_without_scripts_a_table_has_the_same_numbers(
    site: Site, plain_page: Page, make: type[object]
) -> None:
    site.snapshot = make(1)  # type: ignore[assignment,call-arg]  # both make snapshots
    plain_page.goto(site.address)
    assert values(plain_page, "#plain") == site.expected()
    assert plain_page.get_by_role("heading", name="ndcg@10").count() >= 1
    assert not plain_page.get_by_text("Differences are plain").is_visible()


def test_the_first_view_is_small(site: Site, own_page: Page) -> None:
    assert all((_UPLOT / name).is_file() for name in FILES), "install the package: pip install -e ."
    site.snapshot = with_windows(1)
    sizes: list[int] = []
    own_page.on(
        "requestfinished",
        lambda request: sizes.append(
            request.sizes()["responseBodySize"] + request.sizes()["responseHeadersSize"]
        ),
    )
    own_page.goto(site.address)
    expect(own_page.locator("#live .plot canvas").first).to_be_visible()
    own_page.wait_for_load_state("networkidle")
    assert 50_000 < sum(sizes) < _LARGEST


_Scheme = Literal["dark", "light"]
_VIEWS = (
    pytest.param("", 390, "light", marks=pytest.mark.nightly),
    ("?view=ndcg@10", 390, "dark"),
    ("?segment=country", 1280, "light"),
)
_LOCK = Path(__file__).parent / "axe"


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core, kept in the environment once it was fetched."""
    digest = hashlib.sha256((_LOCK / "package-lock.json").read_bytes()).hexdigest()
    kept = Path(sys.prefix) / "share" / f"axe-{digest[:16]}.js"
    if not kept.is_file():
        try:
            with tempfile.TemporaryDirectory() as folder:
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(fetch(_LOCK, Path(folder)) / "axe-core" / "axe.min.js", kept)
        except ChartsError:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip("axe-core is not here, and no package registry of npm is within reach")
    return kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "width", "scheme"), _VIEWS)
def test_axe_finds_no_violation(
    site: Site, browser: Browser, axe: str, path: str, width: int, scheme: _Scheme
) -> None:
    site.snapshot = msgspec.structs.replace(with_windows(1), experiment=report())
    # Only so that the checker's own script may run; the page's policy is tested elsewhere.
    with browser.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(site.address + path)
        expect(page.locator("#live data").first).to_be_visible()
        page.evaluate(axe)
        found = page.evaluate("axe.run().then(found => found.violations)")
        wrong = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
        assert wrong == []
