"""Events given one at a time wait in blocks, and count as those of a batch."""

from __future__ import annotations

import random
import sys
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Intervals
from streameval.events import Event, Interaction
from streameval.events.errors import HalfCountedError, InvalidEventError
from streameval.statistics.kernel import BLOCK
from tests.contract import laws

METRICS = (
    *("ndcg@2", "recbole:precision@2", "hit_rate", "mrr(statistic=median)@3", "distinct_items@2"),
    *("users_covered@2", "auc", "recall(per=user)@2", "hit_rate(among=tier:tail)@2"),
)
TIERS = {"tier": {"aa": "tail", "bb": "tail", "cc": "head"}}
ITEMS = ("aa", "bb", "cc", "dd", "ee")
_NOON = 1_700_000_000_000_000
_SECOND = 1_000_000


def _made(**options: Any) -> Accumulator:
    return Accumulator(*METRICS, attributes=TIERS, intervals=Intervals(), **options)


def _event(draw: random.Random, at: int) -> dict[str, Any]:
    """An event with some of the fields."""
    recommended = draw.sample(ITEMS, 3)
    interactions: Any = draw.choices(ITEMS, k=draw.randint(0, 3))
    interactions = draw.choice((list, tuple, set, lambda ids: dict.fromkeys(ids, 2.0)))(
        interactions
    )
    fields: dict[str, Any] = {
        "positions": draw.sample(range(1, 6), 3),
        "scores": [draw.random() for _ in recommended],
        "user": f"user-{draw.randrange(40)}",
        "ts": _NOON + at * 300 * _SECOND,
    }
    inputs = {name: value for name, value in fields.items() if draw.random() < 0.6}
    return {"recommendations": recommended, "interactions": interactions, **inputs}


ANY = (
    *("log_loss", "unexpectedness@2", "user_novelty@2", "recall(type=buy)@2", "hit_rate@2"),
    "ips@2",
)


HITS = ("ndcg@2", "hit_rate@2")
"""Without intervals, the kernel alone keeps their lists."""


def _any_event(draw: random.Random, at: int) -> dict[str, Any]:
    """An event with fields that formulas read."""
    chance = [draw.uniform(0.1, 1) for _ in range(3)]
    fields: dict[str, Any] = {
        "baseline": draw.sample(ITEMS, 2),
        "typed": [Interaction(draw.choice(ITEMS), type=draw.choice(("buy", "click")))],
        "history": draw.sample(ITEMS, 2),
        "per_item": {"propensity": chance, "target": chance[::-1]},
    }
    inputs = {name: value for name, value in fields.items() if draw.random() < 0.7}
    return {**_event(draw, at), **inputs}


@pytest.mark.parametrize("reads", [400, 10_000])
@pytest.mark.parametrize("metrics", [METRICS, ANY, ("ndcg@2", "distinct_items@2"), HITS])
def test_events_of_several_blocks_give_the_bits_of_one_batch(
    metrics: tuple[str, ...], reads: int
) -> None:
    draw, inputs, event_of = random.Random(reads), [], _any_event if metrics is ANY else _event
    options: dict[str, Any] = {"attributes": TIERS, "ids": "text"}
    if metrics is not HITS:
        options["intervals"] = Intervals()
    single, many = (Accumulator(*metrics, **options) for _ in range(2))
    for at in range(BLOCK + 400):
        event = event_of(draw, at)
        inputs.append(Event(**deepcopy(event)))
        single.update(**event)
        for field in event.values():
            if isinstance(field, list | set | dict):
                field.clear()
        if at % reads == 7:
            assert single.read("hit_rate@2" if metrics is ANY else "ndcg@2").lists == at + 1
    many.update_many(inputs)
    assert single.lists == BLOCK + 400
    assert laws.bits(single) == laws.bits(many)


_AS_GIVEN: tuple[dict[str, Any], ...] = (
    {},
    {"recommendations": np.array(["aa", "bb", "cc"]), "interactions": np.array(["bb"])},
    {"recommendations": ["aa", "bb", "cc", "", "-1"], "interactions": {"bb": np.float32(2)}},
    {"positions": np.array([3, 1, 2]), "scores": np.array([0.5, 0.25, 0.125])},
    {"baseline": ("aa", "bb"), "history": ["cc"], "user": "u", "ts": _NOON},
    {"typed": [Interaction("bb", type="buy")]},
    {"per_item": {"propensity": [0.5, 0.5, 0.5], "target": np.array([0.25, 0.5, 0.75])}},
)
_FORMULAS = (*ANY, "overlap@2", "bpref(among=tier:tail)")


@pytest.mark.parametrize(
    ("metrics", "given"),
    [
        *((metrics, given) for metrics in (METRICS, _FORMULAS) for given in _AS_GIVEN),
        (_FORMULAS, {"shown_instead": ["bb", "dd"]}),
    ],
)
def test_an_event_waits_for_others_whatever_is_given_and_read(
    metrics: tuple[str, ...], given: dict[str, Any]
) -> None:
    single, many = (Accumulator(*metrics, attributes=TIERS, intervals=Intervals()) for _ in "ab")
    event = {"recommendations": ["aa", "bb", "cc"], "interactions": ["bb"], **given}
    called: set[str] = set()

    def note(frame: FrameType, what: str, _: Any) -> None:
        if what == "call" and Path(frame.f_code.co_filename).name == "table.py":
            called.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        for _ in range(BLOCK):
            single.update(**event)
    finally:
        sys.setprofile(None)
    assert "count" not in called
    many.update_many([Event(**event)] * BLOCK)
    assert laws.bits(single) == laws.bits(many)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"positions": [1, 2]}, "invalid_positions"),
        ({"positions": [0, 1, 2]}, "invalid_positions"),
        ({"positions": [1, 2.5, 3]}, "invalid_positions"),
        ({"scores": [0.5, 0.5]}, "invalid_scores"),
        ({"scores": [0.5, float("nan"), 0.5]}, "invalid_scores"),
        ({"user": 7}, "unlike_ids"),
        ({"user": 1.5}, "invalid_id"),
        ({"ts": 1.5}, "wrong_type"),
        ({"ts": 10**18}, "invalid_time"),
        ({"recommendations": ["aa", "", "bb"], "user": "u"}, "invalid_id"),
        ({"interactions": {"aa": float("nan")}, "user": "u"}, "invalid_gain"),
    ],
)
@pytest.mark.parametrize("before", [0, 200])
def test_an_invalid_event_raises_at_its_call_and_counts_nothing(
    wrong: dict[str, Any], reason: str, before: int
) -> None:
    accumulator = _made()
    good: dict[str, Any] = {"recommendations": ["aa", "bb", "cc"], "interactions": ["bb"]}
    for _ in range(before + 1):
        accumulator.update(**good, user="u", ts=_NOON)
    state = laws.bits(accumulator)
    with pytest.raises(InvalidEventError) as error:
        accumulator.update(**good | wrong)
    assert error.value.reason == reason
    assert laws.bits(accumulator) == state
    assert accumulator.lists == before + 1


@pytest.mark.parametrize("metrics", [("distinct_items@2",), ("users_covered",)])
def test_an_interrupt_inside_an_event_is_reported(metrics: tuple[str, ...]) -> None:
    accumulator = Accumulator(*metrics, ids="text")
    for _ in range(200):
        accumulator.update(["aa"], ["aa"], user="u")
    blocks: Any = accumulator._counts.blocks
    waiting = blocks.waiting[0]
    # As if it came after the list was taken, and before its items or user were.
    waiting.block.add(["aa"], ["aa"])
    with pytest.raises(HalfCountedError, match="an interrupt or a signal handler"):
        accumulator.compute()


def test_a_full_block_is_counted_before_the_next_event() -> None:
    accumulator = Accumulator("users_covered", ids="text")
    for at in range(BLOCK + 300):
        accumulator.update(["aa"], ["aa"], user=f"user-{at}")
        # The first user is checked as a batch of one is, and waits beside the others.
        assert len(accumulator._counts.blocks) <= BLOCK + 1
    assert accumulator.lists == accumulator.read("users_covered").value == BLOCK + 300
