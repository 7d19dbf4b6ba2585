"""Lists as seen through the items of one value (`among`), and counts by value (`by`)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest

from streameval import Accumulator, Event, Intervals
from streameval.catalogue.items import Attribute
from streameval.events.errors import (
    UnlikeStateError,
)
from tests.metrics.test_who_gets_what import POPULARITY, WORLD

TIER: Final = Attribute.tiers(POPULARITY, head=0.2, tail=0.8)
PROVIDER: Final = {f"i0{n}": "bolt" if n in (1, 3, 6) else "acme" for n in range(7)}
ATTRIBUTES: Final[Mapping[str, Any]] = {"tier": TIER, "provider": PROVIDER}


def counted(*texts: str, events: Sequence[Event] = WORLD, **inputs: Any) -> Accumulator:
    accumulator = Accumulator(*texts, popularity=POPULARITY, attributes=ATTRIBUTES, **inputs)
    accumulator.update_many(list(events))
    return accumulator


def value_of(text: str, **inputs: Any) -> float:
    return counted(text, **inputs).read(text).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # ir_measures 0.4.3 on qrels with only the items of the tail
        ("ndcg(among=tier:tail)@3", 0.479468899),
        ("recall(among=tier:tail)@3", 0.533333333),
        # pandas
        ("ctr(among=tier:tail)@3", 0.454545455),
        # RecBole 1.2.1
        ("gini(by=provider,over=catalog)@3", 0.119047619),
        ("item_coverage(by=provider)@3", 1.0),
        ("distinct_items(by=provider)@3", 2.0),
    ],
)
def test_the_value_is_that_of_the_peer(text: str, expected: float) -> None:
    assert value_of(text) == pytest.approx(expected, abs=1e-9)


def test_an_item_of_a_group_keeps_its_rank_whatever_stands_above_it() -> None:
    accumulator = Accumulator(
        "mrr(among=tier:tail)",
        "hit_rate(among=tier:tail)@2",
        "bpref(among=tier:tail)@3",
        "novelty(among=tier:tail)@2",
        "pap(among=tier:tail)@1",
        attributes={"tier": TIER},
        popularity=POPULARITY,
    )
    accumulator.update(["i00", "i01", "i02", "i03"], {"i00": 1, "i03": 1, "i02": 0})
    values = {text: reading.value for text, reading in accumulator.compute().items()}
    assert values["mrr(among=tier:tail)"] == 1 / 4
    assert values["hit_rate(among=tier:tail)@2"] == 0
    # Of the tail the first two ranks show nothing, the first three show i02.
    assert math.isnan(values["novelty(among=tier:tail)@2"])
    assert values["bpref(among=tier:tail)@3"] == 0
    # pap reads the whole list: k counts hits and other items, not ranks.
    assert values["pap(among=tier:tail)@1"] == 0


def test_explicit_ranks_stay_too() -> None:
    accumulator = Accumulator("mrr(among=tier:tail)", attributes={"tier": TIER})
    accumulator.update(["i00", "i03"], ["i03"], [1, 7])
    assert accumulator.read("mrr(among=tier:tail)").value == 1 / 7


def test_an_item_that_popularity_does_not_have_belongs_to_the_tail() -> None:
    accumulator = Accumulator("hits(among=tier:tail)", attributes={"tier": TIER})
    accumulator.update(["new", "i00"], ["new", "i00"])
    assert accumulator.read("hits(among=tier:tail)").value == 1


@pytest.mark.parametrize("k", ["", "@1", "@3"])
def test_ctr_of_all_tiers_weighted_by_the_items_shown_is_ctr(k: str) -> None:
    draw = random.Random(4)
    items = [*POPULARITY.counts, "new"]
    events = [
        Event(recommendations=draw.choices(items, k=5), interactions=draw.sample(items, 2))
        for _ in range(200)
    ]
    texts = [f"ctr(among=tier:{tier}){k}" for tier in ("head", "mid", "tail")]
    accumulator = counted(*texts, f"ctr{k}", events=events)
    parts = [accumulator.read(text) for text in texts]
    total = accumulator.read(f"ctr{k}")
    assert sum(part.total or 0 for part in parts) == total.total
    assert sum(part.count for part in parts) == total.count


def test_metrics_by_user_and_intervals_read_the_group_too() -> None:
    text, by_user = "ndcg(among=tier:tail)@3", "ndcg(among=tier:tail,per=user)@3"
    accumulator = counted(text, by_user, "ndcg@3", intervals=Intervals(groups=16))
    sums, total = accumulator.groups(text), accumulator.groups("ndcg@3")
    assert sums is not None
    assert total is not None
    assert sums.denominators.sum() == 5
    assert float(sums.numerators.sum()) == pytest.approx(5 * 0.479468899, abs=1e-8)
    assert total.denominators.sum() == 6
    assert accumulator.read(by_user).count == 2


@pytest.mark.parametrize("events", [WORLD, WORLD[::-1]])
def test_columns_of_codes_give_the_value_of_lists(events: Sequence[Event]) -> None:
    text = "ndcg(among=tier:tail)@3"
    recommended = np.array([event.recommendations[:3] for event in events])
    accumulator = Accumulator(text, attributes=ATTRIBUTES)
    accumulator.update_many(recommended, [event.interactions for event in events])
    assert accumulator.read(text).value == pytest.approx(0.479468899, abs=1e-9)


def test_by_an_attribute_a_thinned_sample_has_no_value_and_says_what_to_do() -> None:
    text = "gini(by=provider,over=catalog)@3"
    reading = counted(text, max_items=3).read(text)
    assert math.isnan(reading.value)
    assert reading.estimated
    assert reading.note is not None
    assert "raise max_items" in reading.note
    assert counted(text, max_items=7).read(text).note is None


def test_an_item_of_several_values_counts_for_each_and_one_without_a_value_for_none() -> None:
    genres = {"a": ["news", "drama"], "b": ["news"], "c": []}
    accumulator = Accumulator(
        "distinct_items(by=genre)", "gini(by=genre)", attributes={"genre": genres}
    )
    accumulator.update(["a", "b", "c"], [])
    assert accumulator.read("distinct_items(by=genre)").value == 2
    # news 2, drama 1
    assert accumulator.read("gini(by=genre)").value == pytest.approx(1 / 6)


def test_states_of_other_tiers_do_not_merge_and_a_version_may_grow() -> None:
    text = "ndcg(among=tier:tail)@3"
    other = {"tier": Attribute.tiers(POPULARITY, tail=0.5)}
    here, there = (Accumulator(text, attributes=attributes) for attributes in (ATTRIBUTES, other))
    with pytest.raises(UnlikeStateError, match=r"attributes.tier"):
        here.merge(there)
    with pytest.raises(UnlikeStateError, match=r"attributes.tier"):
        there.adopt(b"".join(here.dump()))
    few, more = (
        Accumulator(
            "ndcg(among=genre:news)@3", attributes={"genre": Attribute(values, version="1")}
        )
        for values in ({"a": "news"}, {"a": "news", "b": "news"})
    )
    for accumulator in (few, more):
        accumulator.update(["a", "b"], ["b"])
    few.merge(more)
    assert few.read("ndcg(among=genre:news)@3").lists == 2
