"""The generated pages say what the code does now."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.catalogue import catalogue, parameters, parse
from streameval.conventions import CONVENTIONS
from tests.conformance.pages import pages

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    remedy = "run: python -m tests.conformance --write"
    assert path.read_text(encoding="utf-8") == PAGES[path], remedy


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_names_parameters_and_values_that_there_are(name: str) -> None:
    for metric, chosen in CONVENTIONS[name].metrics.items():
        known = parameters(catalogue()[metric])
        for parameter, value in chosen.items():
            assert known[parameter].check(metric, value) == value


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_systems_own_name_and_ours_are_the_same_metric(name: str) -> None:
    for theirs, ours in CONVENTIONS[name].spellings.items():
        assert parse(f"{name}:{theirs}") == parse(f"{name}:{ours}")
