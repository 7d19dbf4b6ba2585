"""The pages of the metrics are those that the code makes, and they say what they must."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from pathlib import Path

import pytest

from streameval.catalogue import catalogue
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Reads
from streameval.cli.metrics import STATISTICS
from tests.house import pages


@pytest.fixture(scope="module")
def made() -> Mapping[Path, str]:
    return pages.pages()


def test_every_page_is_as_the_code(made: Mapping[Path, str]) -> None:
    lag = "it lags the code: python -m tests.house.pages --write"
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {lag}"


def test_every_metric_has_a_page_and_every_page_a_metric() -> None:
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == set(catalogue())


def test_a_page_has_the_value_under_every_convention(made: Mapping[Path, str]) -> None:
    for name in catalogue():
        text = made[pages.FOLDER / f"{name}.md"]
        known = [system for system, each in CONVENTIONS.items() if name in each.metrics]
        named = re.findall(rf"`((?:\w+:)?{name})`", text.partition("\n## Values\n")[2])
        assert sorted(named) == sorted([name, *(f"{system}:{name}" for system in known)])


def test_what_every_metric_reads_is_explained() -> None:
    assert set(STATISTICS) == set(typing.get_args(Reads))
