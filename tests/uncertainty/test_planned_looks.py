"""Planned looks: their bounds to the digit, the error rate that they keep, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.comparison import Settings, judge
from streameval.analyses.experiments.course import course_of, with_information
from streameval.config import load
from streameval.evaluation.arguments import InputError, lines_for_command
from streameval.inference.interval_formulas import (
    log_student_tail,
    normal_quantile,
    standard_error,
    student_reach,
)
from streameval.inference.planned_looks import PlannedLook
from streameval.statistics.intervals import GroupSums
from tests.cli.program import json_lines, run
from tests.present import present
from tests.stores.received import write_state

# Information by the first of five looks, if users come again.
AGAIN = (0.456, 0.693, 0.832, 0.927, 1.0)


@pytest.mark.parametrize(
    ("looks", "information", "bounds"),
    [
        (2, (), "2.96258804 1.96859564"),
        (5, (), "4.87688495 3.35701192 2.68028006 2.28981677 2.03103204"),
        (
            14,
            (),
            (
                "8.30465021 5.81532742 4.70260121 4.03721710 3.58692873 3.25847723 3.00592693 "
                "2.80412922 2.63815201 2.49853883 2.37898483 2.27510816 2.18375798 2.10260350"
            ),
        ),
        (5, AGAIN, "4.87688495 3.35690915 2.67153443 2.25998124 1.97754051"),
    ],
)
def test_the_golden_bounds(looks: int, information: tuple[float, ...], bounds: str) -> None:
    """By another integration rule, and for two looks by the bivariate normal distribution."""
    result = [
        PlannedLook(looks, look, information[:look]).reach(0.05) for look in range(1, looks + 1)
    ]
    assert " ".join(f"{bound:.8f}" for bound in result) == bounds


def test_the_golden_p_values() -> None:
    assert PlannedLook(5, 4).p_value(2.5) == pytest.approx(0.030865312724, rel=1e-10)
    assert PlannedLook(5, 1).p_value(3.0) == pytest.approx(0.303493482567, rel=1e-10)


@pytest.mark.parametrize("look", [PlannedLook(60, 60), PlannedLook(60, 3), PlannedLook(3, 2)])
def test_a_p_value_is_the_level_whose_bound_is_reached(look: PlannedLook) -> None:
    for level in (1e-9, 0.001, 0.05, 0.6):
        assert look.p_value(look.reach(level)) == pytest.approx(level, rel=1e-9)
    assert look.p_value(0.0) == pytest.approx(1.0)
    assert look.p_value(1e3) == 1e-15
    assert PlannedLook(1, 1).reach(0.05) == pytest.approx(normal_quantile(0.025))


@pytest.mark.parametrize("looks", [2, 5, pytest.param(14, marks=pytest.mark.nightly), 30])
def test_a_share_of_paths_without_an_effect_crosses_the_bounds(looks: int) -> None:
    """Each side is crossed by half of them, at any level, and whatever the information."""
    random, paths = np.random.default_rng(looks), 40_000
    for level, power in ((0.05, 1.0), (0.2, 0.5), (0.2, 1.5)):
        times = [(look / looks) ** power for look in range(1, looks + 1)]
        steps = np.sqrt(np.diff([0.0, *times]))
        values = np.cumsum(random.normal(size=(paths, looks)) * steps, axis=1) / np.sqrt(times)
        bounds = [
            PlannedLook(looks, look, tuple(times[:look])).reach(level)
            for look in range(1, looks + 1)
        ]
        for crossed in ((values > bounds).any(axis=1), (values < -np.array(bounds)).any(axis=1)):
            error = math.sqrt(level / 2 / paths)
            assert abs(crossed.mean() - level / 2) < 4 * error


def _arm(seed: int, days: int = 12) -> GroupSums:
    random = np.random.default_rng(seed)
    lists = random.poisson(20.0, (days, 64))
    # Tastes of the groups stay, so that later days tell less.
    taste = np.random.default_rng(9).uniform(0.1, 0.3, 64) * random.uniform(0.5, 1.5, 64)
    clicks = random.binomial(lists, taste).astype(float)
    return GroupSums(np.arange(20_000, 20_000 + days), clicks, lists)


def test_the_information_of_a_look_is_that_of_the_days_before() -> None:
    course = course_of(_arm(1), _arm(2))
    look = with_information(PlannedLook(6, 3), course)
    errors = [
        standard_error(
            course[end - 1][1].treatment.influences - course[end - 1][1].control.influences
        )
        for end in (4, 8, 12)
    ]
    assert look.information == pytest.approx([error**-2 for error in errors])
    assert look.information[0] > look.information[2] / 3
    # A day without an earlier one has no part.
    assert with_information(PlannedLook(6, 3), course[:2]).information == ()


def test_an_interval_and_its_p_value_are_those_of_the_look() -> None:
    (*_, (_, contrast)) = course_of(_arm(1), _arm(2))
    once = Settings("fixed", 0.02, 0.95)
    for look in (PlannedLook(5, 2), PlannedLook(5, 5)):
        planned, single = (judge(contrast, of) for of in (once._replace(look=look), once))
        error = standard_error(contrast.treatment.influences - contrast.control.influences)
        width = present(planned.high) - present(planned.low)
        reach = student_reach(look.reach(0.05), contrast.groups)
        assert width == pytest.approx(2 * reach * error)
        assert planned.p_value > single.p_value
        assert log_student_tail(reach, contrast.groups) < math.log(0.025)


def visits() -> list[dict[str, Any]]:
    random = np.random.default_rng(4)
    return [
        {
            "ts": 1_772_323_200 + 86_400 * day,
            "user": f"u{user}",
            "variant": ("control", "b")[user % 2],
            "country": ("de", "nl")[user // 2 % 2],
            "recommendations": ["a", "c"],
            "interactions": ["a" if random.random() < 0.3 + 0.2 * (user % 2) else "x"],
        }
        for day in range(6)
        for user in range(200)
    ]


def test_one_planned_look_is_named_on_every_surface(tmp_path: Path) -> None:
    path = str(json_lines(tmp_path / "log.ndjson", visits()))
    by_time: dict[str, Any] = {"columns": {"time": "ts"}, "time_unit": "s"}
    report = compare(path, "ctr", looks=5, look=2, **by_time)
    assert isinstance(report, ComparisonReport)
    promise = (
        "At most 5 % of verdicts and intervals are wrong, if you look 5 times as planned, at equal "
        "distances; this is look 2."
    )
    assert report.promise == promise
    assert promise in repr(report)
    assert f">{promise}<" in report.to_html()
    one, anytime = (compare(path, "ctr", looks=looks, **by_time)["ctr"] for looks in (1, 5))
    assert one.p_value < report["ctr"].p_value
    assert (report["ctr"].kind, anytime.kind) == ("fixed", "anytime")
    done = run(
        *("compare", path, "-m", "ctr", "--looks", "5", "--look", "2", "--format", "json"),
        *("--time", "ts", "--time-unit", "s"),
    )
    answer = json.loads(done.stdout)
    assert (answer["looks"], answer["look"]) == (5, 2)
    assert answer["comparisons"][0]["lift_low"] == report["ctr"].lift_low
    for options, said in (
        ({"looks": 5, "look": 7}, "--look: found 7; give the number of this look, of --looks 5."),
        ({"look": 0}, "--look: found 0; give the number of this look, of --looks 1."),
        ({"look": 2}, "--look: found 2; also give the number of planned looks, like --looks 5."),
        ({"looks": 61, "look": 1}, "--looks: found 61; give at most 60 with --look."),
        (
            {"looks": 2, "look": 1, "method": "anytime"},
            "--look is of planned looks, and --method anytime holds at any; leave one of them out.",
        ),
    ):
        with pytest.raises(InputError) as refused:
            compare(path, "ctr", **by_time, **options)
        assert lines_for_command(refused.value) == [said]


def test_guardrails_and_segments_have_the_bounds_of_the_look(tmp_path: Path) -> None:
    path = str(json_lines(tmp_path / "log.ndjson", visits()))
    how: dict[str, Any] = {"columns": {"time": "ts"}, "time_unit": "s", "baseline": "b"}
    planned: dict[str, Any] = {"looks": 5, "look": 2}
    ends = [present(compare(path, "ctr", **how, **of)["ctr"].lift_high) for of in ({}, planned)]
    # Below the limit by one look alone, and by the planned one not yet.
    how |= {"guardrails": {"ctr": sum(ends) / 2}, "by": "country"}
    once, report = compare(path, "ctr", **how), compare(path, "ctr", **how, **planned)
    verdicts = [of["ctr"].guardrail_verdict for of in (once, report)]
    assert verdicts == ["broken", "not enough evidence"]
    for country in ("de", "nl"):
        key = "ctr", "control", country
        assert report[key].p_value > once[key].p_value


def test_looks_at_a_state_are_not_planned(tmp_path: Path) -> None:
    """It is looked at whenever someone opens the page."""
    (tmp_path / "c.toml").write_text(
        'metrics = ["ctr"]\nlabels = ["variant"]\nintervals = {}\nexperiment = {}\n'
        'source = { type = "files", paths = ["log"] }\nevent = { user = "user" }\n'
    )
    write_state(tmp_path / "state", load(tmp_path / "c.toml"), visits()[:40])
    with pytest.raises(InputError, match="look= is for files: a state is looked at often"):
        compare(str(tmp_path / "state"), looks=5, look=2)
