"""Scores, rank sums and pairings against loops over all pairs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.events import Batch
from streameval.statistics.pairings import ItemPairings, Pairings, PairingsOptions
from streameval.statistics.scores import ScoredItems, Scores, ScoresOptions
from streameval.statistics.vocabulary import Items
from tests.metrics.preparation import pairs_in_order

_ONLY_CELL = np.array([0])
Outcomes = list[tuple[float, bool]]

scored = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1), st.booleans())
outcomes = st.lists(scored, min_size=1, max_size=30)


def _batch(*lists: Outcomes) -> Batch:
    return Batch(
        recommendations=[list(range(len(pairs))) for pairs in lists],
        interactions=[[item for item, (_, good) in enumerate(pairs) if good] for pairs in lists],
        scores=[[score for score, _ in pairs] for pairs in lists],
    )


def _scores(drawn_outcomes: Outcomes, cap: int) -> Scores:
    scores = ScoredItems(ScoresOptions(cap=cap), Items())
    scores.count(_batch(drawn_outcomes), 0)
    return scores.view(_ONLY_CELL)[0]


@given(outcomes)
def test_above_the_cap_an_area_is_off_by_no_more_than_its_bound(drawn_outcomes: Outcomes) -> None:
    scores = _scores(drawn_outcomes, 1)
    area, bound = scores.area()
    right, pairs = pairs_in_order(drawn_outcomes)
    assert scores.estimated == (len({score for score, _ in drawn_outcomes}) > 1)
    if pairs:
        assert abs(area - right / pairs) <= bound + 1e-12
    if scores.estimated and pairs:
        assert bound > 0 or area == pytest.approx(right / pairs)


@pytest.mark.parametrize("crowded", ["near 0", "near 1", "uniform"])
def test_a_hundred_thousand_scores_are_binned_within_a_millionth(crowded: str) -> None:
    draw = np.random.default_rng(8)
    scores = draw.random(100_000) if crowded == "uniform" else draw.beta(2, 200, 100_000)
    chance = scores.copy()
    if crowded == "near 1":
        scores = 1.0 - scores
    drawn_outcomes = list(
        zip(scores.tolist(), (draw.random(100_000) < chance).tolist(), strict=True)
    )
    exact, none = _scores(drawn_outcomes, 10**6).area()
    area, bound = _scores(drawn_outcomes, 65_536).area()
    assert none == 0
    assert abs(area - exact) <= min(bound, 1e-6)
    assert bound < 1e-3


def _pairings(lists: list[list[int]], options: PairingsOptions) -> Pairings:
    statistic = ItemPairings(options, Items())
    statistic.count(Batch(recommendations=lists, interactions=[()] * len(lists)), 0)
    return statistic.view(_ONLY_CELL)[0]


def test_above_the_cap_pairings_are_bounded_and_estimated() -> None:
    draw = random.Random(3)
    lists = [draw.sample(range(150), draw.randint(1, 8)) for _ in range(600)]
    exact, bounded = (
        _pairings(lists, options) for options in (PairingsOptions(), PairingsOptions(max_rows=600))
    )
    assert (exact.estimated, bounded.estimated) == (False, True)
    assert len(bounded.pairs[0]) <= 600
    assert bounded.mean_cosine() == pytest.approx(exact.mean_cosine(), rel=0.25)
