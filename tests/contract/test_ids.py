"""Ids of an accumulator are all text or all integers, in every argument of every metric."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from enum import Enum
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from streameval import Accumulator, Columns
from streameval.catalogue import catalogue
from streameval.catalogue.items import Popularity, Similarity
from streameval.events import Batch, Event, Interaction
from streameval.events.errors import (
    InvalidEventError,
    MetricError,
    StreamevalError,
    UnlikeStateError,
)
from tests.contract import laws
from tests.effort import thorough
from tests.strategies import event_of

Door = Callable[[Accumulator, list[Any], list[Any]], None]

NAMES = tuple(catalogue())
ASKED = [*((name,) for name in NAMES[:: 1 if thorough() else 12]), NAMES]
"""Metrics of the accumulators: some alone, because each reads other fields, and all at once."""


class Tensor:
    """Like a tensor of a float, which always has __index__."""

    def __index__(self) -> int:
        raise TypeError("only integer tensors can be an index")


NO_IDS = [Tensor(), None, 1.0, b"a", ("a", 1), True, np.float64(2), np.bool_(1), ["a"], {"a": 1}]

TEXT = event_of(["a", "b"], ["b"])
NUMBERS = event_of([1, 2], [2])


def _gains(accumulator: Accumulator, shown: list[Any], acts: list[Any]) -> None:
    # An unhashable id can only be in recommendations.
    gains = {item: 2.0 for item in acts if item.__hash__}
    accumulator.update(shown if len(gains) == len(acts) else [*shown, *acts], gains)


def _many(form: Callable[[list[Any], list[Any]], Any]) -> Door:
    return lambda accumulator, shown, acts: accumulator.update_many(form(shown, acts))


def _arrow(accumulator: Accumulator, shown: list[Any], acts: list[Any]) -> None:
    try:
        table = pa.table({"recommendations": [shown], "interactions": [acts]})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidEventError("unlike_ids", "Arrow has no array of these") from error
    held = [item for column in table.columns for item in column.to_pylist()[0]]
    if set(map(type, held)) < set(map(type, (*shown, *acts))):
        raise InvalidEventError("invalid_id", "Arrow made ids of them, before we see them")
    accumulator.update_many(table)


DOORS: dict[str, Door] = {
    "update": lambda accumulator, shown, acts: accumulator.update(shown, acts),
    "gains": _gains,
    "pairs": _many(lambda shown, acts: iter([(shown, acts)])),
    "events": _many(
        lambda shown, acts: [Event(recommendations=shown, interactions=acts, scores=[0.5] * 2)]
    ),
    "batch": _many(
        lambda shown, acts: Batch(recommendations=[shown], interactions=[acts], positions=[[1, 2]])
    ),
    "columns": _many(lambda shown, acts: Columns(recommendations=[shown], interactions=[acts])),
    "columns with gains": _many(
        lambda shown, acts: Columns(
            recommendations=[shown], interactions=[acts], gains=[[2.0] * len(acts)]
        )
    ),
    "arrow": _arrow,
}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@every_door
def test_ids_of_the_other_kind_are_refused_by_every_metric(door: Door) -> None:
    for names, (first, other) in product(ASKED, ((TEXT, NUMBERS), (NUMBERS, TEXT))):
        accumulator = laws.counted(names, [first])
        before = laws.bits(accumulator)
        for recommended, interactions in (
            (other.recommendations, other.interactions),
            (other.recommendations, first.interactions),
            (first.recommendations, other.interactions),
            ([first.recommendations[0], other.recommendations[1]], []),
        ):
            with pytest.raises(InvalidEventError) as error:
                door(accumulator, list(recommended), list(interactions))
            assert error.value.reason == "unlike_ids", names
        assert laws.bits(accumulator) == before, names


@every_door
def test_an_invalid_id_is_refused_by_every_metric(door: Door) -> None:
    for names, event in product(ASKED, (TEXT, NUMBERS)):
        good = event.recommendations[0]
        for accumulator in (laws.made(names, [event]), laws.counted(names, [event])):
            before = laws.bits(accumulator)
            for bad, (shown, interactions) in product(
                NO_IDS, (([0, 1], [0]), ([1, 0], []), ([0], [0, 1]))
            ):
                ids = (good, bad)
                with pytest.raises(InvalidEventError):
                    door(accumulator, [ids[i] for i in shown], [ids[i] for i in interactions])
            assert laws.bits(accumulator) == before, names


@every_door
def test_the_first_event_decides_also_within_itself(door: Door) -> None:
    accumulator = Accumulator("hit_rate@2")
    with pytest.raises(InvalidEventError, match=r"interactions.* is '1', text, .* are integers"):
        door(accumulator, [1, 2], ["1", "2"])
    assert (accumulator.lists, accumulator.ids) == (0, None)
    door(accumulator, [1, 2], [2])
    assert accumulator.ids == "integer"
    assert accumulator.read("hit_rate@2").value == 1.0


@pytest.mark.parametrize("bad", NO_IDS)
def test_an_invalid_id_is_named_with_its_place(bad: Any) -> None:
    accumulator = Accumulator("mrr")
    with pytest.raises(InvalidEventError, match=r"recommendations\[1\] is .* text or integers"):
        accumulator.update(["a", bad], ["a"])
    with pytest.raises(InvalidEventError, match=r"event 1: interactions\[0\]"):
        accumulator.update_many([(["a"], ["a"]), (["a"], [bad])])
    assert accumulator.lists == 0


def test_the_error_for_float_ids_names_their_likely_origin() -> None:
    with pytest.raises(InvalidEventError, match="integers with missing values become floats"):
        Accumulator("mrr").update([3.0, 4.0], [3.0])  # type: ignore[list-item]  # the mistake


def test_integers_of_numpy_are_integers_everywhere() -> None:
    first, two, three = np.int64(1), np.uint8(2), np.int32(3)
    theirs = {
        "catalog": np.array([1, 2, 3]),
        "popularity": {first: 4, two: 2},
        "shown": [first, two],
    }
    ours = {"catalog": [1, 2, 3], "popularity": {1: 4, 2: 2}, "shown": [1, 2]}
    states = []
    for inputs in (theirs, ours):
        catalog: Any = inputs["catalog"]
        popularity: Any = inputs["popularity"]
        accumulator = Accumulator(
            *("distinct_items", "mrr", "novelty", "item_coverage"),
            catalog=catalog,
            popularity=Popularity(popularity, users=4),
        )
        shown: Any = inputs["shown"]
        accumulator.update(shown, {shown[1]})
        more: Any = [*shown, three]
        accumulator.update(more, {shown[1]: 2.0})
        states.append(laws.bits(accumulator))
    assert states[0] == states[1]


@pytest.mark.parametrize(
    "given",
    [
        {"catalog": [1, 2]},
        {"popularity": Popularity({1: 3})},
        {"similarity": Similarity([1, 2], vectors=[[1.0], [2.0]])},
        {"similarity": Similarity.of_pairs({(1, 2): 0.5})},
        {"ids": "integer"},
    ],
)
def test_inputs_decide_and_refuse_the_other_kind(given: dict[str, Any]) -> None:
    accumulator = Accumulator("mrr", **given)
    assert accumulator.ids == "integer"
    with pytest.raises(InvalidEventError, match="the ids counted here are integers"):
        accumulator.update(["1", "2"], ["2"])
    accumulator.update([1, 2], [2])
    accumulator.reset()
    assert accumulator.ids == "integer"
    with pytest.raises(MetricError, match="must be all text or all integers; found"):
        Accumulator("mrr", **{"ids": "text", "catalog": ["a"], **given})


def test_baselines_and_typed_interactions_are_of_that_kind_too() -> None:
    accumulator = Accumulator("unexpectedness@2", "recall(type=click)@2", "mrr", ids="text")
    bare = Batch(recommendations=[["a"]], interactions=[["a"]])
    attempts: list[Callable[[], None]] = [
        lambda: accumulator.update(["a"], ["a"], baseline=[1]),
        lambda: accumulator.update(["a"], ["a"], history=[1]),
        lambda: accumulator.update(["a"], ["a"], typed=[Interaction(1)]),
        lambda: accumulator.update_many(replace(bare, histories=[[1]])),
        lambda: accumulator.update_many(replace(bare, baselines=[[1]])),
        lambda: accumulator.update_many(replace(bare, typed=[[Interaction(1)]])),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidEventError, match="the ids counted here are text"):
            attempt()
    with pytest.raises(InvalidEventError, match="give Interaction"):
        accumulator.update(["a"], ["a"], typed=["a"])  # type: ignore[list-item]  # the mistake
    assert accumulator.lists == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Accumulator("item_coverage", catalog=["a", 1]),
        lambda: Accumulator("item_coverage", catalog=[None]),  # type: ignore[list-item]  # the mistake
        lambda: Popularity({"a": 1, 2: 1}),  # type: ignore[arg-type]  # the mistake
        lambda: Popularity({2.0: 1}),  # type: ignore[arg-type]  # the mistake
        lambda: Similarity([True, False], vectors=[[1], [2]]),
        lambda: Accumulator("mrr", ids="string"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_inputs_of_two_kinds_or_of_an_invalid_kind_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(MetricError, match="ids"):
        make()


def _after(event: Event, *texts: str) -> Accumulator:
    accumulator = Accumulator(*texts)
    accumulator.update(event.recommendations, event.interactions)
    return accumulator


def test_states_with_ids_of_the_other_kind_are_neither_merged_nor_loaded() -> None:
    words, numbers = _after(TEXT, "mrr"), _after(NUMBERS, "mrr")
    before = laws.bits(words)
    fixed = Accumulator("mrr", ids="text")
    merging, loading = (
        r"the first has 'text'; the second",
        r"this program has 'text'; the saved state",
    )
    attempts: list[tuple[str, Callable[[], Any]]] = [
        (merging, lambda: words.merge(numbers)),
        (merging, lambda: fixed.merge(numbers)),
        (loading, lambda: fixed.load_state_dict(numbers.state_dict())),
        (loading, lambda: fixed.adopt(laws.dumped(numbers))),
    ]
    for sides, attempt in attempts:
        with pytest.raises(UnlikeStateError, match=f"different ids: {sides} has 'integer'"):
            attempt()
    assert laws.bits(words) == before
    assert fixed.lists == 0


def test_the_state_has_the_kind_of_ids() -> None:
    numbers = _after(NUMBERS, "mrr")
    loaded, adopted, merged = (Accumulator("mrr") for _ in range(3))
    loaded.load_state_dict(json.loads(json.dumps(numbers.state_dict())))
    adopted.adopt(laws.dumped(numbers))
    merged.merge(numbers)
    for numbers_ in (numbers.copy(), pickle.loads(pickle.dumps(numbers)), loaded, adopted, merged):
        assert laws.bits(numbers_) == laws.bits(numbers)
        with pytest.raises(StreamevalError, match="the ids counted here are integers"):
            numbers_.update(["a"], ["a"])
        numbers_.reset()
        numbers_.update(["a"], ["a"])
        assert numbers_.ids == "text"


def test_users_are_of_one_kind() -> None:
    accumulator = Accumulator("users_covered")
    accumulator.update(["a"], [], user="1")
    before = accumulator.state_dict()
    with pytest.raises(InvalidEventError, match=r"user\[0\] is 1, an integer"):
        accumulator.update(["a"], [], user=1)
    with pytest.raises(InvalidEventError, match=r"user\[1\] is 2, an integer"):
        accumulator.update_many(
            [Event(recommendations=["a"], interactions=[], user=user) for user in ("1", 2)]
        )
    assert accumulator.state_dict() == before
    other = Accumulator("users_covered")
    other.update(["a"], [], user=1)
    loaded = Accumulator("users_covered")
    loaded.load_state_dict(other.state_dict())
    for users in (other, loaded, other.copy()):
        with pytest.raises(UnlikeStateError, match="users"):
            accumulator.merge(users)
    with pytest.raises(InvalidEventError, match=r"user\[0\] is '1', text"):
        loaded.update(["a"], [], user="1")
    accumulator.reset()
    accumulator.update(["a"], [], user=1)
    assert accumulator.read("users_covered").value == 1.0


class Product(str, Enum):  # noqa: UP042  str() of a StrEnum is the value, and would hide it
    """Ids of an enumeration; its str() is the name of the member."""

    TEA = "tea"
    MILK = "milk"


def test_members_of_an_enumeration_of_texts_are_saved_as_their_values() -> None:
    members, texts = (Accumulator("distinct_items@2", "users_covered@2") for _ in range(2))
    members.update([Product.TEA, Product.MILK], [Product.MILK], user=Product.TEA)
    texts.update(["tea", "milk"], ["milk"], user="tea")
    assert members.state_dict() == texts.state_dict()
    texts.merge(pickle.loads(pickle.dumps(members)))
    assert texts.read("distinct_items@2").value == 2
    assert texts.read("users_covered@2").value == 1


class Unequal(str):
    """Text that can neither be compared nor hashed."""

    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize("text", [np.str_, Unequal])
@pytest.mark.parametrize("before", [0, 200, 700])
def test_subclasses_of_text_count_as_the_text_they_hold(
    text: Callable[[str], str], before: int
) -> None:
    makers: list[Callable[[str], str]] = [text, str]
    accumulators = [Accumulator("hit_rate@2", "distinct_items@2") for _ in makers]
    for accumulator, make in zip(accumulators, makers, strict=True):
        for _ in range(before):
            accumulator.update(["tea", "milk"], ["milk"])
        accumulator.update([make("tea"), make("milk")], [make("milk")])
        accumulator.update([make("jam"), "rice"], [])
        accumulator.update(["oats"], [make("oats")])
    first, second = accumulators
    assert first.state_dict() == second.state_dict()
    assert first.read("distinct_items@2").value == 5


@pytest.mark.parametrize(
    "items", [["tea", "", "milk"], ["tea", "-1", "milk"], [np.str_(""), np.str_("milk")]]
)
@pytest.mark.parametrize("before", [0, 200, 700])
def test_padding_inside_a_list_is_refused_however_many_came_before(
    items: list[str], before: int
) -> None:
    accumulator = Accumulator("hit_rate@2")
    for _ in range(before):
        accumulator.update(["tea", "milk"], ["milk"])
    for interactions in ([], ["milk"]):
        with pytest.raises(InvalidEventError, match="after the end of its list"):
            accumulator.update(items, interactions)
    assert accumulator.lists == before
