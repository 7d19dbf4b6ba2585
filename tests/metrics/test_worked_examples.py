"""Worked examples of metrics, by hand or from publications, to the printed digits."""

from __future__ import annotations

import pytest

from streameval import Accumulator
from tests.metrics.preparation import Interactions

# Six documents judged 3, 2, 3, 0, 1, 2 in the order shown, and one of 3 and one of 2 not shown:
# the worked example of the encyclopaedias, DCG 6.861, ideal DCG 8.740, nDCG 0.785.
JUDGED: Interactions = {"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2, "g": 3, "h": 2}


@pytest.mark.parametrize(
    ("text", "printed"), [("dcg@6", "6.861"), ("ndcg@6", "0.785"), ("dcg(gain=exp2)@6", "13.848")]
)
def test_judged_documents_give_the_printed_digits(text: str, printed: str) -> None:
    accumulator = Accumulator(text)
    accumulator.update(list("abcdef"), JUDGED)
    assert f"{accumulator.read(text).value:.3f}" == printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mrr@3", 1 / 3),
        ("mrr(repeats=every)@3", 1 / 3),
        ("replay_0_9:mrr@3", 1 / 2),
        ("replay:mrr@3", 1 / 2),
        ("replay:mrr(rows=2)@3", 0),
    ],
)
def test_a_repeated_item_keeps_or_closes_its_gap(text: str, expected: float) -> None:
    accumulator = Accumulator(text)
    accumulator.update(["a", "a", "b", "b"], ["b"])
    assert accumulator.read(text).value == expected


def test_every_place_of_an_item_can_count() -> None:
    texts = ("precision@4", "precision(repeats=every)@4", "recall(repeats=every)@4")
    accumulator = Accumulator(*texts)
    accumulator.update(["a", "b", "a", "b"], ["a", "z"])
    assert [accumulator.read(text).value for text in texts] == [1 / 4, 2 / 4, 2 / 2]


def test_only_the_first_hits_have_pairs() -> None:
    accumulator = Accumulator("pap@1", "pap@2")
    accumulator.update(["a", "b", "x"], ["a", "b"])
    assert accumulator.read("pap@1").value == 1.0
    assert accumulator.read("pap@2").value == (2 + 2) / (2 * 2)


def test_positions_are_the_ranks() -> None:
    accumulator = Accumulator("mrr@10", "ctr@3", "precision(denominator=length)@10")
    accumulator.update(["a", "b"], ["b"], [2, 4])
    accumulator.update(["a", "b"], ["a"], [2, 1])
    assert accumulator.read("mrr@10").value == (1 / 4 + 1 / 2) / 2
    assert accumulator.read("ctr@3").value == 1 / 3
    assert accumulator.read("precision(denominator=length)@10").value == 1 / 2


def test_a_convention_leaves_empty_lists_out_of_quantiles() -> None:
    accumulator = Accumulator(text := "lenskit:precision(statistic=median)@2")
    for items, interactions in (("ab", "b"), ("", "b"), ("b", "b")):
        accumulator.update(list(items), list(interactions))
    assert (accumulator.read(text).value, accumulator.read(text).count) == (0.75, 2)


def test_the_denominator_of_a_mean() -> None:
    accumulator = Accumulator("recall@3", "ctr@2", "distinct_items@2")
    for interactions in ("ac", "bxyz", "x", ""):
        accumulator.update(list("abcde"), list(interactions))
    recall, ctr, distinct = accumulator.compute().values()
    assert (recall.total, recall.count, recall.lists) == (1.25, 3, 4)
    assert (ctr.total, ctr.count, ctr.lists) == (2.0, 8, 4)
    assert (distinct.total, distinct.count, distinct.lists) == (None, 4, 4)
