"""A metric that is asked for by another name is answered under its own, which is said."""

from __future__ import annotations

import pytest

from streameval import Accumulator, evaluate
from streameval.catalogue import parse
from streameval.exporters.page.definition import metric_summary
from tests.cli.program import run

EVENT = b'{"recommendations": ["a", "b"], "interactions": ["b"]}\n'


@pytest.mark.parametrize(
    ("asked", "name"),
    [("coverage@2", "item_coverage@2"), ("trec:P_2", "trec:precision@2"), ("hr@2", "hit_rate@2")],
)
def test_the_command_and_the_page_say_which_name_was_asked_for(asked: str, name: str) -> None:
    done = run("evaluate", "-", "-m", asked, "--catalog", "4", stdin=EVENT)
    assert done.stdout.splitlines()[-1] == f"{asked!r} is an alias of {name}."
    assert metric_summary(parse(asked)).endswith(f"{asked!r} is an alias of {name}.")
    assert parse(name).naming == []


def test_python_finds_a_reading_by_the_name_that_was_asked_for() -> None:
    accumulator = Accumulator("coverage@2", catalog=4)
    accumulator.update(["a", "b"], ["b"])
    evaluation = evaluate([["a", "b"]], [["b"]], "coverage@2", catalog=4)
    for readings in (accumulator.compute(), evaluation):
        assert list(readings) == ["item_coverage@2"]
        assert readings["coverage@2"].value == 0.5
        for absent in ("mrr", "covrage@2"):
            with pytest.raises(KeyError):
                readings[absent]
