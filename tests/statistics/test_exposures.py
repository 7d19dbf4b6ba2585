"""Items shown: exact up to max_items, a sample that depends on the items alone beyond."""

from __future__ import annotations

import random

import pytest

from streameval.events import Batch, Id
from streameval.statistics.exposures import Exposures, ExposuresOptions

CATALOG: list[Id] = [f"item-{number}" for number in range(20_000)]


_NUMBERS: list[list[Id]] = [[1, 2]]
_WORDS: list[list[Id]] = [["1", "2"]]


def _exposures(max_items: int = 1_000_000) -> Exposures:
    return Exposures(ExposuresOptions(cutoffs=(1, 5), whole=True, max_items=max_items))


def _lists(count: int, *, seed: int = 5) -> list[list[Id]]:
    draw = random.Random(seed)
    return [list(draw.choices(CATALOG, k=10)) for _ in range(count)]


def _counted(shown: list[list[Id]], max_items: int) -> Exposures:
    exposures = _exposures(max_items)
    exposures.update_many(Batch(recommendations=shown, interactions=[[]] * len(shown)))
    return exposures


def test_distinct_items_up_to_every_cutoff_are_exact_below_the_cap() -> None:
    shown = _lists(500)
    exposures = _counted(shown, 1_000_000)
    for k in (1, 5, None):
        union = {item for items in shown for item in items[:k]}
        assert exposures.distinct(k) == len(union)
        known = frozenset(CATALOG[:9_000])
        assert exposures.distinct_among(known, k) == len(union & known)
    assert not exposures.estimated
    assert not exposures.covers(2)


def test_items_at_ranks_of_their_own_count_there() -> None:
    exposures = _exposures()
    exposures.update(["a", "b", "c"], [], [5, 1, 6])
    assert [exposures.distinct(k) for k in (1, 5, None)] == [1, 2, 3]


@pytest.mark.parametrize("max_items", [500, 2_000])
def test_an_estimate_is_near_the_truth(max_items: int) -> None:
    shown = _lists(4_000)
    exposures = _counted(shown, max_items)
    assert exposures.estimated
    for k in (5, None):
        union = {item for items in shown for item in items[:k]}
        assert exposures.distinct(k) == pytest.approx(len(union), rel=6 / max_items**0.5)
        known = frozenset(CATALOG[::2])
        truth = len(union & known)
        assert exposures.distinct_among(known, k) == pytest.approx(truth, rel=9 / max_items**0.5)


def test_above_the_cap_neither_order_nor_partition_nor_form_shows() -> None:
    shown = _lists(900)
    whole = _counted(shown, 300)
    one_by_one, merged = _exposures(300), _exposures(300)
    for items in reversed(shown):
        one_by_one.update(items, [])
    for start in range(0, len(shown), 70):
        merged.merge(_counted(shown[start : start + 70], 300))
    assert whole.estimated
    assert whole == one_by_one == merged


def test_parts_below_the_cap_are_thinned_as_soon_as_they_pass_it_together() -> None:
    shown = [[item] for item in CATALOG[:80]]
    merged = _counted(shown[:40], 50)
    merged.merge(_counted(shown[40:], 50))
    assert merged == _counted(shown, 50)
    assert merged.estimated


def test_items_that_never_repeat_are_bounded() -> None:
    exposures = _exposures(100)
    for number in range(0, 50_000, 10):
        exposures.update([f"new-{number + place}" for place in range(10)], [])
        if number % 5_000 == 0:
            assert sum(map(len, exposures.state_dict()["bands"])) <= 100
    assert sum(map(len, exposures.state_dict()["bands"])) <= 100
    assert exposures.distinct(None) == pytest.approx(50_000, rel=0.5)


def test_a_number_and_its_text_are_two_items_and_keep_their_kind() -> None:
    numbers, words = _counted(_NUMBERS, 10), _counted(_WORDS, 10)
    assert numbers != words
    assert [row[0] for row in numbers.state_dict()["bands"][0]] == [1]


@pytest.mark.parametrize("ranks", [None, [1, 5, 6]])
def test_an_item_is_counted_in_one_band(ranks: list[int] | None) -> None:
    exposures = _exposures()
    exposures.update(["a", "b", "c"], [], ranks)
    counts = [row[1] for band in exposures.state_dict()["bands"] for row in band]
    assert sum(counts) == 3


def test_the_truth_lies_within_the_bounds_of_an_estimate() -> None:
    """Other names for the same items have other hashes: each is a sample of its own."""
    for trial in range(60):
        items: list[Id] = [f"{trial}/{number}" for number in range(2_000)]
        exposures = _counted([items[start : start + 10] for start in range(0, 2_000, 10)], 150)
        assert exposures.estimated
        low, high = exposures.bounds(None)
        assert low <= 2_000 <= high < 2 * exposures.distinct(None)
        known = frozenset(items[::2])
        low, high = exposures.bounds(None, known)
        assert low <= 1_000 <= high <= 1_000


def test_what_is_exact_has_no_bounds_to_speak_of() -> None:
    exposures = _counted([["a", "b"]], 150)
    assert exposures.bounds(None) == (2.0, 2.0)
    assert exposures.bounds(None, frozenset("a")) == (1.0, 1.0)
