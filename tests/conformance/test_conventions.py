"""What a convention names is there."""

from __future__ import annotations

from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS
from tests.effort import every_case


@every_case("name", CONVENTIONS)
def test_a_convention_names_parameters_and_values_that_there_are(name: str) -> None:
    for metric, chosen in CONVENTIONS[name].metrics.items():
        known = parameters(catalogue()[metric], name)
        for parameter, value in chosen.items():
            assert known[parameter].check(metric, value) == value


@every_case("name", CONVENTIONS)
def test_a_systems_own_name_and_ours_are_the_same_metric(name: str) -> None:
    for theirs, ours in CONVENTIONS[name].spellings.items():
        assert parse(f"{name}:{theirs}") == parse(f"{name}:{ours}")
