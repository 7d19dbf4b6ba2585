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
from playwright.sync_api import Browser, expect

from streameval.exporters.web.charts.hook import ChartsError, fetch
from tests.browser.site import Site, with_windows
from tests.exporters.experiments import report

pytestmark = pytest.mark.browser

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
