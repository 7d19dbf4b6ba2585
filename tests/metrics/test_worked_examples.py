"""What the metrics mean: examples worked by hand or printed elsewhere, digit for digit."""

from __future__ import annotations

import math

import pytest

from streameval import Accumulator
from tests.effort import every_case
from tests.metrics.preparation import Interactions

# Lists of five and their outcomes: hits at 1 and 3; at 2; none; nothing done.
LISTS: list[tuple[str, str]] = [("abcde", "ac"), ("abcde", "bxyz"), ("abcde", "x"), ("abcde", "")]


def _value(text: str, *, catalog: int | None = None) -> float:
    accumulator = Accumulator(text, catalog=catalog)
    for shown, acts in LISTS:
        accumulator.update(list(shown), list(acts))
    return accumulator.read(text).value


def _log(rank: int) -> float:
    return 1 / math.log2(rank + 1)


@every_case(
    ("text", "expected"),
    [
        ("hit_rate@1", 1 / 4),
        ("hit_rate@2", 2 / 4),
        ("hit_rate(empty=skip)@2", 2 / 3),
        ("precision@2", (1 / 2 + 1 / 2) / 4),
        ("precision@10", (2 / 10 + 1 / 10) / 4),
        ("precision(denominator=length)@10", (2 / 5 + 1 / 5) / 4),
        ("precision", (2 / 5 + 1 / 5) / 4),
        ("recall@3", (2 / 2 + 1 / 4 + 0) / 3),
        ("recall(empty=zero)@3", (2 / 2 + 1 / 4 + 0) / 4),
        ("mrr", (1 + 1 / 2) / 4),
        ("mrr@1", 1 / 4),
        ("map@5", ((1 + 2 / 3) / 2 + (1 / 2) / 4 + 0) / 3),
        ("map@2", (1 / 2 + (1 / 2) / 2 + 0) / 3),
        ("map(denominator=k)@5", ((1 + 2 / 3) / 5 + (1 / 2) / 5 + 0) / 3),
        ("dcg@5", (_log(1) + _log(3) + _log(2)) / 4),
        ("ndcg@5", ((1 + _log(3)) / (1 + _log(2)) + _log(2) / sum(map(_log, range(1, 5)))) / 3),
        ("ctr@2", 2 / 8),
        ("ctr", 3 / 20),
        ("distinct_items@3", 3),
        ("item_coverage@3", 3 / 8),
    ],
)
def test_a_value_worked_by_hand(text: str, expected: float) -> None:
    catalog = 8 if text.startswith("item_coverage") else None
    assert _value(text, catalog=catalog) == pytest.approx(expected, rel=1e-14)


def test_lists_without_interactions_end_a_value_where_the_convention_says_so() -> None:
    assert math.isnan(_value("recall(empty=nan)@3"))
    assert math.isnan(_value("hit_rate(empty=nan)"))


# Six documents judged 3, 2, 3, 0, 1, 2 in the order shown, and one of 3 and one of 2 not shown:
# the worked example of the encyclopaedias, DCG 6.861, ideal DCG 8.740, nDCG 0.785.
JUDGED: Interactions = {"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2, "g": 3, "h": 2}


@every_case(
    ("text", "printed"), [("dcg@6", "6.861"), ("ndcg@6", "0.785"), ("dcg(gain=exp2)@6", "13.848")]
)
def test_judged_documents_give_the_printed_digits(text: str, printed: str) -> None:
    accumulator = Accumulator(text)
    accumulator.update(list("abcdef"), JUDGED)
    assert f"{accumulator.read(text).value:.3f}" == printed


@every_case(
    ("repeats", "rows", "expected"),
    [
        ("first", 0, 1 / 3),
        ("every", 0, 1 / 3),
        ("compact_before_cut", 0, 1 / 2),
        ("compact_after_cut", 0, 1 / 2),
        ("compact_after_cut", 2, 0),
    ],
)
def test_an_item_that_stands_twice_keeps_or_closes_its_gap(
    repeats: str, rows: int, expected: float
) -> None:
    text = f"mrr(repeats={repeats},rows={rows})@3"
    accumulator = Accumulator(text)
    accumulator.update(["a", "a", "b", "b"], ["b"])
    assert accumulator.read(text).value == expected


def test_every_place_of_an_item_counts_where_that_was_chosen() -> None:
    texts = ("precision@4", "precision(repeats=every)@4", "recall(repeats=every)@4")
    accumulator = Accumulator(*texts)
    accumulator.update(["a", "b", "a", "b"], ["a", "z"])
    assert [accumulator.read(text).value for text in texts] == [1 / 4, 2 / 4, 2 / 2]


def test_positions_are_the_ranks() -> None:
    accumulator = Accumulator("mrr@10", "ctr@3", "precision(denominator=length)@10")
    accumulator.update(["a", "b"], ["b"], [2, 4])
    accumulator.update(["a", "b"], ["a"], [2, 1])
    assert accumulator.read("mrr@10").value == (1 / 4 + 1 / 2) / 2
    assert accumulator.read("ctr@3").value == 1 / 3
    assert accumulator.read("precision(denominator=length)@10").value == 1 / 2


def test_what_a_value_is_the_mean_of() -> None:
    accumulator = Accumulator("recall@3", "ctr@2", "distinct_items@2")
    for shown, acts in LISTS:
        accumulator.update(list(shown), list(acts))
    recall, ctr, distinct = accumulator.compute().values()
    assert (recall.total, recall.count, recall.lists) == (1.25, 3, 4)
    assert (ctr.total, ctr.count, ctr.lists) == (2.0, 8, 4)
    assert (distinct.total, distinct.count, distinct.lists) == (None, 4, 4)
