"""Accumulators: versions, copies, merges, refused arguments and warnings."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest

from streameval import (
    Accumulator,
    Event,
    Interaction,
    Intervals,
    Popularity,
    Similarity,
    compare,
)
from streameval.events.errors import (
    DamagedStateError,
    InvalidEventError,
    MetricError,
    NotKeptError,
    StateVersionError,
    SuspiciousEventsWarning,
    UndefinedMetricError,
    UnlikeStateError,
)
from tests.contract import laws
from tests.contract.metric_cases import a_text_of_each, stream
from tests.metrics.preparation import Id

ALL = a_text_of_each()
MADE = Accumulator("mrr", intervals=Intervals())


class Frame(list[str]):
    """Like a pandas frame, which iterates over the names of its columns."""

    ndim = 2


def test_every_change_changes_the_version_and_no_read_does() -> None:
    accumulator = Accumulator("mrr")
    other = accumulator.copy()
    seen = [accumulator.version]
    changes: list[Callable[[], None]] = [
        lambda: accumulator.update(["a"], ["a"]),
        lambda: accumulator.update_many([(["a"], ["a"])]),
        lambda: accumulator.merge(other),
        lambda: accumulator.load_state_dict(accumulator.state_dict()),
        accumulator.reset,
    ]
    for change in changes * 3:
        change()
        assert accumulator.version not in seen
        seen.append(accumulator.version)
        accumulator.compute()
        assert accumulator.version == seen[-1]


def test_arguments_may_be_changed_after_update() -> None:
    accumulator = Accumulator("recall@2", "distinct_items@2")
    items, interactions = ["a", "b"], ["b"]
    for _ in range(2):
        accumulator.update(items, interactions)
        items[:], interactions[:] = ["c", "d"], []
    assert accumulator.lists == 2
    assert accumulator.read("recall@2").value == 1.0
    assert accumulator.read("distinct_items@2").value == 4


def test_a_sample_of_items_continues_in_a_copy_a_state_and_a_merge() -> None:
    def counted(*numbers: int) -> Accumulator:
        accumulator = Accumulator("distinct_items", max_items=64)
        accumulator.update_many([([f"i{number}"], []) for number in numbers])
        return accumulator

    before, after = counted(*range(70)), counted(*range(70, 85))
    assert before.read("distinct_items").estimated
    restored = counted()
    restored.load_state_dict(before.state_dict())
    for duplicate in (before.copy(), restored):
        duplicate.merge(after)
        assert duplicate.state_dict() == counted(*range(85)).state_dict()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Accumulator("mrr@5"), Accumulator("mrr@6")),
        (Accumulator("mrr"), Accumulator("mrr", depth=None, catalog=5)),
        (Accumulator("mrr@5"), Accumulator("mrr(repeats=every)@5")),
        (Accumulator("mrr@5"), Accumulator("ndcg@5")),
        (Accumulator("mrr@5"), Accumulator("mrr@5", "distinct_items@5")),
        (Accumulator("distinct_items@5"), Accumulator("distinct_items@5", max_items=9)),
        (Accumulator("item_coverage", catalog=5), Accumulator("item_coverage", catalog=["a"])),
        (Accumulator("item_coverage", catalog=["b"]), Accumulator("item_coverage", catalog=["a"])),
    ],
)
def test_different_accumulators_do_not_merge_and_both_are_named(
    left: Accumulator, right: Accumulator
) -> None:
    for left_, other in ((left, right), (right, left)):
        before = left_.state_dict()
        with pytest.raises(UnlikeStateError) as error:
            left_.merge(other)
        with pytest.raises(UnlikeStateError):
            left_.load_state_dict(other.state_dict())
        assert error.value.left != error.value.right
        assert left_.state_dict() == before


def test_differences_are_described_in_words() -> None:
    with pytest.raises(UnlikeStateError) as error:
        Accumulator("mrr@5", "ndcg@3").merge(Accumulator("mrr@6", "distinct_items@6"))
    first = "the first has depth 5, hits(depth=5), values of ndcg@3 with gains"
    second = "the second has depth 6, exposures(cutoff=6), hits(depth=6)"
    assert f"different statistics: {first}; {second}." in str(error.value)
    with pytest.raises(UnlikeStateError, match=r"has catalog = 5; .*has catalog = 6") as error:
        Accumulator("mrr", catalog=5).merge(Accumulator("mrr", catalog=6))
    assert "popularity" not in str(error.value)


def test_an_invalid_accumulator_or_state_is_refused() -> None:
    accumulator = Accumulator("mrr")
    with pytest.raises(UnlikeStateError, match=r"has 'Accumulator'; .*has 'dict'"):
        accumulator.merge(accumulator.state_dict())  # type: ignore[arg-type]  # the mistake
    for state in (None, "{}", [1]):
        with pytest.raises(DamagedStateError, match="is not a state_dict"):
            accumulator.load_state_dict(state)  # type: ignore[arg-type]  # the mistake


def test_the_order_in_which_metrics_were_named_does_not_matter() -> None:
    texts = ["ndcg@5", "mrr(repeats=every)@3", "dcg@5", "distinct_items@2", "mrr@2"]
    left, right = laws.counted(texts, stream()), laws.counted(texts[::-1], stream())
    left.merge(right)
    right.load_state_dict(left.state_dict())
    twice = laws.counted(texts, [*stream(), *stream()])
    assert laws.values(left) == laws.values(right) == laws.values(twice)


@pytest.mark.parametrize("version", [0, 2, 4, "3", None])
def test_a_state_of_another_version_is_refused(version: object) -> None:
    state = {**Accumulator("mrr").state_dict(), "version": version}
    with pytest.raises(StateVersionError) as error:
        Accumulator("mrr").load_state_dict(state)
    assert error.value.found == version


def test_a_depth_smaller_than_a_cutoff_is_refused() -> None:
    with pytest.raises(NotKeptError) as error:
        Accumulator("mrr@5", "recall@6", depth=5)
    assert (error.value.metric, error.value.k, error.value.depth) == ("recall@6", 6, 5)
    with pytest.raises(NotKeptError, match="whole list"):
        Accumulator("mrr", depth=5)


def test_a_larger_depth_keeps_more_cutoffs_readable() -> None:
    deep, shallow = Accumulator("mrr@2", depth=10), Accumulator("mrr@9")
    for accumulator in (deep, shallow):
        accumulator.update(["a", "b", "c"], ["c"])
    assert deep.read("mrr@9") == shallow.read("mrr@9")
    assert deep.read("mrr@2").value == 0


@pytest.mark.parametrize("name", ["ndcg", "dcg", "ndcg(gain=exp2)", "dcg(gain=exp2)"])
def test_gains_are_kept_for_named_cutoffs(name: str) -> None:
    accumulator = Accumulator(f"{name}@5")
    accumulator.update(["a", "b"], ["b"])
    assert accumulator.read(f"{name}@2").count == 1
    accumulator.update(["a", "b"], {"b": 2})
    assert accumulator.read(f"{name}@5").count == 2
    with pytest.raises(NotKeptError, match="gains"):
        accumulator.read(f"{name}@2")


def test_a_rule_for_repeats_that_was_not_kept_is_refused() -> None:
    with pytest.raises(NotKeptError, match="every"):
        Accumulator("mrr@5").read("mrr(repeats=every)@5")


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [(8, 3 / 8), (2, 1.5), (["a", "z"], 0.5), ({"a", "b", "c", "d"}, 0.75), (("z",), 0.0)],
)
def test_a_catalogue_is_a_number_or_the_ids(catalog: Collection[Id] | int, expected: float) -> None:
    accumulator = Accumulator("item_coverage@2", catalog=catalog)
    accumulator.update(["a", "b", "c"], [])
    accumulator.update(["c"], [])
    assert accumulator.read("item_coverage@2").value == expected


@pytest.mark.parametrize("catalog", [0, -1, "abc", b"abc", 8.5, Frame(["a"])])
def test_an_invalid_catalogue_is_refused(catalog: object) -> None:
    with pytest.raises(MetricError, match="catalog="):
        Accumulator("item_coverage", catalog=catalog)  # type: ignore[arg-type]  # the mistake


def test_the_coverage_of_an_empty_catalogue_is_undefined() -> None:
    accumulator = Accumulator("item_coverage", catalog=[])
    accumulator.update(["a"], [])
    with pytest.raises(UndefinedMetricError, match="empty"):
        _ = accumulator.read("item_coverage").value


def test_no_metrics_or_no_kept_items_are_refused() -> None:
    with pytest.raises(MetricError, match="at least one"):
        Accumulator()
    with pytest.raises(MetricError, match="max_items=0"):
        Accumulator("distinct_items", max_items=0)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: Accumulator("novelty", popularity={"a": 1}), "streameval.Popularity"),  # type: ignore[arg-type]  # the mistake
        (lambda: Accumulator("list_diversity", similarity=[[1]]), "streameval.Similarity"),  # type: ignore[arg-type]  # the mistake
        (lambda: Accumulator("mrr", intervals=True), "streameval.Intervals"),  # type: ignore[arg-type]  # the mistake
        (lambda: Accumulator("mrr", depth="3"), "depth='3'"),  # type: ignore[arg-type]  # the mistake
        (lambda: Accumulator("mrr", depth=-1), "depth=-1"),
        (lambda: Accumulator("mrr", depth=True), "depth=True"),
        (lambda: Accumulator("mrr", max_items=2.5), "max_items=2.5"),  # type: ignore[arg-type]  # the mistake
        (lambda: Popularity(["a"]), "item -> users"),  # type: ignore[arg-type]  # the mistake
        (lambda: Popularity({"a": math.nan}), "item 'a': nan"),
        (lambda: Popularity({"a": -1}), "item 'a': -1"),
        (lambda: Popularity({"a": 10**400}), "item 'a': 1000"),
        (lambda: Popularity({"a": 1}, users=math.inf), "users= of popularity: inf"),
        (lambda: Similarity(["a"], matrix=[[math.nan]]), "finite numbers"),
        (lambda: Similarity(["a"], vectors=[["x"]]), "rows of numbers"),  # type: ignore[list-item]  # the mistake
        (lambda: Similarity(["a", "b"], matrix=[[1], [1]]), "lacks a column"),
        (lambda: Similarity.of_pairs({("a", "b"): math.nan}), "'b'"),
        (lambda: Intervals(groups=100), "16, 32, 64"),  # type: ignore[arg-type]  # the mistake
        (lambda: Intervals(groups=256.0), "groups=256.0"),  # type: ignore[arg-type]  # the mistake
        (lambda: Intervals(confidence=95), "confidence=95"),
        (lambda: Intervals(precision=0), "precision=0"),
        (lambda: Accumulator("mrr").interval("mrr", "fixd"), "'fixed'"),  # type: ignore[arg-type]  # the mistake
        (lambda: compare(MADE, MADE, "mrr", method="anytme"), "'anytime'"),
        (lambda: compare(MADE, MADE, "mrr", precision=-1), "precision=-1"),
        (lambda: MADE.interval("mrr", precision=2), "precision=2"),
        (lambda: MADE.read(["mrr"]), "['mrr'] is not a metric"),  # type: ignore[arg-type]  # the mistake
        (lambda: Similarity(5, vectors=[[1]]), "ids=5; give the id of each row"),  # type: ignore[arg-type]  # the mistake
        (lambda: Similarity.of_pairs([("a", "b")]), "is not a mapping; give (a, b)"),  # type: ignore[arg-type]  # the mistake
        (lambda: Similarity.of_pairs({"ab": 0.5}), "'ab' is not a pair"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_an_invalid_argument_is_refused_at_once(made: Callable[[], object], named: str) -> None:
    with pytest.raises(MetricError, match=re.escape(named)):
        made()


def test_integers_of_numpy_are_whole_numbers() -> None:
    catalog: Any = np.int64(4)
    coverage = Accumulator("item_coverage@2", catalog=catalog)
    coverage.update(["a", "b", "c"], [])
    assert coverage.read("item_coverage@2").value == 0.5
    assert coverage.state_dict() == json.loads(json.dumps(coverage.state_dict()))
    made: Any = {"depth": np.int64(3), "max_items": np.int32(2)}
    accumulator = Accumulator("distinct_items@2", "mrr@3", **made)
    other = Accumulator("distinct_items@2", "mrr@3", depth=3, max_items=2)
    for counter in (accumulator, other):
        counter.update(["a", "b", "c"], ["c"])
    assert accumulator.state_dict() == other.state_dict()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([({"a", "b"}, ["a"])], "a set, which has no order"),
        ([Event(recommendations=frozenset("ab"), interactions=["a"])], "a set, which has no order"),  # type: ignore[arg-type]  # the mistake
        (Event(recommendations=["a"], interactions=["a"]), "many lists at once"),
        (None, "many lists at once"),
    ],
)
def test_unordered_recommendations_are_refused(given: Any, named: str) -> None:
    accumulator = Accumulator("mrr")
    with pytest.raises(InvalidEventError, match=named):
        accumulator.update_many(given)
    assert accumulator.lists == 0


def test_many_lists_without_a_hit_give_a_warning() -> None:
    accumulator = Accumulator("hit_rate@5", "distinct_items")
    accumulator.update_many([(["1", "2"], ["9"])] * 999)
    accumulator.update_many([(["1", "2"], [])] * 999)
    assert accumulator.advice() is None
    accumulator.update(["1", "2"], ["9"])
    with pytest.warns(SuspiciousEventsWarning, match="1,000 lists") as caught:
        accumulator.compute()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    accumulator.update(["1", "2"], ["1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accumulator.compute()


@pytest.mark.parametrize(
    "metrics", [("hit_rate(type=click)",), ("mrr", "ctr(type=click)", "mrr(type=buy)")]
)
def test_many_lists_without_a_type_that_a_metric_reads_give_a_warning(
    metrics: tuple[str, ...],
) -> None:
    accumulator = Accumulator(*metrics)
    accumulator.update_many([["a"]] * 999, [["a"]] * 999)
    assert accumulator.advice() is None
    accumulator.update_many([["a"]], [["a"]])
    with pytest.warns(SuspiciousEventsWarning, match=r"no interaction of type .*click: do the eve"):
        accumulator.compute()
    accumulator.update(["a"], ["a"], typed=[Interaction("a", 1.0, "click")])
    assert accumulator.advice() is None


def test_lists_without_interactions_say_nothing_of_types() -> None:
    accumulator = Accumulator("mrr", "hit_rate(type=click)")
    accumulator.update_many([["a"]] * 2_000, [[]] * 2_000)
    assert accumulator.advice() is None


def test_recommendations_and_truth_may_be_separate_arguments() -> None:
    top, truth = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[3], [9]])
    for recommended, interactions in (
        (top, truth),
        (top.tolist(), [{3}, {9}]),
        (top, [[3], [9]]),
        (list(top), [np.array([3]), np.array([9])]),
        (top, (np.array([3, 9]), np.array([0, 1, 2]))),
    ):
        accumulator = Accumulator("mrr")
        accumulator.update_many(recommended, interactions)
        assert accumulator.read("mrr").value == 1 / 6
    with pytest.raises(InvalidEventError, match="2 recommendations and 1 interactions"):
        Accumulator("mrr").update_many(top.tolist(), [[3]])


def test_pairs_may_be_the_rows_of_a_frame() -> None:
    rows = np.array([(["a", "b"], ["b"]), (["c"], [])], object)
    accumulator = Accumulator("mrr")
    accumulator.update_many(rows)
    assert (accumulator.lists, accumulator.read("mrr").value) == (2, 0.25)


def test_a_copy_does_not_check_its_inputs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator = Accumulator("item_coverage@2", catalog=["a", "b", "c"])
    accumulator.update(["a", "b"], ["a"])

    def refuse_ids(given: object) -> None:
        assert given is None, "a large catalogue would be read at each scrape"

    monkeypatch.setattr("streameval.catalogue.context.catalog_of", refuse_ids)
    duplicate = accumulator.copy()
    assert duplicate.read("item_coverage@2").value == 2 / 3
    assert duplicate.context is accumulator.context


def test_a_notebook_shows_the_values_as_a_table() -> None:
    accumulator = Accumulator("mrr", "recall@2")
    accumulator.update(["a", "b"], ["b"])
    accumulator.update(["a"], [])
    text = accumulator._repr_html_()
    assert "<caption>2 lists</caption>" in text
    assert "<td>mrr</td><td>0.25</td><td>2</td>" in text
    assert "<td>recall@2</td><td>1</td><td>1</td>" in text
    assert "<td>undefined</td><td>0</td>" in Accumulator("recall@2")._repr_html_()
