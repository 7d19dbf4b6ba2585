"""`python -m tests.docs.prose` checks sentences that people read against tests/docs/words.toml.

It reads the pages, what is unreleased in the changelog, the templates of HTML pages, and the
docstrings and texts of the package: help, messages, sentences of tables and pages.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.markdown import label
from tests.house.checkout import PACKAGE, files

_WORDS = Path(__file__).with_name("words.toml")
_UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL)
_NOT_PROSE = {
    ".md": re.compile(r"^```.*?^```$|`[^`\n]*`|(?<=\]\()[^)\s]+", re.MULTILINE | re.DOTALL),
    ".html": re.compile(r"\{[%#].*?[%#]\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL),
    ".py": re.compile(r"`[^`\n]*`"),
}


class Problem(NamedTuple):
    """Words that the list forbids, and what to write instead."""

    line: int
    words: str
    instead: str


@cache
def _list() -> tuple[re.Pattern[str], list[tuple[re.Pattern[str], str]]]:
    """One pattern that finds any of the words, and each with its advice."""
    groups = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    words = {pattern: advice for group in groups.values() for pattern, advice in group.items()}
    spaced = {rf"\b(?:{word})\b".replace(" ", r"\s+"): advice for word, advice in words.items()}
    each = [(re.compile(word, re.IGNORECASE), advice) for word, advice in spaced.items()]
    return re.compile("|".join(spaced), re.IGNORECASE), each


def problems(text: str, suffix: str = ".md") -> list[Problem]:
    """The problems of a text, in order of lines.

    Example:
        >>> problems("A value is shown also if it is old.")
        [Problem(line=1, words='also if', instead='even if, even when; or move also to the verb')]
    """
    result = [
        Problem(line + prose.count("\n", 0, match.start()), " ".join(match[0].split()), instead)
        for line, prose in _prose(text, suffix)
        for pattern, instead in _list()[1]
        for match in pattern.finditer(prose)
    ]
    return sorted(result)


def _prose(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Line -> prose that begins there; what is no prose is blanked."""
    if not _list()[0].search(text):
        return
    code = _NOT_PROSE[suffix]
    texts = _texts_of(ast.parse(text)) if suffix == ".py" else iter([(1, text)])
    for line, prose in texts:
        yield line, code.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), prose)


def _texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _checked(path: Path) -> str:
    """The part of a file that is checked."""
    text = path.read_text(encoding="utf-8")
    if path.name != "CHANGELOG.md":
        return text
    part = _UNRELEASED.search(text)
    return "" if part is None else "\n" * text.count("\n", 0, part.start(1)) + part[1]


def main() -> int:
    """Print a line for each problem; 1 if there are any."""
    result = 0
    try:
        paths = files()
    except pytest.skip.Exception as reason:
        sys.stdout.write(f"nothing is checked: {reason}\n")
        return 0
    for path in paths:
        if path.suffix == ".md" or (path.suffix in _NOT_PROSE and path.is_relative_to(PACKAGE)):
            for line, words, instead in problems(_checked(path), path.suffix):
                result += 1
                sys.stdout.write(f"{label(path)}:{line}: '{words}': write: {instead}\n")
    return bool(result)


if __name__ == "__main__":
    sys.exit(main())
