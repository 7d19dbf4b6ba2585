"""What the conventions of other systems do with unusual lists and ratings, beside the records."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from streameval import Accumulator, Columns
from streameval.catalogue import parse

Interactions = Sequence[str] | Mapping[str, float]

_UNRATED = ("recbole", "replay", "replay_0_9", "replay_0_11", "replay_0_22", "rectools")
_RANKED = ("hit_rate@2", "precision@2", "recall@2", "map@2", "ndcg@2", "mrr@2")


def value(
    text: str, shown: Sequence[str], interactions: Interactions, catalog: int | None = None
) -> float:
    accumulator = Accumulator(text, catalog=catalog)
    accumulator.update(shown, interactions)
    return accumulator.read(text).value


@pytest.mark.parametrize("system", _UNRATED)
def test_an_item_of_the_truth_is_relevant_whatever_its_rating(system: str) -> None:
    for name in _RANKED:
        text = f"{system}:{name}"
        rated = value(text, ["a", "b"], {"a": 0.0, "b": -1.0, "c": 5.0})
        assert rated == value(text, ["a", "b"], ["a", "b", "c"]) > 0, text


def test_mcc_of_rectools_reads_no_ratings_either() -> None:
    rated = value("rectools:MCC@2", ["a", "b"], {"a": 0.0, "c": -1.0}, catalog=9)
    assert rated == value("rectools:MCC@2", ["a", "b"], ["a", "c"], catalog=9) > 0


def test_a_smallest_gain_counts_although_the_system_reads_no_ratings() -> None:
    assert value("recbole:hit@2", ["a", "b"], {"a": 1.0}) == 1.0
    assert value("recbole:hit(min_gain=2)@2", ["a", "b"], {"a": 1.0, "c": 3.0}) == 0.0


def test_totals_of_hits_are_counters_also_if_every_rating_is_relevant() -> None:
    assert parse("recbole:ndcg@10").counts_up
    assert not parse("recbole:ndcg(gain=linear)@10").counts_up


def test_judged_is_over_the_items_shown_as_in_ir_measures() -> None:
    judged = {"a": 1.0, "b": 0.0}
    assert value("judged@10", ["a", "x"], judged) == 0.5
    assert value("judged(denominator=k)@10", ["a", "x"], judged) == 0.1
    assert value("judged@10", [], judged) == value("judged", [], judged) == 0.0


def test_lists_whose_ratings_are_all_0_count_0_in_lenskit_2025() -> None:
    accumulator = Accumulator("lenskit_2025:NDCG(gain=linear)@5", "lenskit:ndcg@5")
    accumulator.update(["a", "b"], {"a": 2.0})
    accumulator.update(["a", "b"], {"b": 0.0})
    left_out, counted = (
        accumulator.read(f"lenskit{v}@5") for v in (":ndcg", "_2025:NDCG(gain=linear)")
    )
    assert (left_out.value, left_out.count) == (1.0, 1)
    assert (counted.value, counted.count) == (0.5, 2)


def test_mcc_of_a_catalogue_of_one_item_is_0_in_rectools() -> None:
    for k in (1, 2, 10):
        assert value(f"rectools:MCC@{k}", ["a"], ["a"], catalog=1) == 0.0
        assert math.isnan(value(f"rectools:MCC@{k}", ["a"], ["a"], catalog=3)) == (k > 3)


def test_gains_count_in_full_in_the_rank_biased_precision_of_ranx() -> None:
    assert value("ranx:rbp(p=0.5)", ["a", "b"], {"b": 3.0}) == 0.75
    assert value("rbp(p=0.5)", ["a", "b"], {"b": 3.0}) == 0.25


def test_an_item_that_a_list_repeats_is_interacted_with_as_often_in_rectools() -> None:
    recommended = ["a", "x", "a", "b", "a"]
    assert value("rectools:Recall@3", recommended, ["a", "b"]) == 2 / 4
    assert value("rectools:Precision@5", recommended, ["a", "b"]) == 4 / 5


def test_repeats_count_alike_for_lists_and_for_columns() -> None:
    draw = random.Random(4)
    lists = [draw.choices(range(9), k=draw.randint(0, 12)) for _ in range(300)]
    interactions = [draw.sample(range(9), draw.randint(0, 4)) for _ in range(300)]
    texts = (
        "rectools:Recall@5",
        "rectools:MAP@3",
        "rectools:F1Beta@10",
        "rectools:NDCG(best=cut)@5",
    )
    one_by_one, at_once = Accumulator(*texts), Accumulator(*texts)
    for recommended, interacted in zip(lists, interactions, strict=True):
        one_by_one.update(recommended, interacted)
    offsets = [np.cumsum([0, *map(len, rows)]) for rows in (lists, interactions)]
    flat = [np.array([item for row in rows for item in row]) for rows in (lists, interactions)]
    columns = zip(flat, offsets, strict=True)
    at_once.update_many(Columns(recommendations=next(columns), interactions=next(columns)))
    for text in texts:
        assert at_once.read(text).value == one_by_one.read(text).value


def test_the_help_of_map_says_which_systems_divide_by_more() -> None:
    relevant = [f"w{n}" for n in range(8)]
    assert value("map@2", ["w0", "w1"], relevant) == 1.0
    for text in ("ranx:map@2", "trec:map_cut@2", "rectools:MAP@2"):
        assert value(text, ["w0", "w1"], relevant) == 2 / 8
    assert "`ranx:map@10`" in (parse("map@2").definition.function.__doc__ or "")
