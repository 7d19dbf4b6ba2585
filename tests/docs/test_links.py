"""Every internal link has a target: an existing file and section."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tests.docs.markdown import anchors, label, links, pages
from tests.effort import every_case
from tests.house.checkout import ROOT, files


def _broken(page: Path, text: str) -> list[str]:
    inside = [link for link in links(text) if "://" not in link and not link.startswith("mailto:")]
    return [link for link in inside if not _leads(page, text, unquote(link))]


def _leads(page: Path, text: str, link: str) -> bool:
    path, _, section = link.partition("#")
    goal = (page.parent / path).resolve() if path else page
    # Only files of the checkout count; others exist on this machine only.
    if not goal.is_dir() and goal not in files():
        return False
    if not section:
        return goal.is_relative_to(ROOT)
    other = text if goal == page else goal.read_text(encoding="utf-8")
    return goal.suffix != ".md" or section in anchors(other)


def test_every_internal_link_has_a_target() -> None:
    broken = {label(page): _broken(page, page.read_text(encoding="utf-8")) for page in pages()}
    assert {name: found for name, found in broken.items() if found} == {}


@every_case(
    "link", ["gone.md", "README.md#nowhere", "#nowhere", "../elsewhere", "docs/README.md#x"]
)
def test_a_broken_link_is_reported(link: str) -> None:
    assert _broken(ROOT / "CHANGELOG.md", f"# Here\n\n[a]({link}) and ![b]({link})") == [link, link]


def test_links_in_code_are_ignored() -> None:
    assert links("`[a](b)`\n\n```text\n[a](b)\n```\n\n[c](d.md#e)") == ["d.md#e"]


def test_every_page_is_in_an_index() -> None:
    docs = ROOT / "docs"
    index = {
        (docs / link.partition("#")[0]).resolve()
        for link in links((docs / "README.md").read_text(encoding="utf-8"))
    }
    inside = [page for page in pages() if page.is_relative_to(docs) and page != docs / "README.md"]
    missing = [page for page in inside if not {page, page.parent} & index]
    listed = {(docs / "reference" / "metrics.md").resolve()} <= index
    assert [label(page) for page in missing if not (listed and page.parent.name == "metrics")] == []
