"""Valid events of an Accumulator, and events that it refuses without counting."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Intervals
from streameval.events import LARGEST_RANK, Batch, Event, Interaction
from streameval.events.errors import InvalidEventError

SHORT: dict[str, Any] = {"users": ["u"], "times": [5], "scores": [[0.5]], "typed": [[]]}
METRICS = ("ndcg@5", "dcg(gain=exp2)@5", "precision", "distinct_items@5")


def _counted(*events: tuple[Any, ...]) -> dict[str, Any]:
    accumulator = Accumulator(*METRICS)
    for event in events:
        accumulator.update(*event)
    return accumulator.state_dict()


@pytest.mark.parametrize(
    "shown",
    [["a", "b"], ("a", "b"), deque(["a", "b"]), np.array(["a", "b"]), {"a": 1, "b": 1}.keys()],
)
@pytest.mark.parametrize(
    "acts", [["b"], ("b",), {"b"}, frozenset("b"), np.array(["b"]), deque("b")]
)
def test_any_collection_of_ids_is_an_event(shown: Any, acts: Any) -> None:
    assert _counted((shown, acts)) == _counted((["a", "b"], ["b"]))


@pytest.mark.parametrize(
    ("acts", "same"),
    [
        (OrderedDict(b=2.0), {"b": 2.0}),
        (MappingProxyType({"b": 2.0}), {"b": 2.0}),
        ({"b": 1}, ["b"]),
        (["b", "b"], ["b"]),
    ],
)
def test_mappings_have_gains_a_gain_of_1_is_the_default_and_repeats_count_once(
    acts: Any, same: Any
) -> None:
    assert _counted((["a", "b"], acts)) == _counted((["a", "b"], same))


def test_numpy_ids_equal_python_ids() -> None:
    shown: list[list[Any]] = [[np.int64(3), 10], [3, np.int32(10)], [np.int64(10)], [3]]
    words: list[list[Any]] = [[np.str_("a"), "b"], ["a", np.str_("b")]]
    for lists in (shown, words):
        texts = ("distinct_items", "mrr@2")
        plain, other = (Accumulator(*texts, max_items=1) for _ in range(2))
        for items in lists:
            plain.update(
                [item.item() if isinstance(item, np.generic) else item for item in items], []
            )
            other.update(items, [])
        assert json.dumps(other.state_dict()) == json.dumps(plain.state_dict())


def test_numpy_numbers_equal_python_numbers() -> None:
    states = []
    for number, kind in ((np.float32, np.array), (float, list)):
        accumulator = Accumulator(*METRICS, "auc", "mae", "dcg(type=click)")
        gain: Any = number(1.5)
        event: dict[str, Any] = {
            "recommendations": ["a", "b"],
            "interactions": {"b": number(2.5)},
            "positions": kind([2, 1]),
            "scores": kind([number(0.5), number(0.25)]),
            "typed": [Interaction("a", gain, "click")],
            "ts": kind([5])[0],
        }
        accumulator.update(**event)
        accumulator.update_many([Event(**event), Event(**event)])
        states.append(json.dumps(accumulator.state_dict()))
    assert states[0] == states[1]


@pytest.mark.parametrize(
    "gain",
    [math.nan, math.inf, -math.inf, "2", None, 10**400, -(10**400), 2.0**1000 * 1.01, -1e308],
)
def test_a_gain_that_is_not_a_number_up_to_2_to_the_1000_is_refused(gain: Any) -> None:
    _check_refusal("invalid_gain", (["a"], {"a": gain}))


@pytest.mark.parametrize(
    "positions",
    [
        [1],
        [1, 2, 3],
        [0, 1],
        *([1, rank] for rank in (-1, 1.5, "2", None, LARGEST_RANK + 1, 2**80)),
    ],
)
def test_invalid_positions_are_refused(positions: Any) -> None:
    _check_refusal("invalid_positions", (["a", "b"], ["a"], positions))


@pytest.mark.parametrize(
    "event",
    [
        ("ab", ["a"]),
        (["a"], "a"),
        (["a"], None),
        (None, ["a"]),
        (["a"], 5),
        ({"a": 1}, ["a"]),
        (["a"], ["a"], "1"),
        (["a"], ["a"], {1}),
        (["a"], ["a"], 1),
        (np.array("a"), ["a"]),
        (["a"], np.array("a")),
        (["a"], ["a"], np.array(1)),
        (np.array([["a"]]), ["a"]),  # as a frame, whose columns are no items
    ],
)
def test_an_invalid_list_is_refused(event: tuple[Any, ...]) -> None:
    _check_refusal("wrong_type", event)


@pytest.mark.parametrize(
    "values",
    [
        {"p": [0.5]},
        {"p": [0.5, 0.5, 0.5]},
        {"p": [0.5, math.nan]},
        {"p": [0.5, math.inf]},
        {"p": [0.5, True]},
        {"p": [0.5, 10**400]},
        {"p": [0.5, [1]]},
        {"p": {0.5, 0.25}},
        {"p": "ab"},
        {1: [0.5, 0.5]},
        [0.5, 0.5],
    ],
)
def test_values_that_are_not_one_number_or_word_for_each_item_are_refused(values: Any) -> None:
    accumulator = Accumulator("ctr", "tests.testing.declared:price")
    accumulator.update(["a"], ["a"], per_item={"price": [2.0]})
    before = accumulator.state_dict()
    event: dict[str, Any] = {"recommendations": ["a", "b"], "interactions": ["a"]}
    with pytest.raises(InvalidEventError) as alone:
        accumulator.update(**event, per_item=values)
    with pytest.raises(InvalidEventError) as together:
        accumulator.update_many([Event(**event, per_item=values)])
    assert alone.value.reason == together.value.reason == "invalid_per_item"
    assert accumulator.state_dict() == before


def test_values_of_items_may_be_unknown_and_of_numpy() -> None:
    for values in ([2.0, None], np.array([2, None], object), (np.float64(2), None)):
        accumulator = Accumulator("tests.testing.declared:price")
        per_item: Any = {"price": values, "team": None}
        accumulator.update(["a", "b"], ["a"], per_item=per_item)
        assert accumulator.read("tests.testing.declared:price").value == 2.0


def test_typed_interactions_may_be_any_sequence() -> None:
    clicks = [Interaction("a", 2.0, "click")]
    states = []
    for typed in (clicks, np.array(clicks, object), [], np.array([]), None):
        accumulator = Accumulator("dcg(type=click)@5")
        accumulator.update(["a", "b"], ["a"], typed=typed)  # type: ignore[arg-type]  # of numpy
        states.append(json.dumps(accumulator.state_dict()))
    assert states[0] == states[1] != states[2] == states[3] == states[4]


def _check_refusal(reason: str, event: tuple[Any, ...]) -> None:
    accumulator = Accumulator(*METRICS)
    before, version = accumulator.state_dict(), accumulator.version
    recommended, interactions, ranks = (*event, None)[:3]
    good = Event(recommendations=["a"], interactions=["a"])
    bad = Event(recommendations=recommended, interactions=interactions, positions=ranks)
    with pytest.raises(InvalidEventError) as error:
        accumulator.update(*event)
    assert error.value.reason == reason
    with pytest.raises(InvalidEventError) as error:
        accumulator.update_many([good, bad])
    assert error.value.reason == reason
    assert accumulator.state_dict() == before
    assert accumulator.version == version


@pytest.mark.parametrize(
    "batch",
    [
        Batch(recommendations=[["a"], ["b"]], interactions=[["a"]]),
        Batch(recommendations=[["a"]], interactions=[["a"], ["b"]]),
        Batch(recommendations=[["a"]], interactions=[["a"]], positions=[[1], [2]]),
        Batch(recommendations=5, interactions=[["a"]]),  # type: ignore[arg-type]  # the mistake
        Batch(recommendations=None, interactions=None),  # type: ignore[arg-type]  # the mistake
        Batch(recommendations=[["a"]], interactions=[["a"]], scores=5),  # type: ignore[arg-type]  # the mistake
        [Event(recommendations=["a"], interactions=["a"]), (["a"], ["a"])],
        [(["a"], ["a"]), Event(recommendations=["a"], interactions=["a"])],
        [(["a"],)],
        (np.array([["a", "b"], ["c", "d"]]), np.array([["b", "x"], ["x", "c"]])),
        [(["a"], ["a"], [1])],
        [7],
        *(
            Batch(recommendations=[["a"], ["b"]], interactions=[[], []], **{name: column})
            for name, column in SHORT.items()
        ),
        [Event(recommendations=None, interactions=["a"], scores=[0.5])],  # type: ignore[arg-type]  # the mistake
        [Event(recommendations=["a"], interactions=["a"], scores=5)],  # type: ignore[arg-type]  # the mistake
        [Event(recommendations=["a"], interactions=["a"], scores=[10**400])],
        [Event(recommendations=["a"], interactions=["a"], typed=5)],  # type: ignore[arg-type]  # the mistake
        [Event(recommendations=["a"], interactions=["a"], ts=2**70)],
        [Event(recommendations=["a"], interactions=["a"], ts=1_767_225_600_000_000_000)],
        [Event(recommendations=["a"], interactions=["a"], ts=np.uint64(2**63))],  # type: ignore[arg-type]  # the mistake
        [Event(recommendations=["a"], interactions=["a"], typed=[Interaction("a", math.nan)])],
    ],
)
def test_an_invalid_batch_is_refused_before_it_is_counted(batch: Any) -> None:
    accumulator = Accumulator(*METRICS)
    with pytest.raises(InvalidEventError):
        accumulator.update_many(batch)
    assert accumulator.state_dict() == _counted()


@pytest.mark.filterwarnings("ignore:3 of 6 gains are below 0")
@pytest.mark.parametrize(
    "gains",
    [
        {"a": 5e-324, "b": 1e-320},
        {"a": 1e-200, "b": 1},
        {"a": 2.0**1000, "b": 1e301},
        {"a": 2**1000, "b": 3},
        {"a": -1e301, "b": 5e-324},
        {"a": 0, "b": -0.0},
        {"a": 0.1, "b": 1e300},
    ],
)
def test_any_finite_gain_has_a_value_within_bounds(gains: Mapping[str, float]) -> None:
    accumulator = Accumulator("ndcg@5", "ndcg(gain=exp2)@5", "dcg@5", "dcg(gain=exp2)@5")
    for _ in range(3):
        accumulator.update(["c", "b", "a"], gains)
    for reading in accumulator.compute().values():
        normalised = reading.metric.startswith("ndcg")
        assert not reading.defined or 0 <= reading.value <= (1 if normalised else 2.0**1001)
    accumulator.merge(accumulator.copy())
    assert accumulator.read("dcg@5").count == 6


@pytest.mark.parametrize("score", [10**300, 1.7e308])
def test_an_error_of_any_size_is_counted(score: float) -> None:
    accumulator = Accumulator("mae", "rmse", intervals=Intervals())
    accumulator.update(["a", "b"], {"a": 1, "b": 2}, scores=[score, -score], user="u")
    assert accumulator.read("mae").value >= 1e300
    assert accumulator.read("rmse").value == math.inf


def test_an_item_at_the_largest_rank_needs_no_memory() -> None:
    accumulator = Accumulator("dcg", "map", "ctr", "precision", "distinct_items")
    accumulator.update(["a", "b"], ["b"], [1, LARGEST_RANK])
    assert accumulator.read("dcg").value == pytest.approx(1 / 31, rel=1e-9)
    assert accumulator.read("ctr").value == 0.5
    assert len(str(accumulator.state_dict())) < 2_000


def test_an_event_is_not_changed() -> None:
    recommended, interactions, ranks = ["b", "a", "b"], {"a": 2.0, "c": 0.5}, [3, 1, 2]
    accumulator = Accumulator(*METRICS, "replay_0_9:mrr@2")
    accumulator.update(recommended, interactions, ranks)
    accumulator.update_many(
        [Event(recommendations=recommended, interactions=interactions, positions=ranks)]
    )
    accumulator.compute()
    assert (recommended, interactions, ranks) == (["b", "a", "b"], {"a": 2.0, "c": 0.5}, [3, 1, 2])
    recommended.clear()
    interactions.clear()
    assert accumulator.read("distinct_items@5").value == 2
