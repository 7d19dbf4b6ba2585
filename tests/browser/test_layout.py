"""The page fits every width, works without scripts, is accessible, and shows the experiment."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.gaps.analysis import GAPS
from streameval.building.hook import FILES, ChartsError, fetch
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import Snapshot
from streameval.exporters.page import document
from streameval.statistics.intervals import Interval
from tests.browser.site import Site, heard, moment, requests_of, values, with_windows
from tests.exporters.changing import changes_report
from tests.exporters.experiments import CONTROL, TREATMENT, findings, gap_series, report, variant
from tests.exporters.pictures import mean, picture
from tests.house.checkout import PACKAGE

pytestmark = pytest.mark.browser

_UPLOT = PACKAGE / "exporters" / "web" / "static" / "uplot"
_LARGEST = 150_000


def test_two_variants_are_never_cut_off(site: Site, page: Page) -> None:
    texts, variants = ("ndcg@10", "recall@10", "map@10"), ("control", "treatment")
    series = (mean(text, (variant,), 3_300.0, 10_000) for text in texts for variant in variants)
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
    site: Site, plain_page: Page, make: Callable[[int], Snapshot]
) -> None:
    site.snapshot = make(1)
    plain_page.goto(site.address)
    shown = "5m" if make is with_windows else "lifetime"
    assert values(plain_page) == site.expected(window=shown, segment=None)
    assert plain_page.get_by_role("heading", name="ndcg@10").count() >= 1
    assert not plain_page.get_by_text("Differences between values").is_visible()


def test_without_scripts_a_window_and_a_segment_are_chosen_with_a_button(
    site: Site, plain_page: Page
) -> None:
    site.snapshot = with_windows(1)
    plain_page.goto(site.address)
    plain_page.get_by_role("combobox", name="Window").select_option("24h")
    plain_page.get_by_role("combobox", name="Segment").select_option("country")
    plain_page.get_by_role("button", name="Show").click()
    assert values(plain_page) == site.expected(window="24h", segment="country")
    plain_page.get_by_role("link", name="ctr").click()
    assert values(plain_page) == site.expected(window="24h", segment="country", metric="ctr")


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
    expect(own_page.locator("#live .canvas canvas").first).to_be_visible()
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
    cached_path = Path(sys.prefix) / "share" / f"axe-{digest[:16]}.js"
    if not cached_path.is_file():
        try:
            with tempfile.TemporaryDirectory() as folder:
                cached_path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(fetch(_LOCK, Path(folder)) / "axe-core" / "axe.min.js", cached_path)
        except ChartsError:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip("axe-core is not here, and no package registry of npm is within reach")
    return cached_path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "width", "scheme"), _VIEWS)
def test_axe_finds_no_violation(
    site: Site, browser: Browser, axe: str, path: str, width: int, scheme: _Scheme
) -> None:
    site.snapshot = msgspec.structs.replace(with_windows(1), findings=findings())
    # Only so that the checker's own script may run; the page's policy is tested elsewhere.
    with browser.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(site.address + path)
        expect(page.locator("#live data").first).to_be_visible()
        page.evaluate(axe)
        violations = page.evaluate("axe.run().then(found => found.violations)")
        wrong = [
            (violation["id"], [node["html"] for node in violation["nodes"]])
            for violation in violations
        ]
        assert wrong == []


def test_verdicts_move_with_the_experiment(site: Site, page: Page) -> None:
    console = heard(page)
    site.snapshot = msgspec.structs.replace(moment(1), findings=findings())
    page.goto(site.address)
    better = page.locator("#experiment .verdict.better")
    expect(better).to_have_count(2)
    expect(better.first).to_contain_text("treatment is better: by at least ")
    lost = {"control": variant(CONTROL), "treatment": variant(TREATMENT, users=15_000, seed=2)}
    site.snapshot = msgspec.structs.replace(moment(2), findings=findings(report(lost)))
    expect(page.locator("#experiment .alarm")).to_contain_text("users are not split as planned")
    expect(better).to_have_count(0)
    expect(page.locator("#experiment")).to_have_count(1)
    assert console == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_of_analyses_are_drawn_on_the_page_and_in_a_file(
    site: Site, own_page: Page, tmp_path: Path, scheme: _Scheme
) -> None:
    console, requests = heard(own_page), requests_of(own_page)
    found = (*findings(), Finding(CHANGES, changes_report()))
    site.snapshot = msgspec.structs.replace(with_windows(1), findings=found)
    file = tmp_path / "report.html"
    file.write_text(document("run", [(None, site.snapshot)]))
    own_page.emulate_media(color_scheme=scheme)
    for address in (site.address, file.as_uri()):
        own_page.goto(address)
        expect(own_page.locator("#experiment .canvas canvas")).to_have_count(2)
        expect(own_page.locator("#changes .canvas canvas")).to_have_count(2)
        expect(
            own_page.get_by_role("img", name="ctr of b by day: ctr of b is worse")
        ).to_be_visible()
    assert console == []
    assert [url for url in requests if url.startswith("file:")] == [file.as_uri()]


def test_a_phone_needs_few_screens_and_prints_have_every_chart(site: Site, own_page: Page) -> None:
    arms = {name: variant(CONTROL, seed=n) for n, name in enumerate(("control", "b", "c"))}
    found = findings(report(arms, Experiment(control="control")))
    site.snapshot = msgspec.structs.replace(with_windows(1), findings=found)
    own_page.set_viewport_size({"width": 390, "height": 844})
    own_page.goto(site.address)
    # None of them is in view.
    canvases = own_page.locator("#live .canvas canvas")
    expect(canvases).to_have_count(3)
    assert own_page.evaluate("document.documentElement.scrollHeight") <= 5 * 844
    own_page.set_viewport_size({"width": 720, "height": 900})
    own_page.emulate_media(media="print")
    expect(canvases).to_have_count(3)
    assert own_page.evaluate("document.documentElement.scrollWidth") == 720


def test_without_scripts_a_phone_shows_the_same(site: Site, plain_page: Page) -> None:
    site.snapshot = msgspec.structs.replace(moment(1), findings=findings())
    plain_page.set_viewport_size({"width": 390, "height": 844})
    plain_page.goto(site.address)
    rows = plain_page.locator("#experiment .forest tbody tr:not(.group)")
    expect(rows).to_have_count(4)
    row = rows.first
    expect(row.locator("th")).to_have_text("ndcg@10 primary")
    box = row.locator("strong.verdict").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    widths = plain_page.locator("#experiment").bounding_box()
    assert widths is not None
    assert widths["width"] <= 390


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_no_row_and_no_verdict_of_an_experiment_is_cut_whatever_variants_are_called(
    site: Site, plain_page: Page, width: int
) -> None:
    control, *others = (f"{name}-{'x' * 39}"[:40] for name in ("control", "b", "c", "d", "e"))
    arms = {name: variant(CONTROL, seed=n) for n, name in enumerate((control, *others))}
    experiment = Experiment(control=control, primary=["ndcg@10"], guardrails={"mrr": -0.01})
    result = report(arms, experiment)
    site.snapshot = msgspec.structs.replace(moment(1), findings=findings(result))
    plain_page.set_viewport_size({"width": width, "height": 900})
    plain_page.goto(site.address)
    card = plain_page.locator("#experiment .card", has=plain_page.locator(".forest")).first
    hidden = "node => [node.scrollHeight - node.clientHeight, node.scrollWidth - node.clientWidth]"
    assert card.evaluate(hidden) == [0, 0]
    assert plain_page.evaluate("document.documentElement.scrollWidth") == width
    rows = plain_page.locator("#experiment .forest tbody tr:not(.group)")
    expect(rows).to_have_count(16)
    for row in rows.all()[:3]:
        verdict, plot = (
            row.locator(selector).bounding_box() for selector in ("strong.verdict", ".plot svg")
        )
        assert verdict is not None
        assert plot is not None
        assert verdict["x"] + verdict["width"] <= width
        if width == 390:
            assert plot["y"] + plot["height"] <= verdict["y"]


@pytest.mark.parametrize("width", [390, 1440])
def test_no_row_of_changes_gaps_and_partitions_is_cut(
    site: Site, plain_page: Page, width: int
) -> None:
    found = (Finding(GAPS, (gap_series(),)), Finding(CHANGES, changes_report()))
    site.snapshot = msgspec.structs.replace(with_windows(1), findings=found)
    plain_page.set_viewport_size({"width": width, "height": 900})
    plain_page.goto(site.address)
    hidden = "node => [node.scrollHeight - node.clientHeight, node.scrollWidth - node.clientWidth]"
    for section in ("changes", "gaps", "health"):
        card = plain_page.locator(f"#{section} .card", has=plain_page.locator(".forest"))
        assert card.evaluate(hidden) == [0, 0], section


def test_evidence_by_day_stays_open_as_a_table_while_it_moves(site: Site, page: Page) -> None:
    site.snapshot = msgspec.structs.replace(moment(1), findings=findings())
    page.goto(site.address)
    table = page.locator("#experiment .days:not(.alone) table")
    expect(page.locator("#experiment .days:not(.alone) canvas")).to_be_visible()
    expect(table).not_to_be_visible()
    page.locator("#experiment .days:not(.alone) summary").click()
    expect(table.locator("tbody tr")).to_have_count(5)
    longer = {"control": variant(CONTROL, days=7), "treatment": variant(TREATMENT, seed=2, days=7)}
    site.snapshot = msgspec.structs.replace(moment(2), findings=findings(report(longer)))
    expect(table.locator("tbody tr")).to_have_count(7)
    expect(table).to_be_visible()


@pytest.mark.parametrize("window", ["page", "plain_page"])
def test_a_value_stands_with_its_interval_or_why_it_has_none(
    site: Site, window: str, request: pytest.FixtureRequest
) -> None:
    sure = Interval(low=0.25, high=0.0625 + 0.5, confidence=0.95, kind="anytime", groups=99.0)
    why = "Too few users: the equivalent of fewer than 12 equally active ones."
    limits: dict[str, dict[str, object]] = {
        "control": {"interval": sure},
        "treatment": {"no_interval": why},
    }
    lines = [(mean("ndcg@10", (name,), 3.0, 8), limit) for name, limit in limits.items()]
    site.snapshot = picture(
        *(
            msgspec.structs.replace(line, reading=msgspec.structs.replace(line.reading, **limit))
            for line, limit in lines
        )
    )
    page: Page = request.getfixturevalue(window)
    page.goto(site.address)
    element = page.locator("#live small", has_text="95 % interval 0.2500 to 0.5625")
    expect(element).to_have_count(1)
    element = page.locator("#live small", has_text="no interval")
    expect(element).to_have_attribute("title", why)
