"""Pairings against every pair of lists compared by hand, and above their cap."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest

from streameval.events import Batch
from streameval.statistics.pairings import ItemPairings, Pairings, PairingsOptions
from streameval.statistics.vocabulary import Items


def _lists(count: int, items: int) -> list[list[int]]:
    draw = random.Random(3)
    return [draw.sample(range(items), draw.randint(1, 8)) for _ in range(count)]


def _counted(lists: list[list[int]], options: PairingsOptions) -> Pairings:
    pairings = ItemPairings(options, Items())
    pairings.count(Batch(recommendations=lists, interactions=[[]] * len(lists)), 0)
    return pairings.view(np.array([0]))[0]


def _by_hand(lists: list[list[int]]) -> float:
    pairs = list(combinations(map(set, lists), 2))
    return math.fsum(len(a & b) / math.sqrt(len(a) * len(b)) for a, b in pairs) / len(pairs)


def test_lists_of_unlike_length_are_compared_as_sets() -> None:
    lists = _lists(60, 30)
    found = _counted(lists, PairingsOptions()).mean_cosine()
    assert found == pytest.approx(_by_hand(lists), rel=1e-12)


def test_above_the_cap_memory_is_bounded_and_the_value_estimated() -> None:
    lists = _lists(600, 150)
    pairings = _counted(lists, PairingsOptions(max_rows=600))
    assert pairings.estimated
    assert len(pairings.pairs[0]) <= 600
    assert pairings.mean_cosine() == pytest.approx(_by_hand(lists), rel=0.25)


def test_below_the_cap_nothing_is_estimated() -> None:
    assert not _counted(_lists(60, 30), PairingsOptions()).estimated
