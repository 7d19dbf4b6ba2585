"""Promises hold in worlds drawn from a seed, and each mistake breaks one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pytest

from tests.effort import sampled, thorough
from tests.house.checkout import ROOT
from tests.simulation import (
    activity,
    adjusted,
    deciding,
    doubts,
    edges,
    faults,
    gaps,
    interleaving,
    policies,
)
from tests.simulation.bars import UNLIKELY, Bar, Simulation, at_most
from tests.simulation.systems import MISTAKES, System


def _promises(seed: int) -> Iterable[Bar]:
    return Simulation(seed, 500, System()).bars()


Bars = Callable[[], Iterable[Bar]]
QUICK: Mapping[str, Bars] = {
    "every promise": lambda: Simulation(1, 5, System()).bars(),
    "at the edges": lambda: edges.bars(1, 3, sampled(edges.EDGES, 4)),
    "users who come more often": lambda: activity.bars(1, 20),
    "what needs a check or a note": lambda: doubts.bars(1, 1),
    "values adjusted by the past": lambda: adjusted.bars(1, 2, sampled(adjusted.WORLDS, 6)),
    "gaps of rare clicks": lambda: gaps.bars(1, 15),
    "estimates for another policy": lambda: policies.bars(1, 1),
    "guardrails and late clicks": lambda: deciding.quick_bars(1, 2),
    "interleaving and a split of users": lambda: interleaving.bars(1, 4),
}
NIGHTLY: Mapping[str, Bars] = {
    **{f"every promise, {n}": partial(_promises, n) for n in range(100, 105)},
    **{f"at the edges, {n}": partial(edges.bars, n, 500) for n in range(100, 103)},
    **{f"more often, {n}": partial(activity.bars, n, 500) for n in range(100, 103)},
    # Enough runs to tell 5 % from 8 %.
    **{f"rare clicks, {n}": partial(gaps.bars, n, 700) for n in range(100, 103)},
    **{
        f"adjusted, {name}": partial(adjusted.bars, 100, 400, [name], others=not number)
        for number, name in enumerate(adjusted.WORLDS)
    },
    "planned looks, guardrails, late clicks": partial(deciding.bars, 100, 200),
    **{
        module.__name__: partial(module.bars, 100, 100)
        for module in (policies, interleaving, doubts)
    },
}


@pytest.mark.parametrize("promises", QUICK)
def test_promises_are_kept(promises: str) -> None:
    assert [bar for bar in QUICK[promises]() if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("promises", NIGHTLY)
def test_promises_are_kept_in_hundreds_of_runs(promises: str) -> None:
    assert [bar for bar in NIGHTLY[promises]() if not bar.passed] == []


@pytest.mark.parametrize("name", sampled(MISTAKES, 6))
def test_a_mistake_is_found(name: str) -> None:
    assert any(not bar.passed for bar in Simulation(2, 15, MISTAKES[name]).bars())


def _measured(fault: str, seeds: Iterable[int]) -> dict[str, int]:
    """How many runs have each outcome that the table shows of a fault."""
    compared, outcomes = faults.FAULTS[fault]
    shown = [row.outcome for row in faults.table() if row.fault == fault]
    reports = [compared(seed) for seed in seeds]
    return {name: sum(map(outcomes[name], reports)) for name in shown}


@pytest.mark.parametrize("fault", sampled(faults.FAULTS, 5))
def test_the_table_of_faults_is_what_is_measured(fault: str) -> None:
    """On other seeds, as far as so many runs can tell."""
    runs = 100 if thorough() else 2
    measured = _measured(fault, range(faults.FIRST_SEED - runs, faults.FIRST_SEED))
    rows = [row for row in faults.table() if row.fault == fault]
    assert rows
    for row in rows:
        documented = round(row.percent * row.runs / 100)
        assert faults.chance(measured[row.outcome], runs, documented, row.runs) >= UNLIKELY, row


def test_a_bar_of_thousands_of_runs_is_judged() -> None:
    assert at_most("no alarm", 0.001, [False] * 2_500).passed
    assert at_most("as many as may be", 0.05, [True] * 125 + [False] * 2_375).passed
    assert not at_most("too many", 0.05, [True] * 200 + [False] * 2_300).passed


@pytest.mark.nightly
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("seed", range(200, 205))
def test_a_mistake_is_found_in_any_world(name: str, seed: int) -> None:
    assert any(not bar.passed for bar in Simulation(seed, 100, MISTAKES[name]).bars())


def test_the_page_says_what_was_measured_of_decisions() -> None:
    page = (ROOT / "docs/explanation/uncertainty.md").read_text(encoding="utf-8")
    table = page.partition("| promise | before | now |\n|---|---:|---:|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [name for name, *_ in rows] == [*deciding.PROMISES]
    for name, before, now in rows:
        assert deciding.promised(name, now).passed, now
        assert before != now
