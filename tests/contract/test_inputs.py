"""Inputs of metrics besides events: missing, changed and invalid ones are refused."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator
from streameval.catalogue.items import Popularity, Similarity
from streameval.events import Batch
from streameval.events.errors import (
    InvalidEventError,
    MetricError,
    MissingInputError,
    UnlikeStateError,
)
from tests.contract import laws
from tests.contract.metric_cases import stream

SCORED = ("auc", "gauc", "log_loss", "mae", "normalised_entropy", "expected_calibration_error")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("novelty@5", "popularity="),
        ("surprisal@5", "popularity="),
        ("average_popularity", "popularity="),
        ("tail_percentage@5", "popularity="),
        ("list_diversity@5", "similarity="),
        ("item_coverage@5", "catalog="),
        ("gini(over=catalog)@5", "catalog="),
    ],
)
def test_a_missing_input_is_named(text: str, missing: str) -> None:
    with pytest.raises(MissingInputError, match=missing):
        Accumulator(text)


def test_dicts_of_one_kind_of_ids_have_the_type_of_inputs_and_gains() -> None:
    """The point is that mypy --strict takes the variables, as in the code of a user."""
    clicks: dict[str, int] = {"a": 3, "b": 1}
    sold: Counter[int] = Counter([1, 1, 2])
    alike: dict[tuple[str, str], float] = {("a", "b"): 0.5}
    by_number: dict[tuple[int, int], float] = {(1, 2): 0.25}
    assert [Popularity(clicks).users, Popularity(sold).users] == [4, 3]
    assert Similarity.of_pairs(alike).between("b", "a") == 0.5
    assert Similarity.of_pairs(by_number).between(2, 1) == 0.25
    accumulator = Accumulator("hit_rate@2", popularity=Popularity(clicks))
    accumulator.update([*clicks], clicks)
    accumulator.update([*clicks], clicks.keys())
    assert accumulator.read("hit_rate@2").value == 1


def test_an_input_that_no_parameter_asks_for_may_be_missing() -> None:
    accumulator = Accumulator("gini@2")
    accumulator.update(["a", "b"], [])
    assert accumulator.read("gini@2").value == 0
    with pytest.raises(MissingInputError, match="catalog="):
        accumulator.read("gini(over=catalog)@2")


@pytest.mark.parametrize(
    "other",
    [
        {"popularity": Popularity({"a": 2, "b": 1}, users=3)},
        {"popularity": Popularity({"a": 1, "b": 1}, users=4)},
        {"popularity": Popularity({"a": 1, "c": 1}, users=3)},
        {"similarity": Similarity(["a", "b"], matrix=[[1, 0.5], [0.5, 1]])},
        {"similarity": Similarity(["b", "a"], vectors=[[1, 0], [0, 1]])},
        {"catalog": {"a"}},
        {"catalog": 2},
    ],
)
def test_a_changed_input_is_refused_by_merge_and_load(other: dict[str, Any]) -> None:
    inputs: dict[str, Any] = {
        "catalog": {"a", "b"},
        "popularity": Popularity({"a": 1, "b": 1}, users=3),
        "similarity": Similarity(["a", "b"], vectors=[[1, 0], [0, 1]]),
    }
    texts = ("novelty@2", "list_diversity@2", "item_coverage@2")
    here, there = Accumulator(*texts, **inputs), Accumulator(*texts, **{**inputs, **other})
    same = Accumulator(*texts, **inputs)
    for accumulator in (here, there, same):
        accumulator.update(["a", "b"], [])
    before = here.state_dict()
    with pytest.raises(UnlikeStateError, match="inputs"):
        here.merge(there)
    with pytest.raises(UnlikeStateError, match="inputs"):
        here.load_state_dict(there.state_dict())
    assert here.state_dict() == before
    here.merge(same)
    assert here.lists == 2


def test_numbers_of_numpy_give_the_same_inputs() -> None:
    three: Any = np.int64(3)
    half: Any = np.float64(0.5)
    counts = Popularity({"a": three, "b": half}, users=three)
    assert counts.identity == Popularity({"a": 3, "b": 0.5}, users=3).identity
    pairs = Similarity.of_pairs({("a", "b"): half})
    assert pairs.identity == Similarity.of_pairs({("a", "b"): 0.5}).identity


@pytest.mark.parametrize("text", SCORED)
def test_lists_without_scores_give_no_evidence(text: str) -> None:
    accumulator = Accumulator(text)
    accumulator.update(["a", "b"], ["a"])
    accumulator.update([], [], scores=[])
    reading = accumulator.read(text)
    assert math.isnan(reading.value)
    assert reading.count == 0


@pytest.mark.parametrize(
    "scores", [[0.5], [0.5, 0.5, 0.5], [0.5, math.nan], [0.5, math.inf], [0.5, "1"], [0.5, None]]
)
def test_scores_without_one_number_per_item_are_refused(scores: Any) -> None:
    accumulator = Accumulator("auc", "rmse")
    before = accumulator.state_dict()
    with pytest.raises(InvalidEventError) as error:
        accumulator.update(["a", "b"], ["a"], scores=scores)
    assert error.value.reason == "invalid_scores"
    good, bad = [0.25, 0.5], scores
    batch = Batch(recommendations=[["a", "b"]] * 2, interactions=[["a"]] * 2, scores=[good, bad])
    with pytest.raises(InvalidEventError):
        accumulator.update_many(batch)
    assert accumulator.state_dict() == before


@pytest.mark.parametrize(
    "given",
    [
        {"vectors": [[1.0], [2.0]], "matrix": [[1.0, 0.0], [0.0, 1.0]]},
        {},
        {"vectors": [[1.0], [2.0], [3.0]]},
    ],
)
def test_a_similarity_that_does_not_match_its_ids_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(MetricError, match="similarity"):
        Similarity(["a", "b"], **given)


def test_a_refused_reading_does_not_affect_others() -> None:
    texts = ["capri:recall@5", "recall@5", "capri:personalization@5", "capri:list_diversity@5"]
    accumulator = laws.counted(texts, stream())
    readings = accumulator.compute()
    assert [laws.value(readings[text]) is None for text in texts] == [True, False, True, True]
    assert not readings["capri:recall@5"].defined
    assert readings["capri:recall@5"].lists == len(stream())
