"""Under a system's convention a metric gives the number that the system's own code returned."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from streameval import Accumulator
from streameval.catalogue import parse
from streameval.conventions import CONVENTIONS
from tests.conformance.recorded import FOLDER, OURS, Case, cases, recorded
from tests.conformance.systems import ANSWERS
from tests.metrics.preparation import Shown

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def _counted(text: str, events: Iterable[Shown]) -> Accumulator:
    accumulator = Accumulator(text)
    for event in events:
        accumulator.update(*event)
    return accumulator


def _shuffled(case: Case) -> list[Shown]:
    return random.Random(case.name).sample(case.events, len(case.events))


def _in_three_parts(case: Case) -> Accumulator:
    third = len(case.events) // 3
    whole, *others = (
        _counted(case.text, part)
        for part in (
            case.events[2 * third :],
            case.events[:third],
            case.events[third : 2 * third],
        )
    )
    for other in others:
        whole.merge(other)
    return whole


@every_case
def test_three_ways_give_the_recorded_number_and_the_same_bits(case: Case) -> None:
    ways = [
        _counted(case.text, case.events),
        _counted(case.text, _shuffled(case)),
        _in_three_parts(case),
    ]
    values = [way.read(case.text).value for way in ways]
    assert len({value.hex() for value in values}) == 1
    assert ways[0].state_dict() == ways[1].state_dict() == ways[2].state_dict()
    assert case.agrees(values[0], case.expected), f"{values[0]}, recorded {case.expected}"


@every_case
def test_each_user_has_the_recorded_number(case: Case) -> None:
    events = case.events if case.per_user else ()
    for event, expected in zip(events, case.per_user, strict=True):
        value = _counted(case.text, [event]).read(case.text).value
        assert case.agrees(value, expected), f"{event}: {value}, recorded {expected}"


@pytest.mark.parametrize(("system", "metric"), ANSWERS)
def test_every_answer_has_its_file(system: str, metric: str) -> None:
    assert recorded(system, metric).is_file()
    assert parse(ANSWERS[system, metric].text.format(k=3)).convention == system


def test_every_metric_under_a_convention_is_compared() -> None:
    compared = {
        (system, parse(answer.text.format(k=3)).name) for (system, _), answer in ANSWERS.items()
    }
    known = {
        (system, name) for system, convention in CONVENTIONS.items() for name in convention.metrics
    }
    assert compared == known


@pytest.mark.skipif(FOLDER != OURS, reason="another folder may hold more than is answered yet")
def test_no_file_is_left_aside() -> None:
    assert {path.name for path in OURS.iterdir()} == {
        recorded(*answered).name for answered in ANSWERS
    }
