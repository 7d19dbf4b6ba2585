"""Clicks corrected for the position: by hand, against the truth of drawn worlds, and bad input."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import pytest

from streameval import Accumulator, Event, Intervals, evaluate
from streameval.events.errors import (
    MissingInputError,
    StreamevalError,
    UnlikeStateError,
)

EXAMINATION = [1.0, 0.6, 0.4, 0.3, 0.2]
TASTES = {"a": 0.5, "b": 0.2, "c": 0.05, "d": 0.03, "e": 0.02}
TRUTH = sum(TASTES.values()) / len(TASTES)


def _value(metric: str, clicked: Sequence[int], examination: Sequence[float], shown: int) -> float:
    items = [f"i{rank}" for rank in range(1, shown + 1)]
    accumulator = Accumulator(metric, examination=examination)
    accumulator.update(items, [f"i{rank}" for rank in clicked])
    return accumulator.read(metric).value


@pytest.mark.parametrize(
    ("metric", "clicked", "value"),
    [
        ("debiased_ctr", [2], 2 / 3),
        ("debiased_ctr", [3], 2 / 3),
        ("debiased_ctr@2", [2, 3], 1.0),
        ("debiased_ctr@1", [2], 0.0),
        ("debiased_ctr(floor=0.8)", [2], 1 / 0.8 / 3),
        ("debiased_dcg", [2], 2 / math.log2(3)),
        ("debiased_dcg", [1, 3], 1 + 2 / 2),
        ("debiased_dcg(floor=1)", [3], 0.5),
    ],
)
def test_a_click_counts_by_the_chance_that_its_rank_is_looked_at(
    metric: str, clicked: Sequence[int], value: float
) -> None:
    assert _value(metric, clicked, [1.0, 0.5], shown=3) == pytest.approx(value, rel=1e-12)


def test_with_certain_looks_they_are_the_uncorrected_ones() -> None:
    for events in _events("abcde", 200, seed=4), _events("edcba", 200, seed=5):
        accumulator = Accumulator(
            ["debiased_ctr@3", "ctr@3", "debiased_dcg", "dcg"], examination=[1]
        )
        accumulator.update_many(list(events))
        ctr, plain, dcg, undiscounted = accumulator.compute().values()
        assert (ctr.value, dcg.value) == (plain.value, undiscounted.value)


def _events(order: str, lists: int, seed: int) -> Iterator[Event]:
    """Lists of five items in one order, of users who look at ranks by chance."""
    draw = random.Random(seed)
    for number in range(lists):
        clicks = [
            item
            for look, item in zip(EXAMINATION, order, strict=True)
            if draw.random() < look * TASTES[item]
        ]
        yield Event(recommendations=[*order], interactions=clicks, user=f"u{number % 500}")


def test_two_orders_of_the_same_items_have_one_corrected_rate_and_it_is_the_truth() -> None:
    for order, rate in ("abcde", 0.131), ("edcba", 0.046):
        covered = 0
        for seed in range(20):
            accumulator = Accumulator(
                "debiased_ctr", "ctr", examination=EXAMINATION, intervals=Intervals()
            )
            accumulator.update_many(list(_events(order, 2_000, seed)))
            debiased, ctr = accumulator.compute().values()
            assert ctr.value == pytest.approx(rate, abs=0.02)
            assert debiased.interval is not None
            covered += debiased.interval.low <= TRUTH <= debiased.interval.high
            assert debiased.interval.high - debiased.interval.low < 0.08
            assert not debiased.interval.low <= ctr.value <= debiased.interval.high
        assert covered >= 19


def test_a_wrong_examination_and_a_floor_are_biased() -> None:
    events = list(_events("edcba", 20_000, seed=3))
    values = {}
    for name, metric, examination in (
        ("right", "debiased_ctr", EXAMINATION),
        ("by rank", "debiased_ctr", [1 / rank for rank in range(1, 6)]),
        ("floor", "debiased_ctr(floor=0.35)", EXAMINATION),
    ):
        accumulator = Accumulator(metric, examination=examination)
        accumulator.update_many(events)
        values[name] = accumulator.read(metric).value
    assert values["right"] == pytest.approx(TRUTH, rel=0.06)
    assert values["by rank"] > 1.05 * TRUTH
    assert values["floor"] < 0.8 * TRUTH


def test_another_examination_does_not_merge_and_the_same_one_does() -> None:
    first, same, other = (
        Accumulator("debiased_ctr", examination=chances, intervals=Intervals())
        for chances in ([1, 0.5], (1.0, 0.5), [1, 0.4])
    )
    for accumulator in (first, same, other):
        accumulator.update(["a", "b"], ["b"], user="u")
    first.merge(same)
    assert first.read("debiased_ctr").value == 1.0
    with pytest.raises(UnlikeStateError, match="examination"):
        first.merge(other)


def test_without_an_examination_it_is_asked_for() -> None:
    with pytest.raises(MissingInputError, match=r"give examination= a list"):
        Accumulator("debiased_ctr")
    with pytest.raises(StreamevalError, match="give examination="):
        evaluate([["a"]], [["a"]], "debiased_ctr")
    evaluation = evaluate([["a", "b"]], [["b"]], "debiased_ctr", examination=[1, 0.5])
    assert evaluation["debiased_ctr"].value == 1.0
