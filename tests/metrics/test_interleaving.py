"""Interleaving: published wins, and the verdict against one half."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streameval import Accumulator, Intervals, evaluate
from streameval.events import Event
from tests.cli.program import json_lines
from tests.present import present


def _wins(teams: list[Any], ranks: set[int], metric: str = "interleaving") -> float:
    items = [f"i{index}" for index in range(len(teams))]
    accumulator = Accumulator(metric)
    clicks = [items[rank - 1] for rank in ranks]
    accumulator.update(items, clicks, per_item={"team": teams})
    return accumulator.read(metric).value


@pytest.mark.parametrize(("ranks", "value"), [({1, 3}, 0.0), ({2, 4}, 1.0), ({1, 2}, 0.5)])
def test_the_team_with_more_clicks_wins_the_list(ranks: set[int], value: float) -> None:
    assert _wins(["a", "b", "a", "b"], ranks) == value


def test_items_of_both_rankers_and_of_others_count_for_neither() -> None:
    assert _wins([None, "b", "c"], {1, 2, 3}) == 1.0
    assert _wins(["x", "y", "z"], {1, 3}, "interleaving(a=z,b=y)") == 0.0


def test_lists_without_clicks_or_teams_and_those_of_other_rankers_are_left_out() -> None:
    accumulator = Accumulator("interleaving")
    accumulator.update(["x", "y"], ["x"], per_item={"team": ["old", "new"]})
    accumulator.update(["x", "y"], [], per_item={"team": ["a", "b"]})
    accumulator.update(["x", "y"], ["x"])
    reading = accumulator.read("interleaving")
    assert (reading.count, reading.lists, reading.defined) == (0, 3, False)


def _mixed(lists: int, lift: float, seed: int) -> Iterator[Event]:
    """Lists of two items, one of each ranker; users of b's items click more often by the lift."""
    draw = random.Random(seed)
    tastes = [draw.gauss(0.0, 0.1) for _ in range(300)]
    for _ in range(lists):
        user = draw.randrange(300)
        teams = ["a", "b"] if draw.random() < 0.5 else ["b", "a"]
        chances = {"a": 0.2 - 0.05 * tastes[user], "b": 0.2 * (1 + lift) + 0.05 * tastes[user]}
        clicks = [
            item for item, team in zip("xy", teams, strict=True) if draw.random() < chances[team]
        ]
        yield Event(
            recommendations=["x", "y"], interactions=clicks, user=user, per_item={"team": teams}
        )


def _verdicts(lift: float, seed: int, *, looks: int = 14, lists: int = 700) -> set[str | None]:
    events = _mixed(looks * lists, lift, seed)
    accumulator = Accumulator("interleaving", intervals=Intervals(precision=0.1))
    verdicts = set()
    for _ in range(looks):
        accumulator.update_many([next(events) for _ in range(lists)])
        verdicts.add(accumulator.read("interleaving").verdict)
    return verdicts


def test_a_better_ranker_is_preferred_and_a_worse_one_is_not() -> None:
    assert "b preferred" in _verdicts(0.6, 1)
    assert "a preferred" in _verdicts(-0.4, 2)


def test_too_few_users_have_no_preference() -> None:
    accumulator = Accumulator("interleaving", intervals=Intervals())
    for _ in range(100):
        accumulator.update(["x", "y"], ["y"], user="one", per_item={"team": ["a", "b"]})
    assert accumulator.read("interleaving").verdict == "too few users"


def test_without_intervals_there_is_no_verdict() -> None:
    accumulator = Accumulator("interleaving")
    accumulator.update(["x", "y"], ["y"], per_item={"team": ["a", "b"]})
    assert accumulator.read("interleaving").verdict is None
    assert accumulator.read("interleaving").value == pytest.approx(1.0)


def test_events_of_a_file_are_one_planned_look_and_a_state_is_not(tmp_path: Path) -> None:
    """A small effect is found at one look; a state is looked at whenever someone likes."""
    events = [*_mixed(6_000, 0.08, 3)]
    accumulator = Accumulator("interleaving", intervals=Intervals())
    accumulator.update_many(events)
    records = [
        {
            "recommendations": event.recommendations,
            "interactions": event.interactions,
            "user": event.user,
            "team": (event.per_item or {})["team"],
        }
        for event in events
    ]
    path = str(json_lines(tmp_path / "log.ndjson", records))
    reading = evaluate(path, "interleaving", columns={"per_item.team": "team"})["interleaving"]
    bounds = present(accumulator.interval("interleaving", "fixed"))
    assert reading.interval == bounds
    assert bounds.low > 0.5
    assert reading.verdict == "b preferred"
    assert accumulator.read("interleaving").verdict == "not enough evidence"
