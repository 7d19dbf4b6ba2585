"""Reads Markdown pages: code blocks, anchors of headings, links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.checkout import ROOT, files

_FENCE = re.compile(
    r"^```(?P<language>\w+)(?: (?P<name>[^\n]+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_ANY_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|\n)(?:\n {4,}\S.*)(?:\n {4,}.*|\n(?=\n {4,}))*")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)(?: +#+)?$", re.MULTILINE)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")


class Fence(NamedTuple):
    """A fenced block, with the info string split into language and name."""

    language: str
    name: str
    code: str


def pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(text: str) -> list[Fence]:
    matches = _FENCE.finditer(text)
    return [Fence(match["language"], match["name"] or "", match["code"]) for match in matches]


def indented(text: str) -> Iterator[str]:
    """Lines of indented code blocks, without the indentation."""
    for block in _INDENTED.finditer(_ANY_FENCE.sub("", text)):
        yield from (line[4:] for line in block[0].splitlines() if line.startswith("    "))


def anchors(text: str) -> set[str]:
    seen: Counter[str] = Counter()
    slugs = set()
    for heading in _HEADING.finditer(_ANY_FENCE.sub("", text)):
        slug = anchor(heading["text"])
        slugs.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return slugs


def anchor(heading: str) -> str:
    """The anchor of a heading: lower case, hyphens for spaces, no punctuation.

    Example:
        >>> anchor('`[source]` with `type = "kafka"`')
        'source-with-type--kafka'
    """
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def links(text: str) -> list[str]:
    """Targets of all links and images outside code."""
    prose = _CODE.sub("``", _ANY_FENCE.sub("", text))
    return [match["target"] for match in _LINK.finditer(prose)]
