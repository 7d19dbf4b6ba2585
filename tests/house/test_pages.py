"""The pages of the metrics are those that the code makes, and they say what they must."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from streameval.catalogue import catalogue
from streameval.cli.statistics import STATISTICS
from streameval.conventions import CONVENTIONS
from streameval.metric import Reads
from tests.house import pages

MADE = pages.pages()


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_a_page_is_as_the_code(path: Path) -> None:
    lag = "it lags the code: python -m tests.house.pages --write"
    assert path.read_text(encoding="utf-8") == MADE[path], lag


def test_every_metric_has_a_page_and_every_page_a_metric() -> None:
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == set(catalogue())


@pytest.mark.parametrize("name", catalogue())
def test_a_page_has_the_value_under_every_convention(name: str) -> None:
    text = MADE[pages.FOLDER / f"{name}.md"]
    known = [system for system, each in CONVENTIONS.items() if name in each.metrics]
    assert all(f"| `{system}:{name}` |" in text for system in known)
    assert f"| `{name}` | " in text


def test_what_every_metric_reads_is_explained() -> None:
    assert set(STATISTICS) == set(typing.get_args(Reads))
