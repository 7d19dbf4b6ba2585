"""Items shown: exact up to max_items, beyond it a sample that depends only on the items."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streameval import Accumulator
from streameval.events import Batch, Id
from streameval.statistics.exposures import Exposures, ExposuresOptions, ItemsShown
from streameval.statistics.vocabulary import Items
from tests.effort import every_case
from tests.statistics.kinds import batch, state
from tests.strategies import shown

CATALOG: list[Id] = [f"item-{number}" for number in range(20_000)]
_HERE = np.array([0])


def _lists(count: int, *, seed: int = 5) -> list[list[Id]]:
    draw = random.Random(seed)
    return [list(draw.choices(CATALOG, k=10)) for _ in range(count)]


def _counted(lists: list[list[Id]], max_items: int, k: int | None = None) -> ItemsShown:
    statistic = ItemsShown(ExposuresOptions(cutoff=k, max_items=max_items), Items())
    statistic.count(Batch(recommendations=lists, interactions=[[]] * len(lists)), 0)
    return statistic


def _of(statistic: ItemsShown) -> Exposures:
    (found,) = statistic.view(_HERE)
    return found


@every_case("max_items", [500, 2_000])
@every_case("k", [5, None])
def test_an_estimate_is_near_the_truth(max_items: int, k: int | None) -> None:
    lists = _lists(4_000)
    exposures = _of(_counted(lists, max_items, k))
    assert exposures.estimated
    union = {item for items in lists for item in items[:k]}
    assert exposures.distinct == pytest.approx(len(union), rel=6 / max_items**0.5)
    known = frozenset(CATALOG[::2])
    truth = len(union & known)
    assert exposures.distinct_among(known) == pytest.approx(truth, rel=9 / max_items**0.5)


def test_items_that_never_repeat_are_bounded() -> None:
    statistic = _counted([], 100)
    for number in range(0, 50_000, 10):
        new: list[Id] = [f"new-{number + place}" for place in range(10)]
        statistic.count(batch(shown(new, [])), 0)
        if number % 5_000 == 0:
            assert len(_of(statistic).codes) <= 100
    assert len(_of(statistic).codes) <= 100
    assert _of(statistic).distinct == pytest.approx(50_000, rel=0.5)


def test_a_number_and_its_text_are_two_items_and_keep_their_kind() -> None:
    numbers, words = _counted([[1, 2]], 10), _counted([["1", "2"]], 10)
    assert state(numbers) != state(words)


def test_the_truth_lies_within_the_bounds_of_an_estimate() -> None:
    """Other names of the same items have other hashes, which gives independent samples."""
    for trial in range(60):
        items: list[Id] = [f"{trial}/{number}" for number in range(2_000)]
        counted = _counted([items[start : start + 10] for start in range(0, 2_000, 10)], 150)
        exposures = _of(counted)
        assert exposures.estimated
        low, high = exposures.bounds()
        assert low <= 2_000 <= high < 2 * exposures.distinct
        known = frozenset(items[::2])
        low, high = exposures.bounds(known)
        assert low <= 1_000 <= high <= 1_000


def test_the_bounds_of_an_exact_value_are_the_value() -> None:
    exposures = _of(_counted([["a", "b"]], 150))
    assert exposures.bounds() == (2.0, 2.0)
    assert exposures.bounds(frozenset("a")) == (1.0, 1.0)


def test_without_known_users_nothing_is_counted() -> None:
    accumulator = Accumulator("users_covered", "users_covered(having=hit)")
    accumulator.update(["a"], ["a"])
    accumulator.update_many(Batch(recommendations=[["a"]], interactions=[["a"]]))
    assert not any(reading.defined for reading in accumulator.compute().values())
    accumulator.update_many(
        Batch(recommendations=[["a"], ["a"]], interactions=[[], []], users=["u", None])
    )
    covered, hit = accumulator.compute().values()
    assert (covered.value, covered.lists, hit.value, hit.lists) == (1.0, 1, 0.0, 1)


def test_a_user_is_covered_from_the_rank_of_the_first_item() -> None:
    accumulator = Accumulator("users_covered@1")
    accumulator.update(["a", "b"], [], [9, 1], user="u")
    accumulator.update(["a", "b"], [], [9, 2], user="v")
    assert accumulator.read("users_covered@1").value == 1.0
