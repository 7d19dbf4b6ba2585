"""Matrices of scores and interactions at their edges: stored zeros, and lists of exactly k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streameval import evaluate
from streameval.events.errors import UsageError

sparse = pytest.importorskip("scipy.sparse")
SCORES = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.4]])


def stored(rows: list[list[tuple[int, float]]], columns: int = 3) -> Any:
    """A sparse matrix with these entries, zeros among them."""
    values = [value for row in rows for _, value in row]
    items = [item for row in rows for item, _ in row]
    offsets = np.cumsum([0, *map(len, rows)])
    return sparse.csr_matrix((values, items, offsets), shape=(len(rows), columns))


def values(scores: Any, truth: Any, *metrics: str, **how: Any) -> list[float]:
    """The values of these metrics, in order."""
    evaluation = evaluate(scores, truth, *metrics, **how)
    return [evaluation[metric].value for metric in metrics]


@pytest.mark.parametrize("form", ["tocsr", "tocsc", "tocoo", "todok"])
def test_a_stored_zero_of_the_truth_is_no_interaction(form: str) -> None:
    truth = stored([[(0, 0.0), (1, 1.0)], [(2, 0.0)]])
    metrics = ("hit_rate@1", "recall@2", "relevant")
    assert values(SCORES, getattr(truth, form)(), *metrics) == [0.0, 1.0, 1.0]


def test_a_stored_zero_of_what_is_left_out_leaves_nothing_out() -> None:
    seen = stored([[(0, 0.0)], [(1, 1.0)]])
    assert values(SCORES, [[0], [1]], "hit_rate@1", "hit_rate@3", exclude=seen) == [0.5, 0.5]


def test_a_stored_zero_of_the_scores_is_a_score() -> None:
    """An item that is not stored is not recommended."""
    scores = stored([[(0, 0.0), (2, 0.7)], [(1, 0.3)]])
    metrics = ("hit_rate@1", "hit_rate@2", "retrieved@3")
    assert values(scores, [[0], [0]], *metrics) == [0.0, 0.5, 3.0]


def test_entries_that_are_stored_twice_are_one_gain() -> None:
    truth = stored([[(0, 1.0), (0, 2.0)], [(1, 3.0)]])
    assert values(SCORES, truth, "value_per_list@1") == [3.0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix])
def test_lists_of_exactly_k_fewer_and_more_have_the_items_in_order(form: Any, k: int) -> None:
    texts = [f"hit_rate@{k}", f"mrr@{k}", f"retrieved@{k}"]
    for items in (1, 2, 3):
        scores = SCORES[:, :items]
        last = [[int(np.argmin(row))] for row in scores]
        hit = float(k >= items)
        assert values(form(scores), last, *texts) == [hit, hit / items, 2.0 * min(k, items)]


@pytest.mark.parametrize("truth", [np.array([[0]]), np.array([0]), [[0]], [{0: 1.0}]])
def test_a_truth_of_fewer_users_is_refused(truth: Any) -> None:
    with pytest.raises(UsageError, match=r"truth=: 1 (lists|rows) for 2 rows of scores"):
        evaluate(SCORES, truth, "mrr")
