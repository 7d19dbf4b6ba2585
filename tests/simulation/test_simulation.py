"""Promises hold in worlds drawn from a seed, and each mistake breaks one of them."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.effort import sampled
from tests.simulation import activity, adjusted, doubts, edges, gaps, interleaving, policies
from tests.simulation.bars import Simulation, at_most
from tests.simulation.systems import MISTAKES, System


def broken(seed: int, runs: int, system: System) -> list[str]:
    simulation = Simulation(seed, runs, system)
    return [f"{bar.name}: {bar.measured}" for bar in simulation.bars() if not bar.passed]


def test_every_promise_is_kept() -> None:
    assert broken(1, 5, System()) == []


def test_the_edges_keep_their_promises() -> None:
    chosen = sampled(edges.EDGES, 4)
    assert [bar for bar in edges.bars(1, 3, chosen) if not bar.passed] == []


def test_users_who_come_more_often_are_noticed() -> None:
    assert [bar for bar in activity.bars(1, 20) if not bar.passed] == []


def test_what_needs_a_check_or_a_note_has_one() -> None:
    assert [bar for bar in doubts.bars(1, 3) if not bar.passed] == []


def test_values_adjusted_by_the_past_keep_their_promises() -> None:
    chosen = sampled(adjusted.WORLDS, 2)
    assert [bar for bar in adjusted.bars(1, 6, chosen) if not bar.passed] == []


def test_gaps_of_rare_clicks_are_no_chance() -> None:
    assert [bar for bar in gaps.bars(1, 15) if not bar.passed] == []


def test_a_log_judges_another_policy_only_where_it_can() -> None:
    assert [bar for bar in policies.bars(1, 3) if not bar.passed] == []


def test_interleaving_finds_what_a_split_of_users_does_not() -> None:
    assert [bar for bar in interleaving.bars(1, 4) if not bar.passed] == []


@pytest.mark.parametrize("name", sampled(MISTAKES, 6))
def test_a_mistake_is_found(name: str) -> None:
    assert any(not bar.passed for bar in Simulation(2, 15, MISTAKES[name]).bars())


def test_a_bar_of_thousands_of_runs_is_judged() -> None:
    assert at_most("no alarm", 0.001, [False] * 2_500).passed
    assert at_most("as many as may be", 0.05, [True] * 125 + [False] * 2_375).passed
    assert not at_most("too many", 0.05, [True] * 200 + [False] * 2_300).passed


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 105))
def test_every_promise_is_kept_in_500_runs(seed: int) -> None:
    assert broken(seed, 500, System()) == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 103))
def test_the_edges_keep_their_promises_in_500_runs(seed: int) -> None:
    assert [bar for bar in edges.bars(seed, 500) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 103))
def test_users_who_come_more_often_are_noticed_in_500_runs(seed: int) -> None:
    assert [bar for bar in activity.bars(seed, 500) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", adjusted.WORLDS)
def test_values_adjusted_by_the_past_keep_their_promises_in_700_runs(name: str) -> None:
    """Enough runs to tell 5 % from 8 %."""
    others = name == next(iter(adjusted.WORLDS))
    bars = adjusted.bars(100, 700, [name], others=others)
    assert [bar for bar in bars if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 103))
def test_gaps_of_rare_clicks_are_no_chance_in_700_runs(seed: int) -> None:
    """Enough runs to tell 5 % from 8 %."""
    assert [bar for bar in gaps.bars(seed, 700) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("module", [policies, interleaving, doubts])
def test_logs_mixed_lists_and_notes_keep_their_promises_in_100_runs(module: ModuleType) -> None:
    assert [bar for bar in module.bars(100, 100) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("seed", range(200, 205))
def test_a_mistake_is_found_in_any_world(name: str, seed: int) -> None:
    assert any(not bar.passed for bar in Simulation(seed, 100, MISTAKES[name]).bars())
