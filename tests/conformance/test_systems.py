"""Under a system's convention a metric gives the number that the system's own code returned."""

from __future__ import annotations

import json
import math
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest

from streameval.catalogue import parameters, parse
from streameval.catalogue.conventions import CONVENTIONS, RULES
from streameval.catalogue.systems import FORMULAS
from tests.conformance.__main__ import PAGE, page
from tests.conformance.record import RECORDERS, recorded
from tests.conformance.recorded import (
    FOLDER,
    OURS,
    READ,
    VARIANTS,
    cases,
    cases_in,
    cases_of,
    files,
)
from tests.conformance.systems import ANSWERS
from tests.conformance.ways import (
    readings,
    streamed,
)

PUBLIC = 1_365

COMPACTING = ("replay", "replay_0_9", "replay_0_11")
"""Conventions that remove repeats, which `repeats` cannot say."""


@pytest.mark.parametrize("path", files())
def test_all_together_and_each_user_alone_have_the_recorded_number(path: Path) -> None:
    pairs = readings(path)
    for case in cases_of(path):
        assert case.parts[0].claims, case.name
        wrong = [claim.mistake(reading, case.tolerance) for claim, reading in pairs[case.name]]
        assert [complaint for complaint in wrong if complaint is not None] == [], case.name


def test_the_generated_page_is_up_to_date() -> None:
    remedy = "run: python -m tests.conformance --write"
    assert PAGE.read_text(encoding="utf-8") == page(), remedy


def test_users_weigh_as_recorded() -> None:
    for case in [case for case in cases() if any(case.weights)]:
        claim = case.parts[0].claims[0]
        users = [streamed([claim.text], part.events, case.once) for part in case.alone]
        weighted = [
            weight * accumulator.read(claim.text).value
            for weight, accumulator in zip(case.weights, users, strict=True)
            if weight
        ]
        assert case.tolerance.agrees(math.fsum(weighted) / sum(case.weights), claim.value)


@pytest.mark.skipif(FOLDER != OURS, reason="another folder may hold any part of the cases")
def test_no_public_case_is_left_aside() -> None:
    all_cases = cases()
    assert len(all_cases) == PUBLIC
    assert len({case.name for case in all_cases}) == PUBLIC
    assert {(case.system, case.metric) for case in all_cases} == set(ANSWERS)
    assert len(files()) == len([*OURS.iterdir()])


def test_nothing_recorded_is_unread() -> None:
    for path in OURS.glob("[!u]*__*.json"):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            assert set(case["expected"]) <= READ
            assert {key for key in case if key.startswith("expected_")} <= set(VARIANTS)


def test_every_name_of_the_systems_is_compared() -> None:
    compared = {parse(answer.text({}, None)).text for answer in ANSWERS.values()}
    systems = {system for system, _ in ANSWERS}
    convention_names = {
        f"{system}:{name}" for system in systems for name in CONVENTIONS[system].metrics
    }
    # trec_eval's own output is where this one is compared; its package reaches a recall later.
    assert convention_names - {"trec:iprec_at_recall"} <= compared


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_names_parameters_values_and_metrics_that_there_are(name: str) -> None:
    convention = CONVENTIONS[name]
    for metric, selected in convention.metrics.items():
        takes = parameters(parse(f"{name}:{metric}").definition, name)
        values = {key: value for key, value in selected.items() if key not in RULES}
        if name in COMPACTING:
            values.pop("repeats", None)
        assert {key: takes[key].check(metric, value) for key, value in values.items()} == values
    for theirs, ours in convention.spellings.items():
        assert parse(f"{name}:{theirs}") == parse(f"{name}:{ours}")
    assert {metric for system, metric in FORMULAS if system == name} <= {*convention.metrics}


def test_formulas_are_of_conventions_that_there_are() -> None:
    assert {system for system, _ in FORMULAS} <= {*CONVENTIONS}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", RECORDERS)
def test_the_installed_package_returns_our_numbers(package: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(RECORDERS[package].module)
        content = json.loads(json.dumps(recorded(package)))
    for case in cases_in(content, package):
        for part in case.all:
            texts = [claim.text for claim in part.claims]
            accumulator = streamed(texts, part.events, case.once)
            for claim in part.claims:
                assert claim.mistake(accumulator.read(claim.text), case.tolerance) is None, (
                    case.name
                )
    saved = json.loads((OURS / f"{content['system']}__recorded.json").read_text(encoding="utf-8"))
    if version(package) == saved["version"]:
        # The same cases with the same names; their values were compared above.
        named = [(row["metric"], row["name"]) for row in content["cases"]]
        assert named == [(row["metric"], row["name"]) for row in saved["cases"]]


@pytest.mark.parametrize("package", RECORDERS)
def test_what_a_package_returned_is_recorded_with_its_version(package: str) -> None:
    path = OURS / f"{RECORDERS[package].system}__recorded.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["package"] == package
    assert content["version"] in content["source"]
    assert content["cases"]
